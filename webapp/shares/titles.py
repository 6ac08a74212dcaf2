"""What a share is called unless its author says otherwise."""

from webapp.curves.comparison.compare import label_of
from webapp.runs.models import Run
from webapp.shares.models import Share
from webapp.shares.questions import Question

LONGEST = 160


def title_of(kind: str, question: Question) -> str:
    """The run's name, or "A against B"; one query at most."""
    wanted = [question["run"]] if kind == Share.Kind.RUN else question["runs"]
    found = Run.objects.filter(pk__in=wanted).only("name", "seed").in_bulk() if wanted else {}
    labels = [label_of(found[pk]) for pk in wanted if pk in found]
    if kind == Share.Kind.COMPARISON:
        labels += question["refs"]
    if len(labels) > 3:
        return f"{len(labels)} curves"
    return " against ".join(labels)[:LONGEST]
