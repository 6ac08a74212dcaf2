"""Claims about a run with a curve, made by the services."""

import pytest
from django.test import Client

from tests.members import member
from tests.webapp.interfaces.pages.addresses import make_prediction
from tests.webapp.interfaces.pages.data import curve_records
from webapp.identity.accounts.models import Role
from webapp.record.runs import ingest
from webapp.science.curves.services import refit
from webapp.science.predictions.judging import score_run


@pytest.fixture
def half_run(make_run):
    """30 evaluations over 8 of 16 device-hours."""
    return make_run(30, name="ScaleRL, first seed", budget_hours=16.0)


@pytest.fixture
def grace(user, project):
    return member("grace", project=project, role=Role.REVIEWER)


@pytest.fixture
def claim(user, half_run):
    """The forecast's own pass rate at 16 device-hours."""
    return make_prediction(user, half_run)


@pytest.fixture
def go_on():
    """go_on(run): 32 further evaluations, past 16 device-hours, and their score."""

    def send(run, last=62):
        records = curve_records(62, to=16.0 * 62 / 60, seed=run.seed + 1, first=31)
        ingest.store_records(run, [one for one in records if one.seq <= last])
        refit(run.pk)
        score_run(run.pk)
        run.refresh_from_db()

    return send


@pytest.fixture
def as_grace(client, grace):
    browser = Client()
    browser.force_login(grace)
    return browser
