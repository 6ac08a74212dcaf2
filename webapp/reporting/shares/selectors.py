"""Reading shares.

The shared chart of a prediction: the frozen curve, what was known, what came since, and the claim at its target.
"""

from collections.abc import Callable, Sequence
from typing import Any

from django.db.models import Q, QuerySet

from webapp.base.errors import NotFound, first_of
from webapp.identity.accounts.models import Project
from webapp.identity.accounts.services import digest
from webapp.record.runs.models import Run
from webapp.reporting.shares.drawing import (
    RIVAL,
    ROLES,
    Band,
    Drawing,
    Payload,
    Points,
    Target,
    comparison_drawing,
    lines_of,
    points_of,
    run_drawing,
    x_range,
    y_range,
)
from webapp.reporting.shares.models import Share
from webapp.science.curves.comparison.compare import comparison
from webapp.science.curves.fitting import Question, curve_of
from webapp.science.curves.models import ReferenceFit
from webapp.science.curves.run.figure import run_figure
from webapp.science.predictions import claims
from webapp.science.predictions.figure import prediction_figure
from webapp.science.predictions.models import Outcome, Prediction
from webapp.science.predictions.selectors import prediction_by_id, status_of

GONE = "What this link showed has been deleted."


def prediction_drawing(
    prediction: Prediction, outcomes: Sequence[Outcome], figure: Payload, scale: str
) -> Drawing:
    """From the payload of `prediction_figure`. The claim stands at its target, whatever came since."""
    fit = figure["fit"] if figure["fit"].get("solid") else None
    lines, bands = (lines_of(fit, 0), _bands(fit, 0)) if fit else ((), ())
    if figure["rival"] and figure["rival"].get("solid"):
        lines += lines_of(figure["rival"], RIVAL)
        bands += _bands(figure["rival"], RIVAL)
    points = tuple(points_of(figure["points"], role) for role in ROLES)
    target = target_of(figure)
    ys = [y for y in (target.value, target.lo, target.hi, *target.came) if y is not None]
    # What the frame must have room for besides the curves.
    marks = (*points, Points([target.x] * max(1, len(ys)), ys, 0, "claim", "claim"))
    part = claims.part_of(prediction.metric)
    return Drawing(
        heading=claims.subject(prediction),
        y_label=f"Held-out pass rate on {part}" if part else "Held-out pass rate",
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


def shares_of(project: Project) -> QuerySet[Share]:
    """All shares of a project, the newest first, with their authors."""
    return Share.objects.filter(project=project).select_related("created_by")


def share_by_token(token: str, *, of_report: bool = False) -> Share | None:
    """The share with this token, also when it was revoked or has expired; None where there is none. One query.

    A report is read at an address of its own: `of_report` finds the links to reports, without it all others.
    """
    found = Share.objects.filter(digest=digest(token))
    is_report = Q(kind=Share.Kind.REPORT)
    return found.filter(is_report if of_report else ~is_report).first()


def drawing_of(share: Share) -> Drawing:
    """The chart as it is now. Only runs of the share's own project are drawn. Raises NotFound where none is left."""
    return _DRAWINGS[share.kind](share)


def _run(share: Share) -> Drawing:
    asked = share.question
    runs = Run.objects.filter(project=share.project_id, pk=asked["run"])
    run = first_of(runs.select_related("revision__recipe"), GONE)
    robust = asked.get("robust", False)
    question = Question(asked["x"], asked["cutoff"], asked["lo"], metric=asked["metric"], robust=robust)
    figure = run_figure(run, question)
    return run_drawing(run, figure, asked["scale"])


def _comparison(share: Share) -> Drawing:
    asked: dict[str, Any] = share.question
    found = Run.objects.filter(project=share.project_id, pk__in=asked["runs"])
    by_id = found.select_related("revision__recipe").in_bulk()
    runs = [by_id[pk] for pk in asked["runs"] if pk in by_id]
    references = list(ReferenceFit.objects.filter(slug__in=asked["refs"])) if asked["refs"] else []
    if not runs and not references:
        raise NotFound(GONE)
    by = asked.get("by", "run")
    payload = comparison(runs, references, x=asked["x"], view=asked["view"], by=by)
    return comparison_drawing(payload, asked["scale"])


def _prediction(share: Share) -> Drawing:
    try:
        found = prediction_by_id(share.project, share.question["prediction"])
    except NotFound:
        raise NotFound(GONE) from None
    outcomes = list(found.outcomes.select_related("run"))
    curve = curve_of(found.run, x=found.x, metric=found.metric)
    figure = prediction_figure(found, curve, outcomes)
    return prediction_drawing(found, outcomes, figure, share.question["scale"])


_DRAWINGS: dict[str, Callable[[Share], Drawing]] = {
    Share.Kind.RUN: _run,
    Share.Kind.COMPARISON: _comparison,
    Share.Kind.PREDICTION: _prediction,
}
