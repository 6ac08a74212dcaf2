"""Series of machines: beside the metrics, on the clock."""

from datetime import UTC, datetime, timedelta

import pytest

from training.records import Record
from webapp.record.runs.ingest import store_records
from webapp.record.runs.selectors import latest_values, metric_names
from webapp.record.runs.timeline import figure_of, figures_of, lines_of, width_for

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
CPU = "system/a/host/cpu_fraction"


def look(seq, seconds, metrics, *, step=0):
    return Record.model_validate(
        {
            "attempt": 1, "seq": seq, "step": step, "time": (BEGAN + timedelta(seconds=seconds)).isoformat(),
            "compute": {"device_hours": 0.0, "flops": 0, "tokens": 0}, "metrics": metrics,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "place"),
    [
        (CPU, ("a", "host", "cpu_fraction")),
        ("system/a/rank-0/gpu1/busy_fraction", ("a", "rank-0", "gpu1/busy_fraction")),
        ("system/gpu/0/utilization", ("", "", "gpu/0/utilization")),  # as trackio's clients say it
        ("system/cpu_utilization_percentage", ("", "", "cpu_utilization_percentage")),  # as MLflow's do
        ("system/", ("", "", "")),
    ],
)
def test_a_name_says_whose_figure_it_is(metric, place):
    found = figure_of(metric)

    assert (found.node, found.part, found.what) == place


def test_machines_take_no_room_of_the_metrics_and_are_none(tracked):
    tracked.project.max_metrics = 2
    tracked.project.save()
    names = [CPU, "system/a/host/memory_fraction", "system/b/host/cpu_fraction"]

    store_records(
        tracked, [look(0, 0, dict.fromkeys(names, 0.5)), look(1, 15, {"x": 1.0, "y": 1.0, "z": 1.0})]
    )

    assert metric_names(tracked) == ["x", "y"]
    assert [one.metric for one in figures_of(tracked)] == names[:2]  # as many again
    assert set(latest_values(tracked)) == {"x", "y"}


def test_a_line_has_the_mean_of_each_stretch_on_the_clock_of_all_attempts(tracked):
    tracked.started_at = BEGAN
    values = [0.1, 0.3, 0.5, 0.9]
    store_records(tracked, [look(i, 15 * i, {CPU: value}) for i, value in enumerate(values)])

    (line,) = lines_of(tracked, figures_of(tracked)).values()

    assert (line.width, line.latest, line.largest) == (15.0, 0.9, 0.9)
    assert line.values == values and line.hours == [15 * i / 3600 for i in range(4)]


def test_long_runs_are_thinned_by_doubled_stretches(tracked):
    tracked.started_at = BEGAN
    store_records(tracked, [look(i, 15 * i, {CPU: float(i % 2)}) for i in range(300)])

    (line,) = lines_of(tracked, figures_of(tracked)).values()

    assert line.width == 60.0 and len(line.values) == 75
    assert set(line.values) == {0.5} and line.largest == 1.0


@pytest.mark.parametrize(("seconds", "width"), [(0, 15), (1799, 15), (1800, 30), (864_000, 7680)])
def test_stretches_are_the_shortest_that_fit(seconds, width):
    assert width_for(seconds) == width


def test_a_run_without_any_has_no_lines(tracked):
    assert figures_of(tracked) == [] and lines_of(tracked, []) == {}
