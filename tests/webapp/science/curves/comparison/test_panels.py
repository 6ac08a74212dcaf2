"""Small multiples of any metrics: lines of runs, means and ranges of recipes, and what is not there in words."""

import json

import pytest

from tests.webapp.interfaces.pages.conftest import make_run, model_folder, project, user  # noqa: F401 (fixtures)
from tests.webapp.interfaces.pages.data import record
from webapp.record.runs import ingest
from webapp.record.runs.bounds import label_of, recipe_name
from webapp.science.curves.comparison import panels
from webapp.science.curves.comparison.panels import MOST_PANELS, _apart, panels_of


@pytest.fixture
def trained(make_run):  # noqa: F811
    """trained({"a": [..]}, seed=1): a run that reported these values of steps 0, 1, ..."""

    def make(metrics, **asked):
        run = make_run(0, **asked)
        length = len(next(iter(metrics.values())))
        rows = [{name: values[i] for name, values in metrics.items()} for i in range(length)]
        ingest.store_records(run, [record(i, 0.1 * i, row) for i, row in enumerate(rows)])
        return run

    return make


def test_each_run_is_a_line_of_its_recipes_group(trained):
    runs = [
        trained({"a": [1, 2, 3]}),
        trained({"a": [3, 4, 5]}, seed=1),
        trained({"b": [0.5]}, recipe="tiny-deepseek-grpo"),
    ]

    found = panels_of(runs, ["*"])

    assert [one["label"] for one in found["groups"]] == [recipe_name(runs[0]), recipe_name(runs[2])]
    assert [one["group"] for one in found["series"]] == [0, 0, 1]
    a, b = found["panels"]
    assert [line["y"] for line in a["lines"]] == [[1, 2, 3], [3, 4, 5]]
    assert (b["metric"], b["note"], b["lines"][0]["series"]) == ("b", "1 of 3 runs report it.", 2)


def test_a_recipe_is_the_mean_and_the_range_of_its_runs(trained):
    runs = [trained({"a": [1, 2, 3]}), trained({"a": [3, 4, 7, 9]}, seed=1)]

    (panel,) = panels_of(runs, ["a"], by="recipe")["panels"]

    (line,) = panel["lines"]
    assert (line["runs"], line["x"], line["y"]) == (2, [0, 1, 2], [2, 3, 5])  # as far as both have come
    assert (line["lo"], line["hi"]) == ([1, 2, 3], [3, 4, 7])


def test_a_line_breaks_where_a_value_was_not_finite(trained):
    (panel,) = panels_of([trained({"a": [1.0, None, 3.0]})], ["a"])["panels"]

    assert panel["lines"][0]["y"] == [1.0, None, 3.0]
    assert panel["note"] == "Left out as not finite: 1 value."
    json.dumps(panel, allow_nan=False)


def line(series, ys):
    return {"series": series, "x": list(range(len(ys))), "y": ys}


def test_lines_far_from_the_others_are_named():
    usual = [line(i, [2.0, 1.0 + 0.1 * i, 1.0]) for i in range(8)]

    assert _apart([*usual, line(8, [2.0, None, 40.0]), line(9, [2.0, 9.0, 1.0])]) == [(8, 40.0), (9, 9.0)]
    assert _apart(usual) == [] == _apart([]) == _apart([line(0, [])] * 9)
    assert _apart([*usual, line(8, [90.0])]) == []  # it has just begun
    assert _apart([*usual[:3], line(8, [2.0, 1.0, 40.0])]) == []  # of so few nobody is far from the others
    assert (
        _apart([line(i, [1.0, 1.0]) for i in range(9)] + [line(9, [1.0, 1.1])]) == []
    )  # nor where all are alike


def test_a_panel_says_who_is_far_from_the_others(trained):
    runs = [trained({"a": [1, 1.0 + 0.1 * seed]}, seed=seed) for seed in range(8)]
    runs.append(trained({"a": [1, 70.56]}, seed=99))

    (panel,) = panels_of(runs, ["a"])["panels"]

    assert panel["note"] == f"Far from the others: {label_of(runs[-1])} (70.6)."


@pytest.mark.parametrize("by", ["run", "recipe"])
def test_a_metric_that_was_never_finite_has_no_panel_and_breaks_nothing(trained, by):
    runs = [
        trained({"a": [None, None], "b": [1.0, 2.0]}),
        trained({"a": [None, None], "b": [1.0, 2.0]}, seed=1),
    ]

    found = panels_of(runs, ["a", "b"], by=by)

    assert [panel["metric"] for panel in found["panels"]] == ["b"] and found["unmatched"] == ["a"]


def test_without_patterns_the_usual_metrics_or_else_any(trained, make_run):  # noqa: F811
    usual = trained({"train/entropy": [1], "my/own": [1]})
    own = trained({"my/own": [1], "system/a/host/cpu_fraction": [0.5]}, seed=1)

    assert [panel["metric"] for panel in panels_of([usual])["panels"]] == ["train/entropy"]
    assert [panel["metric"] for panel in panels_of([own])["panels"]] == ["my/own"]
    assert panels_of([make_run(0, seed=2)])["panels"] == [] and panels_of([])["panels"] == []


def test_more_than_a_page_holds_are_counted(trained):
    found = panels_of([trained({f"m{i:02}": [1] for i in range(20)})], ["*"])

    assert (len(found["panels"]), found["matching"]) == (MOST_PANELS, 20)
    assert (len(found["names"]), found["reported"]) == (20, "20 metrics reported")


def test_names_beyond_those_that_are_listed_are_counted(trained, monkeypatch):
    monkeypatch.setattr(panels, "MOST_NAMES", 2)

    found = panels_of([trained({"a": [1], "b": [1], "c": [1]})])

    assert (found["names"], found["reported"]) == (["a", "b"], "3 metrics reported, the first 2 of them")


@pytest.mark.parametrize("value", [0.0, 1e300, -1e-300, 123456.789, 5e-324])
def test_values_keep_their_digits_and_are_json(trained, value):
    (panel,) = panels_of([trained({"a": [value, value / 2 if value else 1.0]})], ["a"])["panels"]

    assert panel["lines"][0]["y"][0] == pytest.approx(value, rel=1e-4)
    json.dumps(panel, allow_nan=False)


def test_an_axis_that_nobody_knows_is_said_on_the_panel(user, project):  # noqa: F811
    from tests.launching import tracked_run
    from training.records import Record

    run = tracked_run(user=user, project=project, name="elsewhere", task="math", model="8b")
    unknown = {"device_hours": None, "flops": None, "tokens": None}
    at = {"attempt": 1, "seq": 0, "step": 3, "time": "2026-01-01T00:00:00+00:00", "compute": unknown}
    ingest.store_records(run, [Record.model_validate(at | {"metrics": {"a": 1.0}})])

    (panel,) = panels_of([run], ["a"], x="tokens")["panels"]
    assert panel["lines"] == [] and panel["note"] == "No run has a value of it on this axis."


def test_a_metric_is_found_by_what_its_trainer_or_its_import_calls_it(trained):
    run = trained({"train/reward": [1, 2], "actor/rewards": [3, 4], "eval/pass_rate": [0.5, 0.6]})
    run.series.filter(metric="eval/pass_rate").update(logged_as="acc")

    found = panels_of([run], ["critic/rewards/mean", "acc", "rewards", "none"], x="reward/all/mean")

    shown = [panel["metric"] for panel in found["panels"]]
    assert shown == ["train/reward", "eval/pass_rate", "actor/rewards"]  # a part of a name goes before
    assert (found["x"]["key"], found["unmatched"], found["matching"]) == ("train/reward", ["none"], 3)
