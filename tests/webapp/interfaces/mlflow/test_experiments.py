"""Experiments over HTTP: groups of the token's project."""

import pytest

from webapp.interfaces.tracking.models import Group


def test_made_found_renamed_hidden_and_shown_again(mlflow, reader, project):
    made = mlflow.ok("experiments/create", name="grpo", tags=[{"key": "team", "value": "rl"}])[
        "experiment_id"
    ]

    found = reader.get("experiments/get-by-name", experiment_name="grpo").json()["experiment"]
    assert found["experiment_id"] == made and found["lifecycle_stage"] == "active"
    assert found["tags"] == [{"key": "team", "value": "rl"}]
    mlflow.ok("experiments/update", experiment_id=made, new_name="grpo 2")
    mlflow.ok("experiments/delete", experiment_id=made)
    assert (
        reader.get("experiments/get", experiment_id=made).json()["experiment"]["lifecycle_stage"] == "deleted"
    )
    assert reader.ok("experiments/search", max_results=10)["experiments"] == []
    assert len(reader.ok("experiments/search", view_type="DELETED_ONLY")["experiments"]) == 1
    mlflow.ok("experiments/restore", experiment_id=made)
    (again,) = reader.ok("experiments/search", filter="name = 'grpo 2'")["experiments"]
    assert (again["name"], again["lifecycle_stage"]) == ("grpo 2", "active")
    assert Group.objects.get().project == project


def test_tags_are_set_and_taken_away(mlflow, reader, refusal):
    made = mlflow.ok("experiments/create", name="grpo")["experiment_id"]

    mlflow.ok("experiments/set-experiment-tag", experiment_id=made, key="note", value="first")
    mlflow.ok("experiments/set-experiment-tag", experiment_id=made, key="note", value="second")
    tags = reader.get("experiments/get", experiment_id=made).json()["experiment"]["tags"]
    mlflow.ok("experiments/delete-experiment-tag", experiment_id=made, key="note")

    assert tags == [{"key": "note", "value": "second"}]
    assert reader.get("experiments/get", experiment_id=made).json()["experiment"]["tags"] == []
    missing = mlflow.post("experiments/delete-experiment-tag", experiment_id=made, key="note")
    assert refusal(missing)[:2] == (404, "RESOURCE_DOES_NOT_EXIST")


def test_a_name_is_taken_once_in_a_project(mlflow, foreign, refusal):
    mlflow.ok("experiments/create", name="grpo")

    again = mlflow.post("experiments/create", name="grpo")

    assert refusal(again)[:2] == (400, "RESOURCE_ALREADY_EXISTS")
    assert foreign.post("experiments/create", name="grpo").status_code == 200


def test_the_default_experiment_is_there_before_anything_is_logged(mlflow, reader):
    found = reader.get("experiments/get", experiment_id="0").json()["experiment"]
    by_name = reader.get("experiments/get-by-name", experiment_name="Default").json()["experiment"]
    assert not Group.objects.exists()  # reading makes nothing

    run_id = mlflow.new_run()

    assert found["experiment_id"] == by_name["experiment_id"] == "0" and found["name"] == "Default"
    assert reader.run(run_id)["info"]["experiment_id"] == "0"
    assert reader.get("experiments/get", experiment_id="0").json()["experiment"]["creation_time"] > 0


@pytest.mark.parametrize(
    ("path", "body", "code", "word"),
    [
        ("experiments/create", {}, "INVALID_PARAMETER_VALUE", "name"),
        ("experiments/create", {"name": "x" * 501}, "INVALID_PARAMETER_VALUE", "name"),
        ("experiments/create", {"name": "tab\t"}, "INVALID_PARAMETER_VALUE", "name"),
        ("experiments/create", {"name": 3}, "INVALID_PARAMETER_VALUE", "name"),
        ("experiments/create", {"name": "a", "tags": "b"}, "INVALID_PARAMETER_VALUE", "tags"),
        ("experiments/update", {"experiment_id": "99", "new_name": "b"}, "RESOURCE_DOES_NOT_EXIST", "99"),
        ("experiments/update", {"experiment_id": "x", "new_name": "b"}, "RESOURCE_DOES_NOT_EXIST", "x"),
        ("experiments/delete", {"experiment_id": "9" * 30}, "RESOURCE_DOES_NOT_EXIST", "999"),
        ("experiments/search", {"filter": "tags.a = 'b'"}, "INVALID_PARAMETER_VALUE", "filter"),
        ("experiments/search", {"max_results": 0}, "INVALID_PARAMETER_VALUE", "max_results"),
        ("experiments/search", {"page_token": "!"}, "INVALID_PARAMETER_VALUE", "page_token"),
    ],
)
def test_each_wrong_field_is_named(mlflow, refusal, path, body, code, word):
    status, said, message = refusal(mlflow.post(path, **body))

    assert status in (400, 404) and said == code and word in message


def test_pages_are_turned(mlflow):
    for name in "abc":
        mlflow.ok("experiments/create", name=name)

    first = mlflow.ok("experiments/search", max_results=2)
    rest = mlflow.ok("experiments/search", max_results=2, page_token=first["next_page_token"])

    assert [each["name"] for each in first["experiments"] + rest["experiments"]] == ["c", "b", "a"]
    assert "next_page_token" not in rest
