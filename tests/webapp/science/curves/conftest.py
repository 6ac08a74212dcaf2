"""Runs with curves drawn from Eq. 1, straight in the database."""

from datetime import UTC, datetime

import numpy as np
import pytest

from tests.members import member
from webapp.identity.accounts.models import Project
from webapp.identity.accounts.services import default_organisation
from webapp.record.recipes.models import Recipe, Revision
from webapp.record.runs.models import Attempt, Point, Run, Series, State


@pytest.fixture
def project(db):
    project = Project.objects.create(slug="math", name="Math", organisation=default_organisation())
    member(project=project)
    return project


@pytest.fixture
def revision(project):
    recipe = Recipe.objects.create(project=project, slug="scalerl", name="ScaleRL")
    return Revision.objects.create(recipe=recipe, number=1, config={}, content_hash="0" * 64)


@pytest.fixture
def make_run(project, revision):
    """make_run(a=0.6, to=8.0, ...): a run whose evaluations follow Eq. 1 with C_mid = 1 device-hour."""

    def make(*, a=0.6, b=2.0, to=8.0, n=40, noise=0.004, seed=0, revision=revision, start=True, **fields):
        rng = np.random.default_rng(seed)
        run = Run.objects.create(
            project=project, revision=revision, name=fields.pop("name", "ScaleRL"), task="math", model="8b",
            seed=seed, budget_hours=16.0, state=fields.pop("state", State.RUNNING), **fields,
        )  # fmt: skip
        Attempt.objects.create(run=run, number=1, submission_id=f"run-{run.pk}-a1")
        series = Series.objects.create(run=run, metric="eval/pass_rate")
        hours = np.geomspace(0.1, to, n)
        rates = 0.2 + (a - 0.2) / (1 + hours**-b) + noise * rng.standard_normal(n)
        if start:
            hours, rates = np.append(0.0, hours), np.append(0.2 + noise * rng.standard_normal(), rates)
        Point.objects.bulk_create(
            Point(
                series=series, attempt=1, seq=i, step=10 * i, time=datetime(2026, 1, 1, tzinfo=UTC), device_hours=c,
                flops=c * 1e15, tokens=c * 1e6, value=r, stderr=0.01,
            )
            for i, (c, r) in enumerate(zip(hours, rates, strict=True))
        )  # fmt: skip
        return run

    return make
