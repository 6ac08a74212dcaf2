"""`make_data`: what is stored is what real runs leave, fits find the ceilings that were put in, and all goes again."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from benchmarks.made.command import Command as MakeData
from benchmarks.made.plan import SHAPES, plan_runs
from tests.members import member
from tests.shared_rows import kept
from webapp.identity.accounts.models import Project, Role
from webapp.record.runs.models import Attempt, Point, Run, State
from webapp.record.runs.points import effective_points
from webapp.reporting.alarms.models import Alarm
from webapp.science.curves.models import Fit
from webapp.science.curves.services import refit

RUNS, POINTS, SEED = 10, 10_000, 2


def make(**options):
    said = StringIO()
    given = {"runs": RUNS, "points": POINTS, "project": "big", "processes": 1, "seed": SEED} | options
    call_command(MakeData(), stdout=said, **given)
    return said.getvalue()


@pytest.fixture(scope="module")
def stored(django_db_setup, django_db_blocker):
    with kept(django_db_blocker):
        said = make()
        yield Project.objects.get(slug="big"), said


@pytest.fixture
def made(db, stored):
    """(the project, what was said): made once for all tests of this module."""
    return stored


@pytest.mark.deep
def test_runs_points_and_fits_are_there(made):
    project, said = made
    runs = Run.objects.filter(project=project)

    assert runs.count() == RUNS
    assert Point.objects.filter(series__run__in=runs).count() == pytest.approx(POINTS, rel=0.15)
    trained = runs.exclude(state=State.QUEUED)
    assert all(run.series.count() == len(SHAPES) for run in trained)
    assert Attempt.objects.filter(run__in=runs).count() >= RUNS
    assert all(run.created_at < run.started_at for run in trained)
    assert all(run.records.count() == 1 for run in trained)
    assert f"{RUNS} runs in the project big" in said
    assert "points" in said and "fitted" in said


@pytest.mark.deep
def test_curves_are_those_of_the_plan_and_fits_find_their_ceilings(made):
    project, _ = made
    runs = list(Run.objects.filter(project=project).order_by("created_at"))
    planned = plan_runs(RUNS, POINTS, 12, seed=SEED)
    identified = 0
    for run, plan in zip(runs, planned, strict=True):
        newest = Fit.objects.filter(run=run).order_by("-id").first()
        if newest and newest.status == "ok" and plan.state == State.SUCCEEDED:
            identified += 1
            lo, hi = newest.intervals["A"]
            assert lo - 3 * (hi - lo) < plan.a < hi + 3 * (hi - lo)
    assert identified > RUNS // 3


@pytest.mark.deep
def test_a_fit_is_the_one_that_a_refit_makes(made):
    project, _ = made
    run = Run.objects.filter(project=project, state=State.SUCCEEDED).first()
    before = Fit.objects.filter(run=run).count()

    assert refit(run.pk).created is False
    assert Fit.objects.filter(run=run).count() == before


@pytest.mark.deep
def test_points_past_the_checkpoint_of_a_crashed_attempt_are_superseded(made):
    run = Run.objects.filter(attempt_number=2).first()
    points = effective_points(run)
    steps = [point.step for point in points]

    assert {point.attempt for point in points} == {1, 2}
    assert steps == sorted(set(steps))


@pytest.mark.deep
def test_truncated_runs_alarm_and_no_others(made):
    alarmed = set(Alarm.objects.values_list("run", "metric"))
    assert alarmed
    assert {metric for _, metric in alarmed} == {"train/truncation_rate"}


@pytest.mark.deep
def test_a_project_with_runs_is_left_alone_unless_told(made):
    with pytest.raises(CommandError, match=f"the project big has {RUNS} runs; --remove"):
        make()

    vic = member("vic", project=Project.objects.get(slug="big"), role=Role.VIEWER)
    make(add=True, runs=4, points=4_000, seed=1)
    assert vic.memberships.get().role == Role.VIEWER
    assert Run.objects.filter(project__slug="big").count() == RUNS + 4


@pytest.mark.deep
def test_remove_takes_all_of_it_and_nothing_else(made, make_tracked):
    others = make_tracked()

    call_command(MakeData(), remove=True, project="big", stdout=StringIO())

    assert not Project.objects.filter(slug="big").exists()
    assert list(Run.objects.all()) == [others]
    assert Point.objects.exclude(series__run=others).count() == 0
    assert len(effective_points(others)) == 1


@pytest.mark.deep
def test_remove_without_others_empties_the_points(made):
    call_command(MakeData(), remove=True, project="big", stdout=StringIO())

    assert not Point.objects.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"points": 100, "project": "other"}, "too few"),
        ({"remove": True, "project": "nowhere"}, "no project 'nowhere'"),
        ({"remove": True, "project": "default"}, "the default project"),
    ],
)
def test_what_cannot_be_done_is_said(db, options, words):
    from webapp.identity.accounts.services import default_project

    default_project()
    before = set(Run.objects.values_list("pk", flat=True))
    with pytest.raises(CommandError, match=words):
        make(**options)
    assert set(Run.objects.values_list("pk", flat=True)) == before


@pytest.mark.deep
def test_fits_by_several_processes_are_the_same(made):
    from webapp.science.curves.stored_fits import fit_parts, fitted_by, parts_of

    project, _ = made
    ids = list(Run.objects.filter(project=project, state=State.SUCCEEDED).values_list("pk", flat=True)[:4])
    ((_, rows),) = fitted_by(iter([ids]), processes=2)

    assert rows == fit_parts(parts_of(ids))
