"""The record of forecasts as a page: in a sentence, as rows of words, and as the figure of its chart."""

from collections.abc import Sequence
from typing import Any

from webapp.science.curves import words
from webapp.science.curves.record.reading import CONFIDENCE, RECALIBRATED, SHOWN, Found, Level, Row
from webapp.science.curves.record.recalibrating import METHODS, MIN_RUNS, key
from webapp.science.curves.words import share_text

Payload = dict[str, Any]
NAMES = METHODS | {RECALIBRATED: "Forecast, recalibrated"}
FEW = 5  # forecasts below which nothing is said


def headline(found: Found) -> str:
    """The answer of the page in a sentence."""
    by = {row.method: row for row in found.methods}
    own = by.get("forecast")
    if own is None or not own.n_intervals or own.rmse is None or own.observed is None:
        return "No forecast is judged yet."
    of = f"Of {words.count(own.n_intervals, 'forecast')} of {words.count(own.runs, 'run')}"
    held = f"the {share_text(SHOWN)} interval held what came in {share_text(own.observed)}"
    between = f"{share_text(CONFIDENCE)} between {share_text(own.lo or 0.0)} and {share_text(own.hi or 0.0)}"
    others = [
        f"{by[name].rmse:.3f} by {said}"
        for name, said in _OTHERS.items()
        if name in by and by[name].rmse is not None
    ]
    against = f", against {' and '.join(others)}" if others else ""
    return (
        f"{of}, {held} ({between}): {verdict(own)}. They erred by {own.rmse:.3f}{against} (root mean square)."
    )


_OTHERS = {"eq1": "Eq. 1 alone", "last": "repeating the last value"}


def verdict(row: Row | Level, claimed: float = SHOWN) -> str:
    """What the coverage says, no more than its interval allows."""
    n = row.n if isinstance(row, Level) else row.n_intervals
    if row.observed is None or row.lo is None or row.hi is None:
        return "no interval"
    if n < FEW:
        return "too few to say"
    if row.hi < claimed:
        return "too narrow"
    return "wider than need be" if row.lo > claimed else "agrees so far"


def recalibration(found: Found) -> str:
    """Whether the project's intervals follow this record, and by how much."""
    if (factor := found.factors.get(key(SHOWN))) is None:
        so_far = f"there are {found.of_project} yet"
        return f"From {MIN_RUNS} judged runs on, intervals are recalibrated by this record; {so_far}."
    if not found.is_on:
        return f"Recalibration is switched off; it would make {share_text(SHOWN)} intervals {factor:.2f} times as wide."
    return (
        f"Intervals of this project are recalibrated by this record: those of {share_text(SHOWN)} are {factor:.2f} "
        "times as wide. A run's own forecasts do not count for itself."
    )


def apart(found: Found) -> str:
    """What is not in the numbers, and why."""
    said = [f"{words.count(found.waiting, 'ended run')} still to be judged"] if found.waiting else []
    said += [f"{words.count(n, 'run')} left out: {why}" for why, n in found.unjudged]
    return f"{'. '.join(said)}." if said else ""


def provenance(found: Found) -> str:
    """How many of the forecasts were stored while their runs went on."""
    n, all_of_them = found.as_it_went, found.forecasts
    if not all_of_them:
        return ""
    if not n:
        return "All were made once the run had ended, from what was known at that share of its compute."
    rest = (
        "the others from the same evaluations once the run had ended"
        if n < all_of_them
        else "before anybody knew"
    )
    return f"{n} of {words.count(all_of_them, 'forecast')} were stored while the run went on, {rest}."


def figure(found: Found) -> Payload:
    """What the calibration chart draws: observed coverage by nominal level."""
    rows = [
        {
            "label": share_text(one.level), "claimed": one.level, "observed": one.observed, "lo": one.lo, "hi": one.hi,
            "n": one.n, "few": one.n < FEW, "text": f"{one.inside} of {one.n} inside",
        }
        for one in found.levels
        if one.n
    ]  # fmt: skip
    return {"by": "level", "title": "nominal level", "confidence": CONFIDENCE, "rows": rows, "bins": []}


def method_cells(rows: Sequence[Row]) -> list[Payload]:
    """Rows of a table in words."""
    number = lambda value: "–" if value is None else f"{value:.3f}"
    return [
        {
            "label": row.label,
            "method": NAMES[row.method],
            "is_ours": row.method in ("forecast", RECALIBRATED),
            "n": row.n,
            "runs": row.runs,
            "bias": "–" if row.bias is None else words.signed(row.bias),
            "rmse": number(row.rmse),
            "observed": "–" if row.observed is None else share_text(row.observed),
            "between": ""
            if row.lo is None or row.hi is None
            else f"{share_text(row.lo)} to {share_text(row.hi)}",
            "score": number(row.score),
            "width": number(row.width),
            "verdict": verdict(row) if row.n_intervals else "gives no interval",
        }
        for row in rows
    ]


def group_cells(found: Found, kind: str) -> list[tuple[str, list[Payload]]]:
    """(group, rows of its methods) of one kind: share, task, recipe; nothing where there is a single group."""
    groups: dict[str, list[Row]] = {}
    for row in found.by[kind]:
        groups.setdefault(row.key, []).append(row)
    label = (
        (lambda name: f"{100 * float(name):g} % of the compute") if kind == "share" else (lambda name: name)
    )
    return [(label(name), method_cells(rows)) for name, rows in groups.items()]


def level_cells(found: Found) -> list[Payload]:
    """Reliability by nominal level, in words."""
    share = lambda k, n: "–" if not n or k is None else share_text(k / n)
    return [
        {
            "level": share_text(one.level),
            "n": one.n,
            "inside": one.inside,
            "observed": share(one.inside, one.n),
            "between": ""
            if one.lo is None or one.hi is None
            else f"{share_text(one.lo)} to {share_text(one.hi)}",
            "recalibrated": share(one.recalibrated_inside, one.n),
            "factor": "–" if (factor := found.factors[key(one.level)]) is None else f"{factor:.2f}",
            "verdict": verdict(one, one.level),
        }
        for one in found.levels
    ]
