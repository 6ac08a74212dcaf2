"""A person, a project that can launch, and runs with curves: made by the services that the pages use."""

import pytest
from django.db import connection

from tests.fake_model import make_model
from tests.launching import launched
from tests.members import member
from tests.webapp.interfaces.pages.data import curve_records
from tests.webapp.interfaces.pages.stored_runs import run_like
from webapp.record.runs import ingest, lifecycle
from webapp.science.curves.services import refit


@pytest.fixture
def user(db):
    """Ada, in the default project (which has the shipped recipes)."""
    return member()  # without a password: hashing one is slow


@pytest.fixture
def project(user):
    return user.projects.get()


@pytest.fixture
def ada(client, user):
    """Her browser, as far as Django's test client is one."""
    client.force_login(user)
    return client


@pytest.fixture
def model_folder(headroom_home):
    """A model as far as a launch looks at it: with a long enough context."""
    folder = make_model(headroom_home, "tiny-arithmetic", 4096)
    return folder


@pytest.fixture
def launch_form(model_folder):
    """What a browser sends from the launch form."""
    return {
        "recipe": "tiny-scalerl", "revision": "1", "task": "arithmetic", "model": "tiny-arithmetic", "seed": "3",
        "budget_hours": "0.5", "name": "", "idempotency_key": "key-1",
    }  # fmt: skip


@pytest.fixture
def make_run(user, project, model_folder):
    """make_run(n=30, a=0.6, ...): a launched run that reported `n` evaluations and was fitted; n=0: still queued."""
    made = set()

    def make(n=30, *, recipe="tiny-scalerl", **asked):
        def anew():
            return _make_run(user, project, n, recipe=recipe, **asked)

        key = (project.pk, n, recipe, *sorted(asked.items()))
        if key in made or not connection.in_atomic_block:
            return anew()
        made.add(key)
        return run_like(key, user, anew)

    return make


def _make_run(
    user, project, n, *, recipe, seed=0, name="", budget_hours=16.0, ended=None, message="", **curve
):
    run = launched(
        user=user, project=project, recipe=recipe, task="arithmetic", model="tiny-arithmetic", seed=seed,
        budget_hours=budget_hours, name=name,
    )  # fmt: skip
    if n:
        lifecycle.report_started(run, attempt=1, resumed_from_step=None, device="cpu")
        ingest.store_records(run, curve_records(n, seed=seed, **curve))
        refit(run.pk)
    if ended:
        lifecycle.report_finished(run, attempt=1, state=ended, message=message)
    run.refresh_from_db()
    return run


@pytest.fixture
def foreign_run(user, make_run):
    """A run of a project that Ada is not a member of."""
    from webapp.identity.accounts.services import create_project

    run = make_run()
    run.project = create_project(slug="secret", name="Secret")
    run.save(update_fields=["project"])
    return run
