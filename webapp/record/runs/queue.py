"""What waits for the cluster, and what would if it were launched now."""

from dataclasses import dataclass

from django.db.models import Q
from django.utils import timezone

from training.schema import Recipe
from webapp.identity.accounts.models import Project
from webapp.record.runs.admission import reading
from webapp.record.runs.admission.acting import look
from webapp.record.runs.admission.parts import Why
from webapp.record.runs.admission.words import LATER
from webapp.record.runs.models import Dispatch, Run
from webapp.record.runs.states import WAITING

MOST_READ = 200


@dataclass(frozen=True)
class Prospect:
    """Of launches: how many are `handed_over` at once, and what the first of the others would wait for; `in_vain`: the
    whole cluster could not hold it. `undelivered`: why the newest hand-over to Ray failed, if one is tried again."""

    handed_over: int
    waits: str = ""
    in_vain: bool = False
    undelivered: str = ""


def prospect(project: Project, recipe: Recipe, *, runs: int, priority: int) -> Prospect:
    """Of so many launches of the recipe now. The number of queries does not grow with the queue."""
    now = timezone.now()
    new = [reading.would_be(project.pk, recipe, priority, f"new {number}", now) for number in range(runs)]
    names = [row.queued.run for row in new]
    outcome = look([*reading.due_submissions(Q(done_at=None)), *new], now)
    handed_over = sum(name in outcome.decision.start for name in names)
    sentences = outcome.sentences()
    waits = next((sentences[name] for name in names if name in sentences), "")
    reasons = {wait.run.run: wait.why for wait in outcome.decision.waits}
    in_vain = any(reasons.get(name) == Why.TOO_LARGE for name in names)
    failing = Dispatch.objects.filter(done_at=None).exclude(error="").order_by("-id")
    undelivered = failing.values_list("error", flat=True).first() or ""
    return Prospect(handed_over, waits or (LATER if handed_over < runs else ""), in_vain, undelivered)


def waiting_of(project: Project) -> list[Run]:
    """The project's runs that wait, higher priorities first, then the oldest."""
    return list(
        Run.objects.filter(project=project, origin=Run.Origin.LAUNCHED, state__in=WAITING)
        .select_related("revision__recipe")
        .defer("config", "revision__config")
        .order_by("-priority", "created_at")[:MOST_READ]
    )
