"""Reading studies: one with all that its page needs in a constant number of queries, and the list."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db.models import Count, Q, QuerySet, Sum

import scaling
from scaling.ranking import Course
from webapp.base.errors import first_of
from webapp.identity.accounts.models import Project
from webapp.record.runs.ingest import spent_hours, summary_of
from webapp.record.runs.models import Run, Series, State
from webapp.record.runs.selectors import is_pass_rate
from webapp.record.runs.states import ENDED, RUNNING, STARTING
from webapp.science.curves.fitting import Curve, Question, curves_of, fits_of, used_hours
from webapp.science.curves.ranking.variation import MOST_NOW, courses_of, forecast_now
from webapp.science.curves.words import DEFAULT_AXIS, DEFAULT_METRIC, count
from webapp.science.studies.axes import stated_size
from webapp.science.studies.models import Arm, Study, StudyRun


@dataclass(frozen=True)
class Member:
    """A run of a study with its curve and the fit of all of it; None where there are too few evaluations.

    reported: its newest pass rate and standard error, where the curve cannot have them: its device-hours are not known.
    crashed: its fit was tried and crashed. course: its forecast, of the overall pass rate as stored.
    """

    run: Run
    curve: Curve | None
    fit: "scaling.Fit | None"
    reported: tuple[float | None, float | None] | None = None
    crashed: bool = False
    course: Course | None = None

    @property
    def used(self) -> float | None:
        """Device-hours at its newest evaluation; None of a run that trains elsewhere and does not say them."""
        return used_hours(self.curve) if knows_hours(self.run) else None

    @property
    def newest(self) -> tuple[float | None, float | None]:
        """Its newest pass rate, and the standard error where it is known."""
        if self.reported is not None:
            return self.reported
        if self.curve is None or not len(self.curve.y):
            return None, None
        error = float(self.curve.se[-1])
        return float(self.curve.y[-1]), error if math.isfinite(error) else None


@dataclass(frozen=True)
class Group:
    """A variant with its runs, by seed."""

    arm: Arm
    members: list[Member] = field(default_factory=list)

    @property
    def fits(self) -> "list[scaling.Fit]":
        """The fits of the runs that have one with a curve."""
        return [m.fit for m in self.members if m.fit is not None and m.fit.params is not None]

    @property
    def number(self) -> float | None:
        """Where it stands on a numeric axis; of models, by their size."""
        if self.arm.number is None and self.arm.axis == "model":  # stored by a release that knew no sizes
            return stated_size(self.arm.model)
        return self.arm.number


def why_no_fit(group: Group) -> str:
    """What a variant without a fit lacks, by the run that is furthest; empty where that says nothing."""
    if any(member.crashed for member in group.members):
        return "its fit crashed"
    most = max((len(m.curve.x) for m in group.members if m.curve is not None), default=0)
    if not most:
        known = any(member.reported is not None for member in group.members)
        return "device-hours are not known" if known else "no evaluation after the first update"
    few = count(most, "evaluation")
    return f"{few}, a fit takes {scaling.MIN_POINTS}" if most < scaling.MIN_POINTS else ""


@dataclass(frozen=True)
class Progress:
    """How many runs of a study are where."""

    total: int
    waiting: int
    starting: int
    running: int
    succeeded: int
    stopped: int  # failed, cancelled or lost

    @property
    def ended(self) -> int:
        """Runs that will not go on by themselves."""
        return self.succeeded + self.stopped


def knows_hours(run: Run) -> bool:
    """Whether its device-hours are known at its newest record."""
    return spent_hours(run, summary_of(run).used_hours) is not None


def studies_of(project: Project, *, archived: bool = False) -> QuerySet[Study]:
    """The project's studies, newest first, with base recipe, author, and counts of runs by state; or the archived."""
    return _counted(Study.objects.filter(project=project, archived_at__isnull=not archived))


def archived_count(project: Project) -> int:
    """How many studies the list hides."""
    return Study.objects.filter(project=project, archived_at__isnull=False).count()


def _counted(studies: QuerySet[Study]) -> QuerySet[Study]:
    states = "members__run__state"
    return (
        studies.select_related("base__recipe", "created_by")
        .annotate(
            run_count=Count("members"),
            running_count=Count("members", filter=Q(**{f"{states}__in": RUNNING})),
            starting_count=Count("members", filter=Q(**{f"{states}__in": STARTING})),
            done_count=Count("members", filter=Q(**{states: State.SUCCEEDED})),
            stopped_count=Count(
                "members", filter=Q(**{f"{states}__in": [State.FAILED, State.CANCELLED, State.LOST]})
            ),
        )
        .order_by("-created_at", "id")
    )


def study_by_id(project: Project, study_id: str) -> Study:
    """A study of this project. Raises NotFound, also for one of another project."""
    found = _counted(Study.objects.filter(project=project, pk=study_id))
    return first_of(found, f"There is no study {study_id}.")


def progress_of(study: Study) -> Progress:
    """Of a study annotated as in `studies_of`."""
    total, running, starting = study.run_count, study.running_count, study.starting_count  # type: ignore[attr-defined]
    done, stopped = study.done_count, study.stopped_count  # type: ignore[attr-defined]
    return Progress(total, total - running - starting - done - stopped, starting, running, done, stopped)


def version_of(study: Study) -> str:
    """Changes whenever anything on the study's page does. One cheap query."""
    seen = study.members.aggregate(runs=Count("pk"), versions=Sum("run__version"))
    return f"{study.version}.{seen['runs']}.{seen['versions'] or 0}"


def groups_of(study: Study, metric: str = DEFAULT_METRIC) -> list[Group]:
    """The variants in their order, each with its runs, curves, fits and forecasts. Five queries.

    Forecasts are stored of the overall pass rate; of another metric a few are worked out here.
    """
    groups = {arm.pk: Group(arm) for arm in study.arms.select_related("revision__recipe")}
    places = list(
        StudyRun.objects.filter(study=study)
        .select_related("run__summary")
        .defer("run__config")
        .order_by("run__seed", "id")
    )
    curves = curves_of([place.run_id for place in places], metric=metric)
    fits, crashed = fits_of(curves, Question(metric=metric))
    courses = _courses(study.project, [place.run_id for place in places], fits, metric)
    for place in places:
        run = place.run
        off_curve = metric == DEFAULT_METRIC and not knows_hours(run)
        newest = summary_of(run)
        reported = newest.pass_rate, newest.pass_rate_stderr
        member = Member(
            run,
            curves.get(place.run_id),
            fits.get(place.run_id),
            reported if off_curve and newest.pass_rate is not None else None,
            place.run_id in crashed,
            courses.get(place.run_id),
        )
        groups[place.arm_id].members.append(member)
    return list(groups.values())


def _courses(
    project: Project, run_ids: list[str], fits: "Mapping[str, scaling.Fit | None]", metric: str
) -> Mapping[str, Course | None]:
    if metric == DEFAULT_METRIC:
        return courses_of(project, run_ids, DEFAULT_AXIS, fits)
    few = [(pk, fit) for pk, fit in fits.items() if fit is not None][:MOST_NOW]
    return {pk: forecast_now(fit) for pk, fit in few}


def metrics_of(study: Study) -> list[str]:
    """The curves that the study's runs report: the overall pass rate first, then the parts of a mixture."""
    names = (
        Series.objects.filter(
            run__studies__study=study, metric__startswith="eval/", metric__endswith="pass_rate"
        )
        .values_list("metric", flat=True)
        .distinct()
    )
    return sorted(filter(is_pass_rate, names), key=lambda name: (name != DEFAULT_METRIC, name))


def stored_courses_of(studies: list[Study]) -> dict[str, list[tuple[Arm, list[Course | None]]]]:
    """Study -> its variants in order, each with its runs' stored forecasts. Five queries for any number, of studies
    of one project."""
    arms: dict[str, list[Arm]] = defaultdict(list)
    for arm in Arm.objects.filter(study__in=studies).order_by("study_id", "position"):
        arms[arm.study_id].append(arm)
    places = list(StudyRun.objects.filter(study__in=studies).values_list("arm_id", "run_id"))
    ids = list({run_id for _, run_id in places})
    courses = courses_of(studies[0].project, ids, DEFAULT_AXIS) if studies else {}
    of_arm: dict[int, list[Course | None]] = defaultdict(list)
    for arm_id, run_id in places:
        of_arm[arm_id].append(courses.get(run_id))
    return {study.pk: [(arm, of_arm[arm.pk]) for arm in arms[study.pk]] for study in studies}


def runs_to_add(study: Study, most: int) -> QuerySet[Run]:
    """The project's newest runs that are not in the study."""
    inside = StudyRun.objects.filter(study=study).values("run_id")
    return (
        Run.objects.filter(project=study.project)
        .exclude(pk__in=inside)
        .only("name", "seed", "task", "model")
        .order_by("-created_at", "id")[:most]
    )


def is_live(progress: Progress) -> bool:
    """Whether anything may still change by itself."""
    return progress.ended < progress.total


__all__ = ["ENDED", "Group", "Member", "Progress", "groups_of", "studies_of", "study_by_id", "version_of"]
