"""A project with an author and a reviewer, and runs whose curves follow Eq. 1 with C_mid = 1 device-hour."""

from datetime import timedelta

import numpy as np
import pytest
from django.utils import timezone

from tests.members import member
from tests.predicting import predicted
from webapp.identity.accounts.models import Project, Role
from webapp.identity.accounts.services import default_organisation
from webapp.record.recipes.models import Recipe, Revision
from webapp.record.runs.models import Attempt, Point, Run, Series, State


@pytest.fixture
def project(db):
    return Project.objects.create(slug="math", name="Math", organisation=default_organisation())


@pytest.fixture
def author(project):
    return member("ada", project=project, role=Role.CONTRIBUTOR)


@pytest.fixture
def reviewer(project):
    return member("grace", project=project, role=Role.REVIEWER)


@pytest.fixture
def admin(project):
    return member("root", project=project, role=Role.ADMIN)


@pytest.fixture
def revision(project):
    recipe = Recipe.objects.create(project=project, slug="scalerl", name="ScaleRL")
    return Revision.objects.create(recipe=recipe, number=1, config={}, content_hash="0" * 64)


@pytest.fixture
def other_revision(project):
    recipe = Recipe.objects.create(project=project, slug="grpo", name="GRPO")
    return Revision.objects.create(recipe=recipe, number=1, config={}, content_hash="1" * 64)


def rate(hours, a=0.6, b=2.0):
    """Eq. 1 with R0 = 0.2 and C_mid = 1."""
    return 0.2 + (a - 0.2) / (1 + np.asarray(hours, float) ** -b)


def add_points(run, hours, rates, *, stderr=0.005, attempt=1, metric="eval/pass_rate", time=None):
    """Evaluations as they stand in the store; times count up from now, unless given."""
    series, _ = Series.objects.get_or_create(run=run, metric=metric)
    Attempt.objects.get_or_create(
        run=run, number=attempt, defaults={"submission_id": f"run-{run.pk}-a{attempt}"}
    )
    first = Point.objects.filter(series=series).count()
    now = timezone.now()
    Point.objects.bulk_create(
        Point(
            series=series, attempt=attempt, seq=first + i, step=round(1000 * c), device_hours=c, flops=c * 1e15,
            tokens=c * 1e6, value=float(r), stderr=stderr, time=time or now + timedelta(seconds=i),
        )
        for i, (c, r) in enumerate(zip(hours, rates, strict=True))
    )  # fmt: skip


@pytest.fixture
def make_run(project, revision):
    """make_run(a=0.6, to=8.0, ...): a run with 40 evaluations up to 8 of its 16 hours."""

    def make(*, a=0.6, b=2.0, to=8.0, n=40, noise=0.004, seed=0, revision=revision, **fields):
        rng = np.random.default_rng(seed)
        fields = {"name": f"ScaleRL {seed}", "task": "math", "model": "8b", "budget_hours": 16.0} | fields
        run = Run.objects.create(
            **{"project": project, "revision": revision, "seed": seed, "state": State.RUNNING} | fields
        )
        hours = np.geomspace(0.1, to, n)
        add_points(run, hours, rate(hours, a, b) + noise * rng.standard_normal(n))
        return run

    return make


@pytest.fixture
def run(make_run):
    return make_run()


@pytest.fixture
def freeze(author, run):
    """freeze(target=16.0, ...): a claim of the author about the pass rate of the run at the end of its budget."""

    def make(**changes):
        return predicted(**{"user": author, "run": run} | changes)

    return make
