"""A run of somebody else beside the made ones."""

import pytest

from tests.launching import tracked_run
from training.records import Record
from webapp.identity.accounts.services import default_project
from webapp.record.runs.ingest import store_records


@pytest.fixture
def make_tracked(db):
    """make_tracked(): a tracked run of the default project with one evaluation."""

    def make():
        run = tracked_run(user=None, project=default_project(), name="elsewhere")
        record = Record.model_validate(
            {
                "attempt": 1, "seq": 1, "step": 1, "time": "2026-01-01T00:00:00+00:00",
                "compute": {"device_hours": 1.0, "flops": 1.0, "tokens": 1.0},
                "metrics": {"eval/pass_rate": 0.5},
            }
        )  # fmt: skip
        store_records(run, [record])
        run.refresh_from_db()
        return run

    return make
