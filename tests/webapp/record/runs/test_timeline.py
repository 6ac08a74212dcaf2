"""Where the time of steps went, from what records say of themselves."""

from datetime import UTC, datetime, timedelta

import pytest

from training.records import Record
from webapp.record.runs.ingest import store_records
from webapp.record.runs.timeline import Span, as_trace, in_rows, spans_in, timeline_of

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
STEP = {
    "perf/step_seconds": 10.0, "perf/trainer_idle": 0.3, "perf/update_seconds": 6.0, "perf/update_ago_seconds": 0.5,
    "perf/generate_seconds": 9.0, "perf/generate_ago_seconds": 8.0, "perf/reward_seconds": 3.0,
    "perf/reward_ago_seconds": 7.0,
}  # fmt: skip


def made(step, metrics, *, seq=None):
    return Record.model_validate(
        {
            "attempt": 1, "seq": step if seq is None else seq, "step": step,
            "time": (BEGAN + timedelta(seconds=10 * step)).isoformat(),
            "compute": {"device_hours": 0.0, "flops": 0, "tokens": 0}, "metrics": metrics,
        }
    )  # fmt: skip


def places(spans):
    return {span.name: (span.lane, span.began, span.seconds) for span in spans}


def test_a_record_of_the_driver_tells_each_span_and_the_wait_before_the_update():
    assert places(spans_in(1, 100.0, STEP)) == {
        "generate": ("Generator", 83.0, 9.0), "reward": ("Rewards", 90.0, 3.0), "update": ("Trainer", 93.5, 6.0),
        "wait": ("Trainer", 90.5, 3.0),
    }  # fmt: skip


def test_of_older_records_there_are_wait_and_update():
    found = spans_in(1, 100.0, {"perf/step_seconds": 10.0, "perf/trainer_idle": 0.25})

    assert places(found) == {"update": ("Trainer", 92.5, 7.5), "wait": ("Trainer", 90.0, 2.5)}


def test_what_verl_tells_comes_one_after_the_other():
    found = spans_in(
        1,
        100.0,
        {"timing_s/step": 10.0, "timing_s/gen": 6.0, "timing_s/adv": 0.0, "timing_s/update_actor": 3.0},
    )

    assert places(found) == {"gen": ("Generator", 90.0, 6.0), "update_actor": ("Trainer", 96.0, 3.0)}


def test_what_overlaps_in_a_lane_is_in_the_next_row():
    spans = [Span("Generator", "generate", i, began, 4.0) for i, began in enumerate((0.0, 2.0, 4.0, 5.0))]

    assert [span.row for span in in_rows(spans)] == [0, 1, 0, 2]


@pytest.mark.parametrize(("last", "window"), [(None, (4, 6)), (3, (1, 3)), (99, (4, 6)), (0, (0, 0))])
def test_some_steps_are_read(tracked, last, window):
    store_records(tracked, [made(step, STEP) for step in range(7)])

    found = timeline_of(tracked, last, steps=3)

    assert (found.first, found.last, found.newest) == (*window, 6)
    assert {span.step for span in found.spans} == set(range(window[0], window[1] + 1))


def test_an_evaluation_of_the_same_step_is_a_span_of_its_own(tracked):
    store_records(tracked, [made(1, STEP), made(1, {"perf/evaluate_seconds": 4.0}, seq=2)])

    found = timeline_of(tracked)

    assert ("Evaluation", 4.0) in [(span.lane, span.seconds) for span in found.spans]


def test_a_run_that_tells_nothing_has_no_timeline(tracked):
    store_records(tracked, [made(1, {"loss": 1.0})])

    assert timeline_of(tracked).spans == []
    assert [event["ph"] for event in as_trace(tracked, timeline_of(tracked))["traceEvents"]] == ["M"]


def test_a_trace_has_a_thread_for_each_row_and_microseconds(tracked):
    store_records(tracked, [made(1, STEP)])

    trace = as_trace(tracked, timeline_of(tracked))

    names = {
        event["tid"]: event["args"]["name"]
        for event in trace["traceEvents"]
        if event["name"] == "thread_name"
    }
    (update,) = [event for event in trace["traceEvents"] if event["name"] == "update"]
    assert list(names.values()) == ["Generator", "Rewards", "Trainer"]
    assert (names[update["tid"]], update["dur"], update["args"]) == ("Trainer", 6_000_000, {"step": 1})
    assert update["ts"] == round(1e6 * (BEGAN.timestamp() + 10 - 6.5))
