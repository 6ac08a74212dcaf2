"""Runs that train, and records that raise alarms."""

import pytest

from tests.webapp.interfaces.pages.conftest import ada, make_run, model_folder, project, user  # noqa: F401 (fixtures)
from tests.webapp.interfaces.pages.data import record
from webapp.record.runs import ingest
from webapp.reporting.alarms.services import judge_run


@pytest.fixture
def report():
    """report(run, metric, value, n): `n` records after what the run has, then its alarms are judged."""

    def store(run, metric, value, n, *, first=1000, attempt=1):
        records = [
            record(first + i, 1.0 + 0.001 * (first + i), {metric: value}, attempt=attempt) for i in range(n)
        ]
        ingest.store_records(run, records)
        judge_run(run.pk)

    return store
