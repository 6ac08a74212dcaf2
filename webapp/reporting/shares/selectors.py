"""Reading shares."""

from collections.abc import Callable
from typing import Any

from django.db.models import Q, QuerySet

from webapp.base.errors import NotFound
from webapp.identity.accounts.models import Project
from webapp.identity.accounts.services import digest
from webapp.record.runs.models import Run
from webapp.reporting.shares.drawing import Drawing, comparison_drawing, run_drawing
from webapp.reporting.shares.models import Share
from webapp.reporting.shares.prediction import prediction_drawing
from webapp.science.curves.comparison.compare import comparison
from webapp.science.curves.fitting import Question, curve_of
from webapp.science.curves.models import ReferenceFit
from webapp.science.curves.run.figure import run_figure
from webapp.science.predictions.figure import prediction_figure
from webapp.science.predictions.selectors import prediction_by_id

GONE = "What this link showed has been deleted."


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
    run = runs.select_related("revision__recipe").first()
    if run is None:
        raise NotFound(GONE)
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
