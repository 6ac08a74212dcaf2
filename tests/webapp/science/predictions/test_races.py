"""Two connections at once: nothing slips in between what a claim looked at and the claim."""

import threading
from datetime import UTC, datetime

import pytest
from django.db import connection, transaction

from tests.waiting import wait_until
from tests.webapp.science.predictions.conftest import add_points
from training.records import Compute, Record
from webapp.base.errors import Conflict
from webapp.record.runs.ingest import store_records
from webapp.record.runs.models import Run
from webapp.science.predictions import services
from webapp.science.predictions.judging import score_run
from webapp.science.predictions.models import Outcome, Prediction

pytestmark = pytest.mark.django_db(transaction=True)


def in_thread(work):
    """Run work() in a thread with a connection of its own; returns (thread, results)."""
    results = []

    def whole():
        try:
            results.append(work())
        except Exception as error:
            results.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=whole)
    thread.start()
    return thread, results


WAITING_HERE = """
SELECT count(*) FROM pg_locks AS waiting JOIN pg_locks AS held USING (pid)
JOIN pg_database ON pg_database.oid = held.database AND datname = current_database()
WHERE NOT waiting.granted
"""


def somebody_waits_for_a_lock():
    with connection.cursor() as cursor:
        cursor.execute(WAITING_HERE)
        return cursor.fetchone()[0] > 0


def evaluation(hours):
    return Record(
        attempt=1, seq=10_000, step=round(1000 * hours), time=datetime.now(UTC).isoformat(),
        compute=Compute(device_hours=hours, flops=1e16, tokens=1e7), metrics={"eval/pass_rate": 0.6},
    )  # fmt: skip


@pytest.fixture
def tracked(run):
    Run.objects.filter(pk=run.pk).update(origin="tracked")
    return Run.objects.get(pk=run.pk)


def test_a_claim_waits_for_points_on_their_way_and_sees_them(freeze, tracked):
    with transaction.atomic():
        store_records(tracked, [evaluation(16.0)])  # not committed yet
        thread, results = in_thread(freeze)
        wait_until(somebody_waits_for_a_lock)
        assert results == []
    thread.join(20)

    assert isinstance(results[0], Conflict) and results[0].field == "target"
    assert not Prediction.objects.exists()


def test_points_wait_for_a_claim_and_score_it(freeze, tracked):
    with transaction.atomic():
        made = freeze()
        thread, results = in_thread(lambda: store_records(tracked, [evaluation(16.0)]))
        wait_until(somebody_waits_for_a_lock)
    thread.join(20)

    assert results[0].accepted == 1
    assert [outcome.prediction_id for outcome in score_run(tracked.pk)] == [made.pk]


def together(*works):
    barrier = threading.Barrier(len(works))

    def held(work):
        def whole():
            barrier.wait(20)
            return work()

        return whole

    started = [in_thread(held(work)) for work in works]
    for thread, _ in started:
        thread.join(60)
    return [results[0] for _, results in started]


def test_two_tabs_with_one_key_make_one_claim(freeze):
    made = together(*[lambda: freeze(key="k")] * 4)

    assert len({one.pk for one in made}) == 1
    assert Prediction.objects.count() == 1


def test_one_key_for_two_runs_at_once_is_refused(freeze, make_run):
    runs = [make_run(seed=i) for i in (1, 2)]
    made = together(*[lambda run=run: freeze(run=run, key="k") for run in runs])

    assert sorted(type(one).__name__ for one in made) == ["Conflict", "Prediction"]
    assert Prediction.objects.count() == 1


def test_a_claim_is_replaced_by_one(freeze):
    first = freeze()
    made = together(*[lambda i=i: freeze(replaces=first, reasons=f"Way {i}.") for i in range(3)])

    assert sorted(type(one).__name__ for one in made) == ["Conflict", "Conflict", "Prediction"]
    assert Prediction.objects.count() == 2


def test_two_workers_make_one_outcome(freeze, run):
    freeze()
    add_points(run, [16.0], [0.6])
    made = together(*[lambda: score_run(run.pk)] * 4)

    assert sorted(len(one) for one in made) == [0, 0, 0, 1]
    assert Outcome.objects.count() == 1


def test_of_two_withdrawals_one_counts(freeze, author, admin):
    made = freeze()
    results = together(
        lambda: services.withdraw(made, user=author, reason="Mine."),
        lambda: services.withdraw(made, user=admin, reason="Theirs."),
    )

    assert sorted(type(one).__name__ for one in results) == ["Conflict", "Prediction"]
    made.refresh_from_db()
    assert made.withdrawn_reason in ("Mine.", "Theirs.")
