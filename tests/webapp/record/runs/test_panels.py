"""Any metrics over many runs: what patterns mean, and lines thinned in one query over the effective points."""

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from webapp.record.runs import lifecycle
from webapp.record.runs.ingest import store_records
from webapp.record.runs.models import Run
from webapp.record.runs.panels import gaps_of, lines_of, matching, metrics_of, newest_of
from webapp.record.runs.thinned import MOST_POINTS, WALL_CLOCK

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


@pytest.mark.parametrize(
    "step_of",
    [lambda i: 3 + 7919 * i + i % 3, lambda i: 50 * i + 1, lambda i: 30_000_019 * i, lambda i: 2 * i - 301],
    ids=["irregular", "far apart", "tokens", "from below 0"],
)
def test_a_long_series_is_thinned_and_not_emptied(tracked, make_record, step_of):
    records = [
        make_record(i, {"a": float(step_of(i))}).model_copy(update={"step": step_of(i)}) for i in range(300)
    ]
    store_records(tracked, records)

    line = lines_of([tracked.pk], ["a"], "step")["a"][tracked.pk]

    assert not line.whole and EMPTIED_AT_LEAST <= len(line.x) <= MOST_POINTS + 1
    assert np.all(np.diff(line.x) > 0) and (line.x == line.y).all()
    assert newest_of([tracked.pk], ["a", "b"]) == {(tracked.pk, "a"): (step_of(299), step_of(299))}


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
    assert lines_of([tracked.pk], ["a"], "value); DROP TABLE") == {"a": {}}  # a metric that it has not


def test_queries_do_not_grow_with_metrics_or_runs(tracked, launch_one, make_record):
    runs = [tracked, launch_one(), launch_one(seed=2)]
    for run in runs:
        store_records(run, [make_record(step, {"a": 1.0, "b": 2.0, "c": 3.0}) for step in range(100)])

    with CaptureQueriesContext(connection) as captured:
        lines_of([run.pk for run in runs], ["a", "b", "c"], "step")
    assert len(captured) == 2


@pytest.mark.parametrize("length", [30, 1000])
def test_a_window_is_thinned_anew_with_one_point_beyond_each_end(tracked, make_record, length):
    report(tracked, make_record, range(length))

    line = lines_of([tracked.pk], ["a"], "step", (10.5, 20))["a"][tracked.pk]
    over_hours = lines_of([tracked.pk], ["a"], "device_hours", (1.05, 2.0))["a"][tracked.pk]

    assert line.x.tolist() == list(range(10, 22)) and line.whole
    assert over_hours.y.tolist() == line.y.tolist()
    assert lines_of([tracked.pk], ["a"], "step", (5000, 6000))["a"].get(tracked.pk) is None or length == 30


def test_of_too_many_points_a_window_has_only_those_that_an_index_has(tracked, make_record):
    report(tracked, make_record, range(1000))

    line = lines_of([tracked.pk], ["a"], "step", (100, 200), most_scanned=900)["a"][tracked.pk]
    every = lines_of([tracked.pk], ["a"], "step", (100, 200), most=120)["a"][tracked.pk]

    assert line.x.tolist() == list(range(96, 201, 8)) and not line.whole
    assert len(every.x) == 103


def test_the_fewer_lines_the_more_points(tracked, make_record):
    report(tracked, make_record, range(1000))

    few, more = (lines_of([tracked.pk], ["a"], "step", most=most)["a"][tracked.pk] for most in (60, 240))

    assert len(few.x) <= 60 < len(more.x) <= 241 and set(few.x) <= set(more.x)


def test_the_wall_clock_begins_with_the_first_record(tracked, launch_one, make_record):
    other = launch_one()
    for run, hour in ((tracked, 3), (other, 7)):
        records = [make_record(step, {} if step == 0 else {"a": float(step)}) for step in range(4)]
        at = [f"2026-01-01T{hour:02}:{15 * step:02}:00+00:00" for step in range(4)]
        store_records(
            run, [one.model_copy(update={"time": time}) for one, time in zip(records, at, strict=True)]
        )

    lines = lines_of([tracked.pk, other.pk], ["a"], WALL_CLOCK)["a"]

    assert [lines[run.pk].x.tolist() for run in (tracked, other)] == [pytest.approx([0.25, 0.5, 0.75])] * 2
    cut = lines_of([tracked.pk], ["a"], WALL_CLOCK, (0.7, 1.0))["a"][tracked.pk]
    assert cut.y.tolist() == [2, 3]


def test_the_wall_clock_begins_with_a_start_before_the_first_record(tracked, make_record):
    """As of the example's runs, whose only record is their last."""
    record = make_record(0, {"a": 1.0}).model_copy(update={"time": "2026-01-01T03:30:00+00:00"})
    store_records(tracked, [record])
    Run.objects.filter(pk=tracked.pk).update(started_at="2026-01-01T03:00:00+00:00")

    assert lines_of([tracked.pk], ["a"], WALL_CLOCK)["a"][tracked.pk].x.tolist() == pytest.approx([0.5])


def both(run, make_record, length, every, apart=1):
    """`a` at every step, `b` = -step at every so many."""
    rows = [
        (step, {"a": float(step)} | ({"b": -float(step)} if step % every == 0 else {}))
        for step in range(0, length * apart, apart)
    ]
    store_records(run, [make_record(step, row, seq=seq) for seq, (step, row) in enumerate(rows)])


@pytest.mark.parametrize(("length", "every", "stride"), [(50, 5, 5), (2000, 10, 40), (2000, 1, 64)])
def test_over_another_metric_are_pairs_of_the_same_step(
    tracked, launch_one, make_record, length, every, stride
):
    both(tracked, make_record, length, every)
    report(launch_one(), make_record, range(9))

    lines = lines_of([tracked.pk], ["a"], "b")["a"]

    line = lines[tracked.pk]
    assert line.y.tolist() == sorted(line.y, reverse=True)[::1] and line.x.tolist() == [-y for y in line.y]
    assert set(range(0, length - every, stride)) <= set(line.y.astype(int)) and len(line.y) <= MOST_POINTS + 1
    assert line.whole == (length == 50)


def test_pairs_of_irregular_steps_are_found_and_of_other_steps_are_none(tracked, launch_one, make_record):
    steps = [3 + 7919 * i + i % 3 for i in range(200)]
    records = [make_record(step, {"a": float(i), "b": 2.0 * i}, seq=i) for i, step in enumerate(steps)]
    store_records(tracked, records)
    other = launch_one()
    store_records(other, [make_record(step, {"ab"[step % 2]: 1.0}) for step in range(300)])

    lines = lines_of([tracked.pk, other.pk], ["a"], "b")["a"]

    assert list(lines) == [tracked.pk] and not lines[tracked.pk].whole
    assert EMPTIED_AT_LEAST <= len(lines[tracked.pk].x) <= MOST_POINTS
    assert (lines[tracked.pk].x == 2 * lines[tracked.pk].y).all()


def scattered(run, make_record, length, step_of=int):
    """`a` is the number of the record; `b` goes up and down, and takes each value from 0 to 999 in turn."""
    rows = [(step_of(i), {"a": float(i), "b": float(i * 37 % 1000)}) for i in range(length)]
    store_records(
        run, [make_record(i, row).model_copy(update={"step": step}) for i, (step, row) in enumerate(rows)]
    )


def test_a_part_of_another_metric_is_read_anew_with_one_point_beyond_each_end(tracked, make_record):
    both(tracked, make_record, 2000, 1)

    line = lines_of([tracked.pk], ["a"], "b", (-110, -100.5))["a"][tracked.pk]

    assert line.x.tolist() == [-128, *range(-110, -100), -64] and line.whole
    assert line.y.tolist() == [-x for x in line.x]


@pytest.mark.parametrize(
    "step_of",
    [int, lambda i: 10 * i, lambda i: 3 + 7919 * i + i % 3],
    ids=["each", "every tenth", "irregular"],
)
def test_a_part_of_a_metric_that_goes_up_and_down_has_all_that_lies_there(tracked, make_record, step_of):
    scattered(tracked, make_record, 2000, step_of)

    line = lines_of([tracked.pk], ["a"], "b", (100, 109))["a"][tracked.pk]

    wanted = {(i * 37 % 1000, i) for i in range(2000) if 100 <= i * 37 % 1000 <= 109}
    found = {(x, y) for x, y in zip(line.x, line.y, strict=True) if 100 <= x <= 109}
    assert found == wanted and len(wanted) == 20


def test_a_part_of_another_metric_has_as_many_points_as_a_line_and_none_moves(tracked, make_record):
    scattered(tracked, make_record, 4000)

    lines = [
        lines_of([tracked.pk], ["a"], "b", window)["a"][tracked.pk] for window in ((-1e9, 1e9), (0, 500))
    ]

    all_of_it, part = ({*zip(line.x, line.y, strict=True)} for line in lines)
    assert {point for point in all_of_it if point[0] <= 500} < part
    assert MOST_POINTS / 2 < len(part) <= MOST_POINTS + 1 and not lines[1].whole


def test_of_too_many_pairs_a_part_has_only_those_that_an_index_has(tracked, make_record):
    both(tracked, make_record, 2000, 1)

    few, fewer = (
        lines_of([tracked.pk], ["a"], "b", (-300, -101), most_scanned=most)["a"][tracked.pk]
        for most in (3900, 800)
    )

    assert few.x[1:-1].tolist() == list(range(-296, -101, 8)) and not few.whole
    assert fewer.x[1:-1].tolist() == list(range(-288, -101, 32))


def test_queries_over_another_metric_do_not_grow_with_metrics_or_runs(tracked, launch_one, make_record):
    runs = [tracked, launch_one(), launch_one(seed=2)]
    for run in runs:
        store_records(run, [make_record(step, {"a": 1.0, "b": 2.0, "c": float(step)}) for step in range(200)])

    with CaptureQueriesContext(connection) as captured:
        lines = lines_of([run.pk for run in runs], ["a", "b"], "c", (10, 20))
    assert len(captured) == 4 and {len(line.x) for own in lines.values() for line in own.values()} == {13}
