"""Compute over the attempts of a run whose client came back."""

import pytest

from tests.webapp.interfaces.api.conftest import project, user  # noqa: F401 (fixtures)
from webapp.interfaces.tracking import client_runs
from webapp.interfaces.tracking.intake import locked, rejoin, store_values
from webapp.interfaces.tracking.models import ClientRun
from webapp.interfaces.tracking.translate import Value
from webapp.record.runs.lifecycle import report_finished
from webapp.record.runs.models import Record, Run

pytestmark = pytest.mark.django_db
HOUR = 3_600_000


@pytest.fixture
def made(user, project):  # noqa: F811
    group = client_runs.ensure_group(project, "grpo")

    def make(**tags):
        return client_runs.make_client_run(
            group,
            ClientRun(
                client="mlflow", name="r", start_ms=0, tags={f"headroom.{k}": v for k, v in tags.items()}
            ),
            user=user,
        )

    return make


def log(found, step, hours, name="loss", value=1.0):
    return store_values(locked(found)[1], [Value(name, value, step, int(hours * HOUR))])


def hours(found):
    return [(each.attempt, each.step, each.compute["device_hours"]) for each in Record.objects.order_by("id")]


def test_the_time_between_two_attempts_is_not_counted(made):
    found = made(devices="2")
    for step in (1, 2, 3):
        log(found, step, step)
    run, _ = locked(found)
    report_finished(run, attempt=1, state="failed")

    rejoin(*locked(found), at_ms=10 * HOUR)
    log(found, 3, 11)  # resumed from step 2
    log(found, 4, 12)

    assert hours(found) == [
        (1, 1, 2.0), (1, 2, 4.0), (1, 3, 6.0), (2, 3, 6.0), (2, 4, 8.0),
    ]  # fmt: skip


def test_who_goes_on_where_it_stopped_keeps_what_was_spent(made):
    found = made(devices="1")
    log(found, 1, 1)
    report_finished(locked(found)[0], attempt=1, state="failed")

    rejoin(*locked(found), at_ms=10 * HOUR)
    log(found, 2, 11)

    assert hours(found) == [(1, 1, 1.0), (2, 2, 2.0)]


def test_tokens_of_what_is_done_again_are_counted_once(made):
    found = made()
    for step in (1, 2, 3):
        log(found, step, step, "perf/total_num_tokens", 100.0 + step)
    rejoin(*locked(found))

    log(found, 2, 9, "perf/total_num_tokens", 102.5)

    assert Record.objects.order_by("id").last().compute["tokens"] == 101.0 + 102.5
    assert Run.objects.get().attempts.get(number=2).resumed_from_step == 1


def test_joining_twice_before_anything_is_logged_is_joining_once(made):
    found = made()
    log(found, 1, 1)
    report_finished(locked(found)[0], attempt=1, state="succeeded")

    for _ in range(3):
        rejoin(*locked(found))

    run = Run.objects.get()
    assert (run.attempt_number, run.state) == (2, "running")


def test_joining_a_run_that_has_logged_nothing_changes_nothing(made):
    found = made()

    rejoin(*locked(found))

    assert Run.objects.get().attempt_number == 1 and not locked(found)[1].has_rejoined


def test_what_was_stored_is_told(made):
    found = made()

    values = [Value("a", 1.0, 1, 5), Value("a", float("nan"), 2, 5)]

    assert store_values(locked(found)[1], values) == 2
    assert store_values(locked(found)[1], [*values, values[0]]) == 0


def test_a_clock_that_goes_backwards_never_lowers_compute(made):
    found = made(devices="1")

    for step, at in enumerate((2, 1, 0.5, 3)):
        log(found, step, at)

    assert [each[2] for each in hours(found)] == [2.0, 2.0, 2.0, 3.0]


def test_who_logs_without_steps_supersedes_nothing(made):
    found = made()
    log(found, 0, 1, "accuracy", 0.5)
    log(found, 9, 1, "loss", 0.5)
    rejoin(*locked(found))

    log(found, 0, 2, "accuracy", 0.6)

    assert Run.objects.get().attempt_number == 1


def test_a_metric_that_comes_often_at_a_step_tells_nothing(made):
    found = made()
    for step in (1, 2):
        log(found, step, step, "time taken", 0.5)
        log(found, step, step + 0.1, "time taken", 0.6)
    rejoin(*locked(found))

    log(found, 2, 9, "time taken", 0.7)

    assert Run.objects.get().attempt_number == 1


def test_of_verl_only_what_it_logs_once_a_step_tells(made):
    found = made()
    client_runs.describe(found, params={"trainer/n_gpus_per_node": "8", "trainer/nnodes": "1"})
    for step in (1, 2, 3):
        log(found, step, step, "timing_s/step", 3600.0)
        log(found, step, step + 0.1, "val-core/a/mean_at_1", 0.5)
    rejoin(*locked(found))

    log(found, 2, 9, "val-core/a/mean_at_1", 0.5)  # it validates what it resumes from
    assert Run.objects.get().attempt_number == 1
    assert Record.objects.order_by("id").last().compute["device_hours"] == 16.0  # as it was at that step
    log(found, 3, 10, "timing_s/step", 1800.0)

    assert Run.objects.get().attempts.get(number=2).resumed_from_step == 2
    assert Record.objects.order_by("id").last().compute["device_hours"] == 16.0 + 4.0
