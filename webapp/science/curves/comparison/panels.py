"""Small multiples of any metrics: a line for each run, or for each recipe the mean over its seeds with their range."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from webapp.base.errors import MOST_OF_PATH, InvalidInput
from webapp.record.runs.bounds import label_of, recipe_key, recipe_name
from webapp.record.runs.filtering.parsing import nearest
from webapp.record.runs.models import Run
from webapp.record.runs.panels import gaps_of, lines_of, matching, metrics_of, stored_names
from webapp.record.runs.thinned import EVERYWHERE, MOST_POINTS, WALL_CLOCK, Line, Window
from webapp.science.curves import words
from webapp.science.curves.words import AXES, Axis, Payload

OVER = AXES | {WALL_CLOCK: Axis(WALL_CLOCK, "Wall clock", "h", "hours since the run began")}
MOST_PANELS = 12
MOST_DRAWN, MOST_OF_A_LINE = 6000, 960  # points, where that is more than MOST_POINTS of each line
MOST_PATTERNS = 20
MOST_NAMES = 1000  # that are told
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
    runs: Sequence[Run],
    patterns: Sequence[str] = (),
    *,
    x: str = "step",
    by: str = "run",
    window: Window = EVERYWHERE,
    usual: Sequence[str] = USUAL,
    most: int = MOST_PANELS,
) -> Payload:
    """The panels of the metrics that the patterns mean, over an axis of OVER or any other metric, or over a window of
    it; what is named as its trainer calls it is found, too. `series` are the owners of lines, each of one of the
    `groups`, recipes, in the order of their first runs. Raises InvalidInput for an axis that there is not."""
    ids = [run.pk for run in runs]
    names = metrics_of(ids)
    unknown = [one for one in patterns if not matching(names, [one])] + [x] * (
        x not in OVER and x not in names
    )
    stored = stored_names(ids, names, unknown)
    x = stored.get(x, x)
    axis = axis_of(x, names)
    shown_first = [name for name in usual if name in names] or matching(names, ["*"])
    meant = matching(names, [stored.get(one, one) for one in patterns]) if patterns else shown_first
    shown = meant[:most]
    lines = lines_of(ids, shown, x, window, _room(sum(names[name] for name in shown)))
    gaps = gaps_of(ids, shown, x) if x in OVER else {}
    if window != EVERYWHERE:
        gaps = {owner: at[(at >= window[0]) & (at <= window[1])] for owner, at in gaps.items()}
    groups = _groups(runs)
    owners = groups if by == "recipe" else [(label_of(run), [run]) for run in runs]
    places = {run.pk: place for place, (_, members) in enumerate(groups) for run in members}
    return {
        "x": {"key": x, "label": axis.label, "short": axis.short, "is_metric": x not in OVER},
        "by": by,
        "groups": [{"label": label, "runs": len(members)} for label, members in groups],
        "series": [{"label": label, "group": places[members[0].pk]} for label, members in owners],
        "runs": len(runs),
        "matching": len(meant),
        "unmatched": [one for one in patterns if one in unknown and one not in stored],
        "names": list(names)[:MOST_NAMES],
        "reported": f"{words.count(len(names), 'metric')} reported"
        + (f", the first {MOST_NAMES:,} of them" if len(names) > MOST_NAMES else ""),
        "panels": [_panel(metric, lines[metric], gaps, owners, axis) for metric in shown],
    }


def axis_of(x: str, names: Mapping[str, int]) -> Axis:
    """An axis of OVER, or a metric that any of the runs reports. Raises InvalidInput (x)."""
    if x in OVER:
        return OVER[x]
    if x in names:
        return Axis(x, x, x.rpartition("/")[2], x)
    hint = (
        nearest(x, [*OVER, *names]) or "it is an axis of compute, wall_clock, or a metric that they report."
    )
    raise InvalidInput("x", f"x: none of these runs has “{x[:MOST_OF_PATH]}”; {hint}")


def _room(lines: int) -> int:
    """Points of a line: the fewer lines there are, the more, doubled and doubled again, so that none moves."""
    room = MOST_POINTS
    while 2 * room * lines <= MOST_DRAWN and 2 * room <= MOST_OF_A_LINE:
        room *= 2
    return room


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
    axis: Axis,
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
    apart = [
        f"{owners[series][0]} ({words.amount(value)})" for series, value in _apart(drawn, axis.key in OVER)
    ]
    runs = sum(len(members) for _, members in owners)
    return {
        "metric": metric,
        "runs": len(known),
        "note": " ".join([*_missing(len(known), runs, axis), *_beside(broken, apart)]),
        "whole": all(line.whole for line in known),
        "lines": drawn,
    }


def _apart(drawn: Sequence[Payload], grows: bool = True) -> list[tuple[int, float]]:
    """(series, value) of lines whose end, peak or dip lies far beyond those of the others, the farthest first. Lines
    that have hardly begun are no others, where the axis grows with training."""
    half = 0.5 * np.median([line["x"][-1] for line in drawn if line["x"]] or [0.0]) if grows else -math.inf
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


def _missing(known: int, runs: int, axis: Axis) -> list[str]:
    """How many runs a panel does not show, in words."""
    if axis.key not in OVER:
        return [f"{runs - known:,} of {runs:,} runs have no step with both."] if known < runs else []
    if known == 0:
        return ["No run has a value of it on this axis."]
    return [f"{known:,} of {runs:,} runs report it."] if known < runs else []


def _beside(broken: int, apart: Sequence[str]) -> list[str]:
    """What else a panel does not show, and what lies apart in it, in words."""
    said = [f"Left out as not finite: {words.count(broken, 'value')}."] if broken else []
    return [*said, f"Far from the others: {words.few(apart)}."] if apart else said


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
    most = max(MOST_POINTS, *(len(line.x) for line in lines))
    at = every[np.unique(np.linspace(0, len(every) - 1, most).round().astype(int))] if len(every) else every
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
