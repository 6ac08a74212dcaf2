"""The shared chart of a prediction: the frozen curve, what was known, what came since, and the claim at its target."""

from collections.abc import Sequence

from webapp.reporting.shares.drawing import (
    RIVAL,
    ROLES,
    Band,
    Drawing,
    Line,
    Payload,
    Points,
    Target,
    points_of,
    x_range,
    y_range,
)
from webapp.science.predictions import claims
from webapp.science.predictions.models import Outcome, Prediction
from webapp.science.predictions.selectors import status_of


def prediction_drawing(
    prediction: Prediction, outcomes: Sequence[Outcome], figure: Payload, scale: str
) -> Drawing:
    """From the payload of `prediction_figure`. The claim stands at its target, whatever came since."""
    fit = figure["fit"] if figure["fit"].get("solid") else None
    lines, bands = (_lines(fit, 0), _bands(fit, 0)) if fit else ((), ())
    if figure["rival"] and figure["rival"].get("solid"):
        lines += _lines(figure["rival"], RIVAL)
        bands += _bands(figure["rival"], RIVAL)
    points = tuple(points_of(figure["points"], role) for role in ROLES)
    target = target_of(figure)
    marks = (*points, _marks(target))
    return Drawing(
        heading=claims.subject(prediction),
        y_label=_y_label(prediction),
        x_label=figure["x"]["label"],
        scale=scale,
        x_range=x_range(scale, lines, marks),
        y_range=y_range(lines, marks, None),
        bands=bands,
        lines=lines,
        points=points,
        ceiling=None,
        window=tuple(fit["window"]) if fit else None,
        legend=(),
        sentences=sentences_of(prediction, outcomes, figure),
        target=target,
        missing=(figure["unknown"],) if figure["unknown"] else (),
    )


def target_of(figure: Payload) -> Target:
    """The claim's mark, and what came of it."""
    claim = figure["claim"]
    came = tuple(one["actual"] for one in figure["outcomes"] if one["actual"] is not None)
    rival = figure["rival"]["label"] if figure["rival"] else ""
    return Target(
        claim["x"], claim["value"], claim["lo"], claim["hi"], f"target: {claim['text']}", came, rival
    )


def sentences_of(prediction: Prediction, outcomes: Sequence[Outcome], figure: Payload) -> tuple[str, ...]:
    """The whole claim, who made it when from what, where it stands, and what came. Its reasons stay in the project."""
    made = (
        f"Claimed by {prediction.author.username} on {prediction.created_at:%-d %B %Y}, "
        f"{claims.made_from(prediction)}; it cannot be changed."
    )
    came = [f"{claims.capitalised(claims.outcome_words(one))}." for one in outcomes]
    return (
        f"{claims.in_a_line(prediction)}.", made, f"{status_of(prediction).words.rstrip('.')}.", *came,
        figure["after_sentence"], *([figure["changed"]] if figure["changed"] else []),
    )  # fmt: skip


def _y_label(prediction: Prediction) -> str:
    part = claims.part_of(prediction.metric)
    return f"Held-out pass rate on {part}" if part else "Held-out pass rate"


def _lines(fit: Payload, series: int) -> tuple[Line, ...]:
    return (
        Line(fit["solid"]["x"], fit["solid"]["y"], series, "solid"),
        Line(fit["dashed"]["x"], fit["dashed"]["y"], series, "dashed"),
    )


def _bands(fit: Payload, series: int) -> tuple[Band, ...]:
    kept = [
        at
        for at in zip(fit["band"]["x"], fit["band"]["lo"], fit["band"]["hi"], strict=True)
        if None not in at
    ]
    if not kept:
        return ()
    x, lo, hi = ([at[place] for at in kept] for place in range(3))
    return (Band(x, lo, hi, series),)


def _marks(target: Target) -> Points:
    """What the frame must have room for besides curves and evaluations."""
    ys = [y for y in (target.value, target.lo, target.hi, *target.came) if y is not None]
    return Points([target.x] * max(1, len(ys)), ys, 0, "claim", "claim")
