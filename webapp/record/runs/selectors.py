"""Reading runs and their newest values; `webapp.record.runs.points` reads series.

How long a trainer's client should gather records before its next batch, so that many runs do not mean many requests.

A request costs the server much the same whether it brings one record or fifty. So the batches a second are held at
`HEADROOM_BATCHES_PER_SECOND`: the more runs report, the longer each gathers. With few runs nobody waits, and their
charts follow within a second.
"""

import os
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.core.cache import cache
from django.db.models import (
    BooleanField,
    Case,
    ExpressionWrapper,
    F,
    FloatField,
    IntegerField,
    Manager,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    When,
)  # fmt: skip
from django.utils import timezone

from headroom.adapters.naming import PART_PASS_RATE, SYSTEM, names_for
from training.checkpoint_store import URL as STORE_URL
from webapp.base.compiled import Compiled
from webapp.base.errors import NotFound
from webapp.identity.accounts.models import Project
from webapp.record.alarm_rules import rules_by_name
from webapp.record.runs.models import Attempt, Point, Record, Run, Series, State, Transition
from webapp.record.runs.points import PASS_RATE
from webapp.record.runs.states import DRIVER, ENDED

MOST_LATEST = 1000  # metrics whose newest values are shown together
_EVALUATIONS_FIRST = ExpressionWrapper(Q(metric__startswith="eval/"), BooleanField()).desc()
LEAST_SECONDS = 0.2  # what clients take where nothing is said
MOST_SECONDS = 30.0  # below the 60 s of silence after which a run that was launched here is asked about
REPORTED_WITHIN = timedelta(seconds=90)
LOOK_SECONDS = 5  # how often a process counts
SPREAD = 0.2  # clients that began together do not come together for ever
_KEY = "runs-that-report"


@dataclass(frozen=True)
class RunFilters:
    """Which runs of a project; an empty field does not filter. `q` searches names, recipes and ids.

    `alarm`: "active" leaves the runs that alarm now, "any" also those that once did.
    """

    states: Sequence[str] = ()
    recipe: str = ""
    task: str = ""
    model: str = ""
    q: str = ""
    alarm: str = ""


def runs_of(
    project: Project,
    filters: RunFilters = RunFilters(),  # noqa: B008 (frozen)
    among: QuerySet[Run] | None = None,
) -> QuerySet[Run]:
    """The project's runs, or those of them that are `among`, newest first, with their recipe and author, without
    configurations (kilobytes each)."""
    runs = Run.objects.filter(project=project) if among is None else among
    said = {
        "state__in": filters.states, "revision__recipe__slug": filters.recipe, "task": filters.task,
        "model": filters.model,
    }  # fmt: skip
    runs = runs.filter(**{name: value for name, value in said.items() if value})
    if filters.alarm:
        wanted: dict[str, object] = {"alarms__rule__in": list(rules_by_name())}
        if filters.alarm == "active":
            wanted["alarms__active"] = True  # of the same alarm: one filter() joins once
        runs = runs.filter(pk__in=Run.objects.filter(**wanted).values("pk"))
    if filters.q:
        text = filters.q
        runs = runs.filter(
            Q(name__icontains=text)
            | Q(pk__istartswith=text)
            | Q(revision__recipe__name__icontains=text)
            | Q(revision__recipe__slug__icontains=text)
        )
    light = runs.select_related("revision__recipe", "created_by").defer("config", "revision__config")
    return light.order_by("-created_at", "id")


def listed(project: Project) -> QuerySet[Run]:
    """The project's runs for a list, deleted ones too: with recipe, author and summary, without configurations."""
    runs = Run.with_deleted.filter(project=project).select_related(
        "revision__recipe", "created_by", "summary"
    )
    return runs.defer("config", "revision__config", "revision__recipe__description")


def run_by_id(project: Project, run_id: str, *, deleted: bool = False) -> Run:
    """A run of this project; with `deleted` also one that was deleted lately.

    Raises NotFound, also for a run of another project.
    """
    wanted = _RUN_OR_DELETED if deleted else _RUN_OF_PROJECT
    if (run := wanted.first(project=project.pk, run=run_id)) is None:
        raise NotFound(f"There is no run {run_id}.")
    return run


def _of_project(runs: Manager[Run]) -> Compiled[Run]:
    related = ("project", "revision__recipe", "created_by")
    build = lambda project, run: runs.filter(project_id=project, pk=run).select_related(*related)
    return Compiled(build, project=-1, run="an id")


_RUN_OF_PROJECT, _RUN_OR_DELETED = _of_project(Run.objects), _of_project(Run.with_deleted)


def attempts_of(run: Run) -> QuerySet[Attempt]:
    """All attempts, newest first, without their logs."""
    return run.attempts.defer("log_tail").order_by("-number")


def records_of(run: Run) -> QuerySet[Record]:
    """Everything reported, in the order of `arrival`: a page of it costs the same however many other runs report."""
    return Record.objects.filter(run=run).annotate(arrival=F("id") + 0).order_by("arrival")


def has_said_its_end(run: Run, attempt: int) -> bool:
    """Whether the trainer of this attempt reported how it ended, and not somebody who found it ended."""
    return transitions_of(run).filter(attempt=attempt, part=DRIVER, to_state__in=ENDED).exists()


def transitions_of(run: Run) -> QuerySet[Transition]:
    """Every change of the run's state, oldest first, with who did it."""
    return Transition.objects.filter(run=run).select_related("actor").order_by("id")


def has_checkpoint(run: Run) -> bool:
    """Whether the run's folder holds one, whole or not: the driver looks at that."""
    folder = Path(settings.HEADROOM_HOME) / "runs" / run.pk / "checkpoints"
    return any(folder.glob("step-*"))


def begins_anew(run: Run) -> bool:
    """Whether its next attempt starts at step 0 although it has trained: there is no checkpoint, or none any more.

    False also where that is not known: what a checkpoint store holds is for the driver to see.
    """
    return used_hours(run) > 0 and not has_checkpoint(run) and not has_store()


def asks_the_store(run: Run) -> bool:
    """Whether its folder has no checkpoint, and a checkpoint store is set up that may have one."""
    return has_store() and used_hours(run) > 0 and not has_checkpoint(run)


def has_store() -> bool:
    """Whether drivers copy their checkpoints to a store, and look there."""
    return bool(os.environ.get(STORE_URL, "").strip())


def used_hours(run: Run) -> float:
    """Device-hours that the run has spent, by its newest records. One query."""
    return Point.objects.filter(series__run=run).aggregate(used=Max("device_hours"))["used"] or 0.0


def series_of(run: Run) -> QuerySet[Series]:
    return Series.objects.filter(run=run)


def metric_names(run: Run) -> list[str]:
    """All metrics of the run, by name; what its machines do is none (`webapp.record.runs.timeline`)."""
    found = series_of(run).exclude(metric__startswith=SYSTEM)
    return list(found.order_by("metric").values_list("metric", flat=True))


def is_pass_rate(metric: str) -> bool:
    """Whether this is a curve to fit: the held-out pass rate, overall or of one part of a mixture."""
    return PART_PASS_RATE.fullmatch(metric) is not None


def part_of(metric: str) -> str | None:
    """The part of a mixture that a pass rate is of; None for the overall one."""
    match = PART_PASS_RATE.fullmatch(metric)
    return match["part"] if match else None


def pass_rates_of(run: Run) -> list[str]:
    """The run's curves: the overall pass rate first, then one a part by name. One query."""
    names = Series.objects.filter(run=run, metric__startswith="eval/", metric__endswith="pass_rate")
    found = [name for name in names.values_list("metric", flat=True) if is_pass_rate(name)]
    return sorted(found, key=lambda name: (name != PASS_RATE, name))


def latest_values(run: Run) -> dict[str, Point]:
    """Metric -> its newest point; of more than MOST_LATEST metrics evaluations before others, by name. One query that
    reads one index entry a series."""
    series = series_of(run).exclude(metric__startswith=SYSTEM).order_by(_EVALUATIONS_FIRST, "metric")
    chosen = Series.objects.filter(pk__in=series.values("pk")[:MOST_LATEST]).values(newest=_newest("pk"))
    points = Point.objects.filter(pk__in=chosen).select_related("series").order_by("series__metric")
    return {point.series.metric: point for point in points}


def stored_name(run: Run, metric: str) -> str | None:
    """The name under which a metric of this run is stored, by that name or its trainer's; None for no metric of it."""
    names = names_for(metric)
    return _first_of(Series.objects.filter(run=run), names).values_list("metric", flat=True).first()


def _first_of(series: QuerySet[Series], names: Sequence[str]) -> QuerySet[Series]:
    """Those with one of the names, in their order; the pass rate comes last where its import calls it by the first."""
    place = Case(
        *(When(metric=name, then=i) for i, name in enumerate(names)),
        default=len(names),
        output_field=IntegerField(),
    )
    named = Q(metric__in=names) | Q(logged_as=names[0])
    return series.filter(named, metric__in=[*names, PASS_RATE]).order_by(place)


def newest_value(metric: str) -> Subquery:
    """For a query of runs: the newest value of one of their series, by our name or the trainer's, null without it.
    One index entry a run."""
    series = _first_of(Series.objects.filter(run=OuterRef("pk")), names_for(metric))
    return Subquery(series.values(newest=_newest("value"))[:1], output_field=FloatField())


def _newest(column: str) -> Subquery:
    """Of the newest point of the series in the outer query."""
    points = Point.objects.filter(series=OuterRef("pk")).order_by("-attempt", "-seq")
    return Subquery(points.values(column)[:1])


def latest_of_runs(run_ids: Iterable[str], metric: str = PASS_RATE) -> dict[str, Point]:
    """Run -> the newest point of one series, for many runs in one query."""
    series = Series.objects.filter(run__in=list(run_ids), metric=metric).values(newest=_newest("pk"))
    points = Point.objects.filter(pk__in=series).select_related("series")
    return {point.series.run_id: point for point in points}


def span_of_runs(run_ids: Iterable[str]) -> dict[str, tuple[Point, Point]]:
    """Run -> the first and the newest pass rate of the newest attempt that reported one. One query."""
    oldest = Point.objects.filter(series=OuterRef("pk")).order_by("-attempt", "seq")
    series = Series.objects.filter(run__in=list(run_ids), metric=PASS_RATE).annotate(
        first=Subquery(oldest.values("pk")[:1]), newest=_newest("pk")
    )
    ends = series.values("first").union(series.values("newest"))  # an OR of two would read every point
    spans: dict[str, tuple[Point, Point]] = {}
    for point in Point.objects.filter(pk__in=ends).select_related("series").order_by("seq"):
        first, _ = spans.get(point.series.run_id, (point, point))
        spans[point.series.run_id] = first, point
    return spans


def gather_seconds(runs: int, batches_per_second: float) -> float:
    """Seconds that each of so many runs gathers, so that all of them together keep to the rate as far as they may."""
    return min(max(LEAST_SECONDS, runs / batches_per_second), MOST_SECONDS)


def asked_of_a_client() -> float:
    """What the answer to a batch says, in seconds: of the runs that report now, up to a fifth more or less."""
    seconds = gather_seconds(reporting_runs(), settings.BATCHES_PER_SECOND)
    if seconds > LEAST_SECONDS:
        seconds *= random.uniform(1 - SPREAD, 1 + SPREAD)  # nosec B311  # spreads requests
    return round(min(max(LEAST_SECONDS, seconds), MOST_SECONDS), 2)


def reporting_runs() -> int:
    """How many running runs have spoken lately; counted at most every few seconds in each process."""
    return cache.get_or_set(_KEY, count_reporting_runs, LOOK_SECONDS) or 0


def count_reporting_runs() -> int:
    """One look at the index of running runs."""
    since = timezone.now() - REPORTED_WITHIN
    return Run.objects.filter(state=State.RUNNING, heartbeat_at__gte=since).count()
