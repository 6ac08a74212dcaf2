"""The language in which clients search runs."""

import pytest

from tests.members import member
from tests.shared_rows import kept
from tests.webapp.interfaces.mlflow.conftest import T0, Mlflow
from webapp.identity.accounts.services import create_project, create_token
from webapp.interfaces.tracking.models import Group

RUNS = {
    "one": (
        {"lr": "1e-6", "deep.key/x": "a"},
        {"team": "rl", "0": "zero"},
        {"loss": 0.5, "eval/acc": 0.9},
        "FINISHED",
    ),
    "two": ({"lr": "2e-6"}, {"team": "RL-core"}, {"loss": 0.25}, "FAILED"),
    "three": ({}, {}, {"loss": float("nan")}, None),
}


@pytest.fixture(scope="module")
def stored(django_db_setup, django_db_blocker):
    """A client of a project with the runs, made once for all tests of this module."""
    with kept(django_db_blocker):
        project = create_project(slug="math", name="Math")
        client = Mlflow(create_token(user=member(project=project), project=project, scope="write"))
        make_runs(client)
        yield client


@pytest.fixture
def mlflow(db, stored):
    return stored


@pytest.fixture
def runs(mlflow):
    return mlflow


def make_runs(mlflow):
    for place, (name, (params, tags, metrics, status)) in enumerate(RUNS.items()):
        made = mlflow.ok("runs/create", experiment_id="0", run_name=name, start_time=T0 + place)
        run_id = made["run"]["info"]["run_id"]
        texts = {
            kind: [{"key": k, "value": v} for k, v in values.items()]
            for kind, values in (("params", params), ("tags", tags))
        }
        assert mlflow.log(run_id, metrics, 1, **texts).status_code == 200
        if status:
            mlflow.ok("runs/update", run_id=run_id, status=status, end_time=T0 + 100 + place)


def names(found):
    return [run["info"]["run_name"] for run in found["runs"]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["three", "two", "one"]),
        ("metrics.loss < 0.5", ["two"]),
        ("metrics.loss <= 0.5 and metric.loss != 0.25", ["one"]),
        ("metrics.`eval/acc` > 0.8", ["one"]),
        ('metrics."eval/acc" >= 0.9', ["one"]),
        ("metrics.eval/acc = 0.9", ["one"]),
        ("params.lr = '1e-6'", ["one"]),
        ('params.lr != "1e-6"', ["two"]),
        ("params.`deep.key/x` = 'a' AND params.lr LIKE '1e%'", ["one"]),
        ("params.deep.key/x = 'a'", ["one"]),
        ("tags.team LIKE 'rl%'", ["one"]),
        ("tags.team ILIKE 'rl%'", ["two", "one"]),
        ("tags.team LIKE 'r_'", ["one"]),
        ("tags.`0` = 'zero'", ["one"]),
        ("tags.team IS NULL", ["three"]),
        ("tag.team IS NOT NULL AND attributes.status = 'FINISHED'", ["one"]),
        ("tags.mlflow.runName = 'two'", ["two"]),
        ("attributes.status != 'RUNNING'", ["two", "one"]),
        ("status IN ('FAILED', 'RUNNING')", ["three", "two"]),
        ("run_name NOT IN ('one')", ["three", "two"]),
        ("attributes.`run name` = 'one'", ["one"]),
        (f"attributes.start_time > {T0}", ["three", "two"]),
        (f"end_time < {T0 + 101}", ["one"]),
        ("run_name = 'it\\'s'", []),
    ],
)
def test_filters(runs, text, expected):
    assert names(runs.ok("runs/search", experiment_ids=["0"], filter=text)) == expected


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (["metrics.loss"], ["two", "one", "three"]),
        (["metrics.loss DESC"], ["one", "two", "three"]),
        (["params.lr DESC", "start_time ASC"], ["two", "one", "three"]),
        (["attributes.start_time ASC"], ["one", "two", "three"]),
        (["tags.`mlflow.runName` asc"], ["one", "three", "two"]),
    ],
)
def test_orders(runs, order, expected):
    assert names(runs.ok("runs/search", experiment_ids=["0"], order_by=order)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "metrics.loss <", "metrics.loss", "loss < 1", "metrics.loss < 'a'", "params.lr = 1", "params.lr < 'a'",
        "colour.x = 'a'", "tags.a = 'b' OR tags.c = 'd'", "tags.a = 'b", "tags.a ~ 'b'", "metrics.loss LIKE 'a'",
        "run_id IN 'a'", "run_id IN ('a'", "tags.a IS MAYBE", "= 'a'", "dataset.name = 'x'", "AND", "tags.a = b",
        " AND ".join(["tags.a = 'b'"] * 51), "tags.a = '" + "x" * 20_001 + "'", "((((",
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said(mlflow, refusal, text):
    status, code, message = refusal(mlflow.post("runs/search", experiment_ids=["0"], filter=text))

    assert (status, code) == (400, "INVALID_PARAMETER_VALUE")
    assert "cannot be read" in message and len(message) < 300


def test_pages_and_views(runs):
    first = runs.ok("runs/search", experiment_ids=["0"], max_results=2)
    rest = runs.ok("runs/search", experiment_ids=["0"], max_results=2, page_token=first["next_page_token"])
    gone = first["runs"][0]["info"]["run_id"]
    runs.ok("runs/delete", run_id=gone)

    assert names(first) + names(rest) == ["three", "two", "one"] and "next_page_token" not in rest
    assert names(runs.ok("runs/search", experiment_ids=["0"])) == ["two", "one"]
    assert names(runs.ok("runs/search", experiment_ids=["0"], run_view_type="DELETED_ONLY")) == ["three"]
    assert len(names(runs.ok("runs/search", experiment_ids=["0"], run_view_type="ALL"))) == 3


def test_only_the_experiments_that_are_asked_for(runs):
    other = runs.ok("experiments/create", name="other")["experiment_id"]
    runs.new_run(other, run_name="four")

    assert names(runs.ok("runs/search", experiment_ids=[other])) == ["four"]
    assert len(names(runs.ok("runs/search", experiment_ids=[other, "0"]))) == 4
    assert names(runs.ok("runs/search", experiment_ids=["77"])) == []
    assert Group.objects.count() == 2


def test_what_is_found_is_whole_and_costs_no_more_for_more(runs, django_assert_max_num_queries):
    with django_assert_max_num_queries(12):
        found = runs.ok("runs/search", experiment_ids=["0"])["runs"]

    assert found[2]["data"]["params"][0] == {"key": "deep.key/x", "value": "a"}
    assert {each["key"] for each in found[2]["data"]["metrics"]} == {"loss", "eval/acc"}
    assert found[0]["data"]["metrics"][0]["value"] == "NaN"
