"""Small multiples of any metrics: a line for each run, or for each recipe the mean over its seeds with their range."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from webapp.record.runs.bounds import label_of, recipe_key, recipe_name
from webapp.record.runs.models import Run
from webapp.record.runs.panels import MOST_POINTS, Line, gaps_of, lines_of, matching, metrics_of
from webapp.science.curves import words
from webapp.science.curves.words import AXES

Payload = dict[str, Any]
MOST_PANELS = 12
MOST_PATTERNS = 20
DIGITS, DIGITS_OF_X = 5, 8  # of the largest value of a line
FEWEST_LINES = 8  # of which one can lie apart from the others
FENCES = 3.0  # of the distance between the quartiles, beyond them: Tukey's outer fences
ALIKE = 0.05  # of the median: the least distance between quartiles that is taken
# What is shown where nothing is asked for, as far as any run reports it.
USUAL = (
    "eval/pass_rate", "train/reward", "train/entropy", "train/grad_norm", "train/truncation_rate",
    "train/response_length", "train/mismatch_logp_mean", "train/kl", "train/ratio_clip_fraction",
    "train/effective_batch", "train/staleness_mean", "perf/tokens_per_second", "perf/generator_idle",
    "perf/trainer_idle",
)  # fmt: skip


def panels_of(
    runs: Sequence[Run], patterns: Sequence[str] = (), *, x: str = "step", by: str = "run"
) -> Payload:
    """The panels of the metrics that the patterns mean. `series` are the owners of lines, each of one of the `groups`,
    recipes, in the order of their first runs. Raises ValueError for no axis."""
    names = metrics_of(run.pk for run in runs)
    usual = [name for name in USUAL if name in names] or matching(names, ["*"])
    meant = matching(names, patterns) if patterns else usual
    shown, ids = meant[:MOST_PANELS], [run.pk for run in runs]
    lines, gaps = lines_of(ids, shown, x), gaps_of(ids, shown, x)
    groups = _groups(runs)
    owners = groups if by == "recipe" else [(label_of(run), [run]) for run in runs]
    places = {run.pk: place for place, (_, members) in enumerate(groups) for run in members}
    return {
        "x": {"key": x, "label": AXES[x].label, "short": AXES[x].short},
        "by": by,
        "groups": [{"label": label, "runs": len(members)} for label, members in groups],
        "series": [{"label": label, "group": places[members[0].pk]} for label, members in owners],
        "runs": len(runs),
        "matching": len(meant),
        "unmatched": [one for one in patterns if not matching(names, [one])],
        "panels": [_panel(metric, lines[metric], gaps, owners) for metric in shown],
    }


def _groups(runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    """(label, its runs) of each recipe, with task and model where one name stands for several."""
    found: dict[tuple, list[Run]] = {}
    for run in runs:
        found.setdefault(recipe_key(run), []).append(run)
    alike = Counter(recipe_name(members[0]) for members in found.values())
    return [
        (name if alike[name] == 1 else f"{name} on {task}, {model}", members)
        for (task, model, _), members in found.items()
        for name in [recipe_name(members[0])]
    ]


def _panel(
    metric: str,
    lines: Mapping[str, Line],
    gaps: Mapping[tuple[str, str], np.ndarray],
    owners: Sequence[tuple[str, Sequence[Run]]],
) -> Payload:
    drawn = []
    for place, (_, members) in enumerate(owners):
        own = [_broken(lines[run.pk], gaps.get((run.pk, metric))) for run in members if run.pk in lines]
        own = [line for line in own if len(line.x)]
        if own:
            drawn.append(
                {"series": place, "runs": len(own)} | (_columns(own[0]) if len(own) == 1 else _mean(own))
            )
    known = [line for line in lines.values() if len(line.x)]
    broken = sum(len(places) for (_, name), places in gaps.items() if name == metric)
    apart = [f"{owners[series][0]} ({value:.4g})" for series, value in _apart(drawn)]
    return {
        "metric": metric,
        "runs": len(known),
        "note": _note(len(known), sum(len(members) for _, members in owners), broken, apart),
        "whole": all(line.whole for line in known),
        "lines": drawn,
    }


def _apart(drawn: Sequence[Payload]) -> list[tuple[int, float]]:
    """(series, value) of lines whose end, peak or dip lies far beyond those of the others, the farthest first. Lines
    that have hardly begun are no others."""
    half = 0.5 * np.median([line["x"][-1] for line in drawn if line["x"]] or [0.0])
    known = {line["series"]: line["y"] for line in drawn if line["x"] and line["x"][-1] >= half}
    lines = {series: [y for y in ys if y is not None] for series, ys in known.items()}
    lines = {series: ys for series, ys in lines.items() if ys}
    found: dict[int, tuple[float, float]] = {}
    for value_of in (max, min, lambda ys: ys[-1]) if len(lines) >= FEWEST_LINES else ():
        values = {series: float(value_of(ys)) for series, ys in lines.items()}
        low, middle, high = np.percentile(list(values.values()), (25, 50, 75))
        reach = FENCES * max(high - low, ALIKE * abs(middle))
        for series, value in values.items():
            if (beyond := max(low - value, value - high)) > reach:
                found[series] = max(found.get(series, (0.0, 0.0)), (beyond, value))
    return [(series, value) for series, (_, value) in sorted(found.items(), key=lambda one: -one[1][0])]


def _note(known: int, runs: int, broken: int, apart: Sequence[str]) -> str:
    """What a panel does not show, and what lies apart in it, in words."""
    said = []
    if known == 0:
        said.append("No run has a value of it on this axis.")
    elif known < runs:
        said.append(f"{known:,} of {runs:,} runs report it.")
    if broken:
        said.append(f"Left out as not finite: {words.count(broken, 'value')}.")
    if apart:
        said.append(f"Far from the others: {words.few(apart)}.")
    return " ".join(said)


def _broken(line: Line, gaps: np.ndarray | None) -> Line:
    """With a break where the metric was reported as no finite number."""
    if gaps is None:
        return line
    at = np.r_[line.x, gaps[np.isfinite(gaps)][:MOST_POINTS]]
    order = np.argsort(at, kind="stable")
    values = np.r_[line.y, np.full(len(at) - len(line.y), np.nan)]
    return Line(at[order], values[order], line.whole)


def _columns(line: Line) -> Payload:
    return {"x": _rounded(line.x, DIGITS_OF_X), "y": _rounded(line.y)}


def _mean(lines: Sequence[Line]) -> Payload:
    """Over the runs that have come so far, and the least and the greatest of them, where there are at least two."""
    finite = [(line.x[known], line.y[known]) for line in lines for known in [np.isfinite(line.y)]]
    every = np.unique(np.concatenate([x for x, _ in finite]))
    at = (
        every[np.unique(np.linspace(0, len(every) - 1, MOST_POINTS).round().astype(int))]
        if len(every)
        else every
    )
    values = np.array([np.interp(at, x, y, left=np.nan, right=np.nan) for x, y in finite if len(x)])
    if len(values) == 0:
        return {"x": [], "y": []}
    some = np.isfinite(values).sum(axis=0) >= min(2, len(values))
    at, values = at[some], values[:, some]
    means, lo, hi = (of(values, axis=0) if len(at) else at for of in (np.nanmean, np.nanmin, np.nanmax))
    return {"x": _rounded(at, DIGITS_OF_X), "y": _rounded(means), "lo": _rounded(lo), "hi": _rounded(hi)}


def _rounded(values: np.ndarray, digits: int = DIGITS) -> list[float | int | None]:
    """With so many digits of the largest; null where it is not finite."""
    known = values[np.isfinite(values)]
    most = float(np.abs(known).max()) if len(known) else 0.0
    decimals = digits - 1 - math.floor(math.log10(most)) if most else 0
    found = np.round(values, decimals).tolist() if -300 < decimals < 300 else values.tolist()
    if all(value == value and value == int(value) for value in found):
        return [int(value) for value in found]
    return [value if value == value else None for value in found]
