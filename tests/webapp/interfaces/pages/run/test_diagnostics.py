"""Small multiples of the run page."""

from tests.webapp.interfaces.pages.data import record
from webapp.interfaces.pages.run.diagnostics import panels
from webapp.record.runs import ingest, lifecycle
from webapp.record.runs.sampling import MAX_POINTS, stride_for
from webapp.reporting.alarms.selectors import alarms_of
from webapp.reporting.alarms.services import judge_run


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
    from webapp.record.runs.launch import resume_run

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


def truncation(run, values, *, others=()):
    """The truncation panel of a run that reported these rates of steps 0, 1, ..., judged."""
    metrics = lambda value: {"train/truncation_rate": value} | dict.fromkeys(others, 1.0)
    ingest.store_records(run, [record(i, 0.01 * i, metrics(value)) for i, value in enumerate(values)])
    judge_run(run.pk)
    return next(p for p in panels(run, alarms_of(run)) if p.metric.name == "train/truncation_rate")


def test_no_stride_hides_an_alarm(make_run):
    values = [0.02] * 1000
    values[501:504] = [0.13, 0.14, 0.13]  # between two steps that are drawn

    panel = truncation(make_run(0), values)

    assert panel.stride == 16
    assert (502, 0.14) in zip(panel.steps, panel.values, strict=True)
    assert panel.dots == [(502, 0.14)]
    assert panel.steps == sorted(panel.steps)
    assert (panel.alarming, panel.alarmed_until) == (None, 503)


def test_the_worst_active_alarm_marks_the_panel(make_run):
    panel = truncation(make_run(0), [0.02, 0.2, 0.2, 0.2])

    assert panel.alarming.level == "critical"
    assert [limit.value for limit in panel.limits] == [0.10, 0.15]
    assert panel.label.endswith("latest 20 %; critical; warning")


def test_a_rate_shows_its_first_limit_and_others_only_what_they_come_near(make_run):
    run = make_run(0)
    values = {"train/truncation_rate": 0.01, "train/ratio_max": 3.0, "train/kl": 0.15}
    ingest.store_records(run, [record(i, 0.01 * i, values) for i in range(3)])

    limits = {panel.metric.name: [limit.value for limit in panel.limits] for panel in panels(run)}

    assert limits == {"train/truncation_rate": [0.10], "train/ratio_max": [], "train/kl": [0.2]}


def test_metrics_of_evaluations_are_not_thinned_by_the_stride_of_the_others(make_run):
    run = make_run(0)
    rare = lambda i: {"train/mismatch_logp_mean": 0.001 * i} if i % 5 == 0 else {}
    ingest.store_records(run, [record(i, 0.01 * i, {"train/entropy": 0.5} | rare(i)) for i in range(503)])

    found = {panel.metric.name: panel for panel in panels(run)}

    assert len(found["train/entropy"].steps) <= MAX_POINTS
    assert found["train/mismatch_logp_mean"].steps == list(range(0, 503, 5))


def test_a_panel_whose_newest_value_was_not_finite_says_so(make_run):
    run = make_run(0)
    values = [0.5, 0.6, None]
    ingest.store_records(
        run, [record(i, 0.1 * i, {"train/grad_norm": value}) for i, value in enumerate(values)]
    )
    judge_run(run.pk)

    (panel,) = panels(run, alarms_of(run))

    assert (panel.latest, panel.alarming.level, panel.values) == ("not finite", "critical", [0.5, 0.6])


def test_shares_are_shown_in_percent(make_run):
    run = make_run(0)
    ingest.store_records(
        run, [record(i, 0.1 * i, {"perf/trainer_idle": 0.25, "train/entropy": 0.25}) for i in (0, 1)]
    )

    assert [panel.latest for panel in panels(run)] == ["0.25", "25 %"]
