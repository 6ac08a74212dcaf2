"""What clients could not have stored is counted, an attempt each, and never less than was told before."""

import pytest

from webapp.base.errors import InvalidInput
from webapp.record.runs.ingest import note_refused, refused_of
from webapp.record.runs.models import Run


def told(run, attempt=1, records=0, values=0, reason="step is too large"):
    note_refused(run, attempt=attempt, refused_records=records, refused_values=values, reason=reason)
    return Run.objects.get(pk=run.pk)


def test_a_run_says_how_much_of_it_is_missing(tracked):
    assert refused_of(tracked).words == ""

    run = told(tracked, records=1)
    assert refused_of(run).words == (
        "1 record that its trainer logged is not stored, the newest because: step is too large"
    )
    run = told(tracked, attempt=2, records=1200, values=3, reason="")
    assert refused_of(run).words == "1,201 records and 3 values that its trainer logged are not stored"


def test_counts_never_shrink_and_a_repeat_changes_nothing(tracked):
    run = told(tracked, records=5, values=1)
    version = run.version

    assert told(tracked, records=3, values=1, reason="late").version == version
    assert told(tracked, records=5, values=2, reason="newest").refused == {
        "1": {"records": 5, "values": 2, "reason": "newest"}
    }


def test_a_launched_run_has_the_attempts_that_it_has(launch_one):
    with pytest.raises(InvalidInput, match="this run has no attempt 7") as caught:
        told(launch_one(), attempt=7, records=1)
    assert caught.value.field == "attempt"
