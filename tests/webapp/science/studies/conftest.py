"""A project with recipes, a model, and studies whose runs reported curves: everything through the services."""

from dataclasses import replace

import pytest

from tests.webapp.interfaces.pages.conftest import ada, foreign_run, make_run, model_folder, project, user  # noqa: F401 (fixtures)
from tests.webapp.interfaces.pages.data import curve_records
from webapp.record.runs import ingest, lifecycle
from webapp.science.curves.services import refit
from webapp.science.studies import services
from webapp.science.studies.planning import StudyRequest

TINY = StudyRequest(
    recipe="tiny-scalerl",
    revision=None,
    changes=("loss=dapo", "head=bfloat16"),
    seeds=(0, 1),
    task="arithmetic",
    model="tiny-arithmetic",
    budget_hours=16.0,
)


@pytest.fixture
def make_study(user, project, model_folder):  # noqa: F811
    """make_study(changes=(...), ...): a study of the tiny ScaleRL; its runs are queued."""

    def make(*, name="What matters", kind="leave_one_out", key=None, **changed):
        asked = replace(TINY, name=name, kind=kind, **changed)
        return services.create_study(asked, user=user, project=project, idempotency_key=key).study

    return make


@pytest.fixture
def report():
    """report(run, n, a=...): evaluations of a run along a curve, fitted and stored."""

    def make(run, n=24, *, ended=None, **curve):
        lifecycle.report_started(run, attempt=1, resumed_from_step=None, device="cpu")
        ingest.store_records(run, curve_records(n, seed=run.seed + 10 * len(run.name), **curve))
        refit(run.pk)
        if ended:
            lifecycle.report_finished(run, attempt=1, state=ended)
        run.refresh_from_db()

    return make


@pytest.fixture
def finished(make_study, report):
    """A study whose base and variants have all reported: DAPO 0.08 lower, without the FP32 head as high."""
    study = make_study()
    ceilings = {0: 0.6, 1: 0.52, 2: 0.6}
    for place in study.members.select_related("run", "arm"):
        report(place.run, a=ceilings[place.arm.position], ended="succeeded")
    return study
