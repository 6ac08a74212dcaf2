"""Runs and published curves side by side: overlay, parameters, and sentences that say what can be told apart."""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

import scaling
from scaling import compare
from scaling.curve import curve as eq1
from webapp.curves import answers, words
from webapp.curves.axes import AXES, DEFAULT_AXIS, DEFAULT_LEVEL
from webapp.curves.figure import parameter_rows, try_fit
from webapp.curves.fitting import Curve, Question, curve_of
from webapp.curves.models import ReferenceFit
from webapp.runs.models import Run

Payload = dict[str, Any]
GRID_POINTS = 100
PUBLISHED_SPAN = (0.05, 20.0)  # published curves are drawn between these multiples of their C_mid


def comparison(
    runs: Sequence[Run], references: Sequence[ReferenceFit], *, x: str = DEFAULT_AXIS, view: str = "rate"
) -> Payload:
    """Overlay and table. `view` is "rate" (pass rate) or "share" (share of the gain A - R0 reached).

    R0 of the published curves is not published, so they can only be drawn as shares; the table has them always.
    """
    curves = [curve_of(run, x) for run in runs]
    fits = [try_fit(curve, Question(x))[0] for curve in curves]
    series = [_run_series(*each, view) for each in zip(runs, curves, fits, strict=True)]
    if view == "share":
        series += [_published_series(reference) for reference in references]
    table = [_run_row(run, fit) for run, fit in zip(runs, fits, strict=True)]
    table += [_published_row(reference) for reference in references]
    axis = AXES[x]
    return {
        "x": {"key": axis.key, "label": axis.label, "short": axis.short},
        "view": view,
        "series": series,
        "table": table,
        "scale": _scale(table),
        "sentences": sentences(runs, fits, references, view),
    }


def label_of(run: Run) -> str:
    """Name and seed, as legends show a run."""
    return f"{run.name}, seed {run.seed}" if f"seed {run.seed}" not in run.name else run.name


def _run_series(run: Run, curve: Curve, fit: "scaling.Fit | None", view: str) -> Payload:
    series: Payload = {"id": run.pk, "kind": "run", "label": label_of(run), "points": None, "fit": None}
    transform = _transform(fit, view)
    if transform is not None:
        series["points"] = {"x": curve.x.tolist(), "y": np.asarray(transform(curve.y)).tolist()}
        if fit is not None and fit.params is not None:
            series["fit"] = _drawn(fit, curve, transform)
    return series


def _transform(fit: "scaling.Fit | None", view: str) -> Callable[[Any], Any] | None:
    """From pass rates to what the view shows; None where this fit cannot be shown in it."""
    if view == "rate":
        return lambda rate: rate
    if fit is None or fit.params is None or fit.status != "ok":
        return None
    r0, a = fit.params["R0"], fit.params["A"]
    return lambda rate: (np.asarray(rate) - r0) / (a - r0)


def _drawn(fit: "scaling.Fit", curve: Curve, transform) -> Payload:
    grid = np.geomspace(fit.window[0], 2 * float(curve.x[-1]), GRID_POINTS)
    lo, hi = fit.predict_interval(grid, kind="mean")
    return {
        "x": grid.tolist(),
        "y": np.asarray(transform(fit.predict(grid))).tolist(),
        "lo": np.asarray(transform(lo)).tolist(),
        "hi": np.asarray(transform(hi)).tolist(),
        "solid_until": fit.window[1],
    }


def _published_series(reference: ReferenceFit) -> Payload:
    grid = reference.c_mid * np.geomspace(*PUBLISHED_SPAN, GRID_POINTS)
    share = eq1(grid, r0=0.0, a=1.0, b=reference.b, c_mid=reference.c_mid)
    fit = {"x": grid.tolist(), "y": np.asarray(share).tolist(), "lo": None, "hi": None, "solid_until": None}
    label = f"{reference.name} (published)"
    return {"id": reference.slug, "kind": "published", "label": label, "points": None, "fit": fit}


def _run_row(run: Run, fit: "scaling.Fit | None") -> Payload:
    return {
        "id": run.pk,
        "kind": "run",
        "label": label_of(run),
        "recipe": str(run.revision) if run.revision else "",
        "state": run.state,
        "ceiling": answers.ceiling_of(fit, DEFAULT_LEVEL),
        "rows": parameter_rows(fit, DEFAULT_LEVEL) if fit else [],
        "n": fit.n if fit else 0,
        "r2": fit.r2 if fit else None,
    }


def _published_row(reference: ReferenceFit) -> Payload:
    lo, hi = reference.a - reference.margin, reference.a + reference.margin
    margin = f"published, margin ± {reference.margin:g}"
    cells = [("A", "A", f"{reference.a:.3f}", margin), ("B", "B", f"{reference.b:.2f}", "published")]
    cells.append(
        ("C_mid", "C<sub>mid</sub>", f"{words.amount(reference.c_mid)} {reference.unit}", "published")
    )
    cells.append(("R0", "R<sub>0</sub>", "–", "not published"))
    keys = ("name", "html_name", "value_text", "interval_text")
    return {
        "id": reference.slug,
        "kind": "published",
        "label": f"{reference.name} (published)",
        "recipe": reference.source,
        "state": "published",
        "ceiling": {
            "identified": True, "value": reference.a, "lo": lo, "hi": hi, "text": f"{reference.a:.3f}",
            "interval_text": margin,
        },
        "rows": [dict(zip(keys, cell, strict=True)) for cell in cells],
        "n": None,
        "r2": None,
    }  # fmt: skip


def _scale(table: Sequence[Payload]) -> list[float]:
    ends = [row["ceiling"][end] for row in table for end in ("lo", "hi") if row["ceiling"][end] is not None]
    return [max(0.0, min(ends) - 0.05), min(1.0, max(ends) + 0.05)] if ends else [0.0, 1.0]


def sentences(
    runs: Sequence[Run], fits: "Sequence[scaling.Fit | None]", references: Sequence[ReferenceFit], view: str
) -> list[str]:
    """For each pair of runs whether they can be told apart, by the paper's rule (section 2.1, A.8)."""
    said = [_pair_sentence(a, b) for a, b in combinations(list(zip(runs, fits, strict=True)), 2)]
    if references and view == "rate":
        said.append(
            "Published curves state no R0, so they cannot be drawn as pass rates; "
            "switch to the share of the gain to see their shapes."
        )
    if references and runs:
        said.append("Published pass rates are of other tasks and models: compare shapes, not heights.")
    return said


def _pair_sentence(a: "tuple[Run, scaling.Fit | None]", b: "tuple[Run, scaling.Fit | None]") -> str:
    (run_a, fit_a), (run_b, fit_b) = a, b
    name_a, name_b = label_of(run_a), label_of(run_b)
    if (run_a.task, run_a.model) != (run_b.task, run_b.model):
        return f"{name_a} and {name_b} differ in task or model: their ceilings are not rivals."
    if fit_a is None or fit_b is None or fit_a.status != "ok" or fit_b.status != "ok":
        open_ended = name_a if fit_a is None or fit_a.status != "ok" else name_b
        return f"{name_a} against {name_b}: the ceiling of {open_ended} is not identified yet, so nothing can be said."
    return _verdict(compare.compare(fit_a, fit_b), name_a, name_b) + _halfway(fit_a, fit_b, name_a, name_b)


def _halfway(fit_a: "scaling.Fit", fit_b: "scaling.Fit", name_a: str, name_b: str) -> str:
    """Which run is halfway up its curve with less compute, where their intervals of C_mid tell."""
    half_a, half_b = ((fit.params or {})["C_mid"] for fit in (fit_a, fit_b))
    if half_a > half_b:
        return _halfway(fit_b, fit_a, name_b, name_a)
    latest, earliest = fit_a.interval("C_mid")[1], fit_b.interval("C_mid")[0]
    if latest is None or earliest is None or latest >= earliest:
        return ""
    return f" {name_a} is halfway up its curve with {100 * half_a / half_b:.0f} % of the compute that {name_b} takes."


def _verdict(result: compare.Comparison, name_a: str, name_b: str) -> str:
    delta, (lo, hi) = result.delta_a or 0.0, result.delta_a_interval
    apart, leader, other = abs(delta), name_a, name_b
    if delta < 0:
        leader, other = name_b, name_a
        lo, hi = None if hi is None else -hi, None if lo is None else -lo
    lead = " to ".join("open" if end is None else words.signed(end) for end in (lo, hi))
    if result.winner in ("a", "b"):
        return (
            f"{leader} has a higher ceiling than {other}, by {apart:.3f} ({words.percent(DEFAULT_LEVEL)} {lead}); "
            f"differences up to {compare.MARGIN:g} would count as a tie."
        )
    if result.winner == "undecided" and result.delta_a is not None:
        return (
            f"{leader} and {other} cannot be told apart yet: the ceiling of the first is {apart:.3f} higher, which may "
            f"be chance ({words.percent(DEFAULT_LEVEL)} {lead})."
        )
    if result.B_a is None or result.B_b is None:
        return f"{name_a} against {name_b}: {result.reason}."
    tie = (
        f"{name_a} and {name_b} tie in ceiling ({apart:.3f} apart, within {compare.MARGIN:g}); "
        f"at the shared ceiling {result.shared_A:.3f} their B are {result.B_a:.2f} and {result.B_b:.2f}"
    )
    if result.more_efficient is None:
        return f"{tie}, which their intervals do not tell apart."
    return f"{tie}: {name_a if result.more_efficient == 'a' else name_b} is more efficient."
