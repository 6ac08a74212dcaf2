"""Any metrics over many runs: what patterns mean, and lines thinned in one query over the effective points."""

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from webapp.record.runs import lifecycle
from webapp.record.runs.ingest import store_records
from webapp.record.runs.panels import MOST_POINTS, gaps_of, lines_of, matching, metrics_of, stride_of

NAMES = ["eval/pass_rate", "system/a/host/cpu_fraction", "train/entropy", "train/grad_norm", "train/[odd]"]


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        (["train/entropy"], ["train/entropy"]),
        (["train/*", "eval/*"], ["train/entropy", "train/grad_norm", "train/[odd]", "eval/pass_rate"]),
        (["grad", "entropy"], ["train/grad_norm", "train/entropy"]),
        (["*"], ["eval/pass_rate", "train/entropy", "train/grad_norm", "train/[odd]"]),
        (["system/*"], ["system/a/host/cpu_fraction"]),
        (["train/[odd]"], ["train/[odd]"]),
        (["nothing"], []),
        ([], []),
    ],
)
def test_a_pattern_means_a_name_a_glob_or_a_part(patterns, found):
    assert matching(NAMES, patterns) == found


@pytest.mark.parametrize(
    ("first", "last", "stride"),
    [
        ([0, 1], 59, 1),
        ([0, 1], 60, 2),
        ([0, 1], 10_000, 256),
        ([0, 10], 1000, 20),
        ([7], 7, 1),
        ([5, 5], 100, 2),
    ],
)
def test_a_stride_is_the_distance_of_two_steps_doubled(first, last, stride):
    assert stride_of(first, last) == (stride, last)


def report(run, make_record, steps, name="a", value=float):
    records = [make_record(step, {name: value(step)}, seq=seq) for seq, step in enumerate(steps)]
    store_records(run, records)


@pytest.mark.parametrize("x", ["step", "device_hours"])
def test_a_short_series_is_whole(tracked, make_record, x):
    report(tracked, make_record, range(MOST_POINTS))

    line = lines_of([tracked.pk], ["a"], x)["a"][tracked.pk]

    assert line.whole and line.y.tolist() == list(range(MOST_POINTS))
    assert line.x[-1] == (59 if x == "step" else pytest.approx(5.9))


@pytest.mark.parametrize(
    ("steps", "stride"), [(range(200), 4), (range(2000), 64), (range(0, 20_000, 10), 640)]
)
def test_a_long_series_is_every_so_many_steps_and_never_moves(tracked, make_record, steps, stride):
    report(tracked, make_record, steps)

    line = lines_of([tracked.pk], ["a"], "step")["a"][tracked.pk]

    wanted = [step for step in steps if step % stride == 0]
    assert not line.whole and line.x.tolist()[: len(wanted)] == wanted
    assert EMPTIED_AT_LEAST <= len(line.x) <= MOST_POINTS + 1


EMPTIED_AT_LEAST = 15


def test_irregular_steps_are_thinned_as_other_charts_are(tracked, make_record):
    report(tracked, make_record, [3 + 7919 * i + i % 3 for i in range(200)])

    line = lines_of([tracked.pk], ["a"], "step")["a"][tracked.pk]

    assert not line.whole and EMPTIED_AT_LEAST <= len(line.x) <= MOST_POINTS
    assert np.all(np.diff(line.x) > 0)


def test_superseded_points_are_left_out(launch_one, make_record):
    run = launch_one()
    store_records(run, [make_record(step, {"a": float(step)}, hours=0.01 * step) for step in range(10)])
    lifecycle.report_finished(run, attempt=1, state="failed", message="")
    from webapp.record.runs.launch import resume_run

    run = resume_run(run, user=None)
    lifecycle.report_started(run, attempt=2, resumed_from_step=4, device="cpu")
    store_records(run, [make_record(5, {"a": -1.0}, attempt=2, seq=0, hours=0.05)])

    assert lines_of([run.pk], ["a"], "step")["a"][run.pk].y.tolist() == [0, 1, 2, 3, 4, -1]


def test_what_has_no_value_is_a_gap_and_not_a_point(tracked, make_record):
    store_records(tracked, [make_record(step, {"a": None if step == 2 else 1.0}) for step in range(4)])

    assert lines_of([tracked.pk], ["a"], "step")["a"][tracked.pk].x.tolist() == [0, 1, 3]
    assert gaps_of([tracked.pk], ["a"], "step")[tracked.pk, "a"].tolist() == [2]
    assert gaps_of([tracked.pk], ["a"], "device_hours")[tracked.pk, "a"].tolist() == [pytest.approx(0.2)]


def test_a_metric_of_one_run_and_none_at_all(tracked, launch_one, make_record):
    other = launch_one()
    report(tracked, make_record, range(3))

    assert metrics_of([tracked.pk, other.pk]) == {"a": 1}
    found = lines_of([tracked.pk, other.pk], ["a", "b"], "step")
    assert list(found["a"]) == [tracked.pk] and found["b"] == {}
    with pytest.raises(ValueError):
        lines_of([tracked.pk], ["a"], "value); DROP TABLE")


def test_queries_do_not_grow_with_metrics_or_runs(tracked, launch_one, make_record):
    runs = [tracked, launch_one(), launch_one(seed=2)]
    for run in runs:
        store_records(run, [make_record(step, {"a": 1.0, "b": 2.0, "c": 3.0}) for step in range(100)])

    with CaptureQueriesContext(connection) as captured:
        lines_of([run.pk for run in runs], ["a", "b", "c"], "step")
    assert len(captured) == 2
