"""Small multiples of the run page."""

from tests.webapp.pages.data import record
from webapp.pages.diagnostics import MAX_POINTS, panels, stride_for
from webapp.runs import ingest, lifecycle


def test_strides_are_powers_of_two_that_keep_the_number_of_points():
    for last_step in (0, 1, 119, 120, 1000, 10**6):
        stride = stride_for(last_step)
        assert stride & (stride - 1) == 0
        assert last_step // stride + 1 <= MAX_POINTS
        assert stride == 1 or last_step // (stride // 2) + 1 > MAX_POINTS


def test_more_data_never_moves_a_point(make_run):
    run = make_run(0)
    entropy = lambda first, last: [
        record(i, 0.01 * i, {"train/entropy": 1 / (i + 1)}) for i in range(first, last)
    ]
    ingest.store_records(run, entropy(0, 100))
    before = panels(run)[0]
    ingest.store_records(run, entropy(100, 1000))
    after = panels(run)[0]

    old = dict(zip(before.steps, before.values, strict=True))
    new = dict(zip(after.steps, after.values, strict=True))
    assert all(old[step] == value for step, value in new.items() if step in old)
    assert after.steps[-1] == 999
    assert len(after.steps) <= MAX_POINTS + 1


def test_points_of_a_superseded_attempt_are_left_out(make_run):
    run = make_run(0)
    ingest.store_records(run, [record(i, i, {"train/entropy": 0.5}) for i in range(10)])
    lifecycle.report_finished(run, attempt=1, state="failed", message="")
    from webapp.runs.launch import resume_run

    run = resume_run(run, user=None)
    lifecycle.report_started(run, attempt=2, resumed_from_step=4, device="cpu")
    ingest.store_records(run, [record(5, 5.0, {"train/entropy": 0.1}, attempt=2)])

    panel = panels(run)[0]
    assert panel.steps == [0, 1, 2, 3, 4, 5]
    assert panel.values[-1] == 0.1


def test_a_run_that_reported_nothing_has_no_panel(make_run):
    assert panels(make_run(0)) == []


def test_metrics_that_no_panel_knows_are_left_out(make_run):
    run = make_run(0)
    ingest.store_records(run, [record(i, i, {"my/metric": 1.0, "train/kl": 0.1}) for i in range(2)])

    assert [panel.metric.name for panel in panels(run)] == ["train/kl"]
