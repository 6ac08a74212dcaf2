"""What a share is called unless its author says otherwise."""

from webapp.record.runs.models import Run
from webapp.record.runs.names import label_of
from webapp.reporting.shares.models import Share
from webapp.reporting.shares.questions import Question
from webapp.science.predictions import claims
from webapp.science.predictions.models import Prediction

LONGEST = 160


def title_of(kind: str, question: Question) -> str:
    """The run's name, "A against B", or the claim; one query at most."""
    if kind == Share.Kind.PREDICTION:
        return _of_prediction(question["prediction"])
    wanted = [question["run"]] if kind == Share.Kind.RUN else question["runs"]
    found = Run.objects.filter(pk__in=wanted).only("name", "seed").in_bulk() if wanted else {}
    labels = [label_of(found[pk]) for pk in wanted if pk in found]
    if kind == Share.Kind.COMPARISON:
        labels += question["refs"]
    if len(labels) > 3:
        return f"{len(labels)} curves"
    return " against ".join(labels)[:LONGEST]


def _of_prediction(key: str) -> str:
    found = Prediction.objects.select_related("rival__revision__recipe").get(pk=key)
    return claims.in_a_line(found)[:LONGEST]
