"""What is stored of runs at this moment: how far their evaluations and their training have come on an axis."""

from dataclasses import dataclass

from django.db.models import Exists, FloatField, Max, OuterRef, Q, QuerySet
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from webapp.record.runs.models import Point, Record, Run
from webapp.record.runs.selectors import used_hours
from webapp.science.curves import words
from webapp.science.curves.answers import UNITS

# Every held-out pass rate counts, overall and of a part: one tells of the other.
PASS_RATES = Q(series__metric__startswith="eval/", series__metric__endswith="pass_rate")


@dataclass(frozen=True)
class Known:
    """In units of the axis, superseded attempts included: the last evaluation of any pass rate, and the last record of
    any kind. 0 where there is none. `unplaced`: evaluations after that one by step whose compute on the axis nobody
    reported: they may lie anywhere beyond it."""

    evaluated: float
    trained: float
    unplaced: int = 0


def known_of(run: Run, x: str) -> Known:
    """What is stored of the run now; under a lock of the run nothing can come in between."""
    column = "step" if x == "step" else Cast(KT(f"compute__{x}"), FloatField())
    records = Record.objects.filter(run=run).aggregate(last=Max(column))
    evaluated = evaluated_until(run, x)
    trained = max(evaluated, float(records["last"] or 0.0))
    if x == "device_hours" and run.meaning.get("devices"):  # they stand in the points alone
        trained = max(trained, used_hours(run))
    return Known(evaluated, trained, _unplaced(run, x))


def unplaced_words(known: Known, x: str) -> str:
    """Why nothing can be claimed on an axis that the newest evaluations are not known on; "" where they are."""
    if not known.unplaced:
        return ""
    many = known.unplaced > 1
    return (
        f"{words.count(known.unplaced, 'newer evaluation')} of this run {'have' if many else 'has'} no known "
        f"{UNITS[x]}: {'they' if many else 'it'} may lie beyond any target. Choose an axis on which all are known."
    )


def _unplaced(run: Run, x: str) -> int:
    points = Point.objects.filter(PASS_RATES, series__run=run)
    newest = points.filter(**{f"{x}__isnull": False}).aggregate(step=Max("step"))["step"]
    return points.filter(**{f"{x}__isnull": True}, step__gt=-1 if newest is None else newest).count()


def evaluated_until(run: Run, x: str) -> float:
    """The last evaluation of any pass rate, superseded ones included; 0 without one."""
    points = Point.objects.filter(PASS_RATES, series__run=run).aggregate(last=Max(x))
    return float(points["last"] or 0.0)


def passed_already(run: Run, x: str, target: float) -> list[str]:
    """The runs of the same recipe, task and model that have an evaluation at or beyond the target, superseded ones
    included: whoever claims something now may have looked at them."""
    beyond = Point.objects.filter(PASS_RATES, series__run=OuterRef("pk"), **{f"{x}__gte": target})
    return list(same_recipe(run).filter(Exists(beyond)).order_by("pk").values_list("pk", flat=True))


def same_recipe(run: Run) -> QuerySet[Run]:
    """The runs that a claim about this run's recipe is about: its own revision, task and model in the project; of a
    tracked run without a recipe, that run alone."""
    if run.revision_id is None:
        return Run.objects.filter(pk=run.pk)
    return Run.objects.filter(
        project=run.project_id, revision=run.revision_id, task=run.task, model=run.model
    )
