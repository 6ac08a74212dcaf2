"""Columns of the scatter plot and the parallel coordinates."""

from types import SimpleNamespace

import pytest

from webapp.interfaces.pages.settings_plot import settings_plot
from webapp.record.runs.models import Run, Summary
from webapp.science.curves.comparison.entries import Entry


def entry(key, config, *, ceiling=None, rate=None):
    run = Run(pk=key, config=config)
    Summary(run=run, pass_rate=rate, pass_rate_stderr=rate and 0.02)
    course = (
        None if ceiling is None else SimpleNamespace(ceiling=ceiling, interval=(ceiling - 0.1, ceiling + 0.1))
    )
    return Entry(key, "run", key, "", "math", "8b", runs=(run,), courses=(course,))


def plot_of(*configs, **said):
    return settings_plot([entry(str(i), config, **said) for i, config in enumerate(configs)], "device_hours")


def test_only_settings_that_differ_are_drawn_each_on_a_scale_that_fits():
    plot = plot_of(
        {"loss": {"type": "cispo"}, "optimizer": {"lr": 1e-6}, "steps": 10, "same": 1, "is_on": True},
        {"loss": {"type": "dapo"}, "optimizer": {"lr": 1e-3}, "steps": 20, "same": 1, "is_on": False},
        {"loss": {"type": "dapo"}, "steps": 15, "same": 1},
        ceiling=0.6,
    )

    assert {c.key: (c.scale, c.values) for c in plot.settings} == {
        "loss.type": ("words", ("cispo", "dapo", "dapo")),
        "optimizer.lr": ("log", (1e-6, 1e-3, None)),
        "steps": ("linear", (10, 20, 15)),
        "is_on": ("words", ("true", "false", None)),
    }
    assert [plot.settings[1].cell(i) for i in range(3)] == ["1e-06", "0.001", "–"]


def test_a_setting_that_names_each_run_is_left_out_and_said():
    plot = plot_of(*({"tag": f"run {i}", "seed": i} for i in range(13)), rate=0.5)

    assert plot.left_out == ("tag",) and [c.key for c in plot.settings] == ["seed"]


def test_outcomes_have_their_intervals_and_one_that_no_run_has_is_not_offered():
    plot = plot_of({"seed": 1}, {"seed": 2}, ceiling=0.6, rate=0.5)

    outcomes = {c.key: c for c in plot.outcomes}
    assert list(outcomes) == ["ceiling", "pass_rate"]
    assert outcomes["ceiling"].lo == pytest.approx((0.5, 0.5))
    assert outcomes["ceiling"].cell(0) == "0.60 (0.50 to 0.70)"
    assert outcomes["pass_rate"].cell(1) == "0.50 (0.47 to 0.53)"
    assert [c["key"] for c in plot.payload] == ["seed", "ceiling", "pass_rate"]


def test_the_newest_value_of_a_metric_is_an_outcome_where_any_run_has_it():
    entries = [entry("0", {"seed": 1}), entry("1", {"seed": 2})]

    plot = settings_plot(entries, "step", {"train/kl": [0.25, None], "train/loss": [None, None]})

    (column,) = plot.outcomes
    assert (column.key, column.label, column.values) == ("train/kl", "train/kl, newest", (0.25, None))
    assert [column.cell(i) for i in range(2)] == ["0.25", "–"] and column.lo == (None, None)


def test_runs_without_settings_or_outcomes_have_no_columns():
    plot = plot_of({}, None)

    assert plot.columns == ()
