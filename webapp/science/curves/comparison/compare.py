"""Runs, recipes and published curves side by side: overlay, parameters, and sentences that say what can be told apart.

A few are fitted as their points stand, with bands. Of many the stored fits and some of the points are read, in the
same number of queries; the payload says so.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from webapp.record.runs.bounds import label_of
from webapp.record.runs.models import Run
from webapp.science.curves import estimates, words
from webapp.science.curves.answers import HTML_NAMES, floored, shown
from webapp.science.curves.comparison import drawing, odds
from webapp.science.curves.comparison.entries import (
    PUBLISHED,
    RECIPE,
    RUN,
    Entry,
    is_empty,
    mixed,
    notes,
    published_entries,
    recipe_entries,
    run_entries,
    why_unfitted,
    with_fits,
)
from webapp.science.curves.fitting import Question, curves_of, fits_of, thinned_curves
from webapp.science.curves.models import ReferenceFit
from webapp.science.curves.ranking import standing
from webapp.science.curves.ranking.variation import courses_of, seeds_of_tasks
from webapp.science.curves.selectors import run_totals
from webapp.science.curves.words import AXES, DEFAULT_AXIS, Payload

__all__ = ["FEW_RUNS", "FEW_SERIES", "comparison", "entries_of", "payload_of"]

FEW_SERIES = 12  # more than that are drawn from stored fits and sampled points, without bands
FEW_RUNS = 36


def comparison(
    runs: Sequence[Run],
    references: Sequence[ReferenceFit],
    *,
    x: str = DEFAULT_AXIS,
    view: str = "rate",
    by: str = "run",
) -> Payload:
    """Overlay and table of runs, each alone or (`by` "recipe") with the others of its recipe. Four queries at most.

    `view`: "rate" (pass rate), "share" (share of the gain A - R0 reached) or "slope" (log F against log C). R0 of
    published curves is not published, so they are drawn as shares and slopes only; the table has them always.
    """
    return payload_of(entries_of(runs, references, x=x, by=by), x=x, view=view, by=by)


def entries_of(
    runs: Sequence[Run], references: Sequence[ReferenceFit], *, x: str = DEFAULT_AXIS, by: str = "run"
) -> list[Entry]:
    """What is compared, with fits: made now for a few (so that they can be drawn from), stored ones for many."""
    own = recipe_entries(runs, run_totals(runs)) if by == RECIPE else run_entries(runs)
    ids = [run.pk for run in runs]
    published = published_entries(references)
    if not is_many(own):
        curves = curves_of(ids, x)
        made, crashed = fits_of(curves, Question(x))
        live = {pk: estimates.of_live(fit) for pk, fit in made.items()} | {
            pk: estimates.of_crash(len(curves[pk].x)) for pk in crashed
        }
        few = [with_fits(entry, live, curves=curves) for entry in own]
        return _with_courses(few, runs, x, live) + published
    fits: dict[str, estimates.RunFit | None] = {
        pk: stored.fit for pk, stored in estimates.latest(ids, x=x).items()
    }
    thinned = thinned_curves(ids, x)
    many = [with_fits(entry, fits, thinned=thinned) for entry in own]
    return _with_courses(many, runs, x, {}) + published


def _with_courses(
    entries: Sequence[Entry], runs: Sequence[Run], x: str, fits: dict[str, estimates.RunFit | None]
) -> list[Entry]:
    """The entries with their runs' forecasts, and how far seeds differ on their tasks."""
    if not runs:
        return list(entries)
    courses = courses_of(
        runs[0].project, [run.pk for run in runs], x, {pk: fit.live for pk, fit in fits.items() if fit}
    )
    seeds = seeds_of_tasks(runs[0].project, x)
    return [
        replace(entry, courses=tuple(courses.get(run.pk) for run in entry.runs), between=seeds[entry.task])
        for entry in entries
    ]


def is_many(entries: Sequence[Entry]) -> bool:
    """Whether these are too many to be fitted while somebody waits."""
    own = [entry for entry in entries if entry.kind != PUBLISHED]
    return len(own) > FEW_SERIES or sum(len(entry.runs) for entry in own) > FEW_RUNS


def payload_of(entries: Sequence[Entry], *, x: str, view: str, by: str) -> Payload:
    """What the page draws and says of the entries."""
    axis, many = AXES[x], is_many(entries)
    unfitted, missing = why_unfitted(entries, x, many=many), notes(entries, x)
    series = [drawing.series(entry, view, many=many) for entry in entries]
    found = odds.all_compared(entries)
    table = _table(entries, found)
    return {
        "x": {"key": axis.key, "label": axis.label, "short": axis.short},
        "y_label": drawing.Y_LABELS[view],
        "view": view,
        "by": by,
        "many": many,
        "mixed": mixed(entries),
        "series": series if view != "rate" else [s for s in series if s["kind"] != PUBLISHED],
        "table": table,
        "scale": words.scale(row[name] for row in table for name in ("ceiling", "forecast_ceiling")),
        "unfitted": unfitted,
        "empty": is_empty(entries),
        "sentences": odds.sentences(entries, found, view, x, unfitted=unfitted),
        "notes": _notes(entries, series, view=view, x=x, many=many) + missing,
        "missing": missing,
    }


def _notes(
    entries: Sequence[Entry], series: Sequence[Payload], *, view: str, x: str, many: bool
) -> list[str]:
    """What the chart does not show, or shows in another way."""
    alone = sum(entry.kind == RUN for entry in entries)
    left_out = sum(one["left_out"] for one in series)
    hidden = [e.label for e in entries if e.kind != PUBLISHED and not drawing.drawable(e, view)]
    said = (
        (many, _sampled_note(entries, view, x)),
        (mixed(entries), f"{words.count(alone, 'curve is', 'curves are')} of a single run (thin, dash-dotted) and "
         "rests on one seed, that of a recipe on several."),
        (left_out, f"{words.count(left_out, 'evaluation')} at or above the fitted ceiling, or at or below R0, "
         f"{'has' if left_out == 1 else 'have'} no place in the slope view."),
        (view == "slope", "F(R) = C^B on the fitted curve: the steeper the line, the more efficient the recipe."),
        (hidden, f"Not drawn here, because the ceiling is not identified: {words.few(hidden)}."),
    )  # fmt: skip
    return [sentence for holds, sentence in said if holds]


def _sampled_note(entries: Sequence[Entry], view: str, x: str) -> str:
    thinned = [one for entry in entries for one in entry.thinned if one is not None]
    shown, total = sum(len(one.x) for one in thinned), sum(one.total for one in thinned)
    fits = f"Curves are the stored {'forecasts' if view == 'rate' else 'fits'}, drawn without their bands"
    if view != "rate" and x != DEFAULT_AXIS:
        fits = (
            f"Fits are stored by {AXES[DEFAULT_AXIS].label.lower()} only, so no curves are drawn on this axis"
        )
    points = f"{shown:,} of {total:,} evaluations are shown" if shown < total else "Every evaluation is shown"
    return (
        f"{points}. {fits}; choose at most {FEW_SERIES} series to have them fitted as their points stand now."
    )


def _table(entries: Sequence[Entry], compared: odds.AllCompared) -> list[Payload]:
    """A row for each entry, those of a task and model together, the best first; published ones last."""
    several = len(compared) > 1
    rows = []
    for (task, model), (rivals, found) in compared.items():
        said = [_row(entry) | standing.told(found, place) for place, entry in enumerate(rivals)]
        for row in said:
            row |= {"tie_group": f"{task} {model} {row['rank']}" if row["tied"] else None}
            row |= {"group": f"{task}, {model}" if several else ""}
        order = found.here.in_order()
        rows += [said[place] for place in order + [one for one in range(len(said)) if one not in set(order)]]
    index = {entry.key: number for number, entry in enumerate(entries)}
    published = [
        _row(entry) | standing.NOTHING | {"group": ""} for entry in entries if entry.kind == PUBLISHED
    ]
    return [row | {"series": index[row["id"]]} for row in rows + published]


def _row(entry: Entry) -> Payload:
    only = entry.fits[0] if len(entry.fits) == 1 else None
    return {
        "id": entry.key,
        "kind": entry.kind,
        "published": entry.kind == PUBLISHED,
        "label": entry.label,
        "recipe": entry.detail,
        "state": entry.runs[0].state if entry.kind == RUN else entry.kind,
        "ceiling": entry.ceiling,
        "rows": _published_rows(entry.reference) if entry.reference else _parameter_rows(entry),
        "n": sum(fit.n for fit in entry.fits if fit is not None) if entry.kind != PUBLISHED else None,
        "r2": only.r2 if only else None,
        "runs": [{"id": run.pk, "label": label_of(run)} for run in entry.runs],
        "pinned": len(entry.pinned),
        "said": _said_of_seeds(entry),
    }


def _said_of_seeds(entry: Entry) -> str:
    """What `scaling.seeds.joint` says of a recipe's runs, and how many of them pin the ceiling."""
    if not entry.grouped:
        return ""
    silent = len(entry.runs) - len(entry.pinned)
    said = [entry.joint.message] if entry.joint is not None else []
    if silent and entry.pinned:
        said.append(
            f"{silent} of {len(entry.runs)} runs {'does' if silent == 1 else 'do'} not pin the ceiling yet and "
            f"{'is' if silent == 1 else 'are'} not in it"
        )
    return "; ".join(said)


def _parameter_rows(entry: Entry) -> list[dict[str, Any]]:
    """Parameters with their intervals in words; of a run whose ceiling is not identified, R0 and what A is at least."""
    if (found := entry.parameters) is None:
        return _unpinned_rows(entry)
    return [_parameter_row(name, *found[name]) for name in estimates.PARAMETERS]


def _parameter_row(name: str, value: float, lo: float | None, hi: float | None) -> dict[str, Any]:
    row = {"name": name, "html_name": HTML_NAMES.get(name, name)}
    if not math.isfinite(value):
        return row | {"value_text": "–", "interval_text": "not identified", "value": None, "lo": lo, "hi": hi}
    return row | {"value": value, "lo": lo, "hi": hi} | shown(name, value, (lo, hi))


def _unpinned_rows(entry: Entry) -> list[dict[str, Any]]:
    if entry.grouped or not entry.drawn_fits:
        return []
    fit = entry.drawn_fits[0]
    bound = fit.intervals["A"][0]
    nothing: estimates.Estimate = (math.nan, None, None)
    rows = [_parameter_row(name, *nothing) for name in ("A", "B", "C_mid")]
    if bound is not None:
        rows[0]["interval_text"] = f"at least {floored(bound)}"
    return [*rows, _parameter_row("R0", (fit.params or {})["R0"], *fit.intervals["R0"])]


def _published_rows(reference: ReferenceFit) -> list[dict[str, Any]]:
    margin = f"published, margin ± {reference.margin:g}"
    cells = [
        ("A", "A", f"{reference.a:.3f}", margin),
        ("B", "B", f"{reference.b:.2f}", "published"),
        ("C_mid", "C<sub>mid</sub>", f"{words.amount(reference.c_mid)} {reference.unit}", "published"),
        ("R0", "R<sub>0</sub>", "–", "not published"),
    ]
    keys = ("name", "html_name", "value_text", "interval_text")
    return [dict(zip(keys, cell, strict=True)) for cell in cells]
