"""What a trainer says of its run after it was made."""

import pytest

from webapp.record.runs.bounds import MAX_CONFIG_CHARACTERS
from webapp.record.runs.models import Run


def test_entries_are_added_or_replaced_and_the_rest_stays(writer, tracked):
    first = writer.post(f"runs/{tracked.pk}/describe", {"config": {"lr": 1e-6, "wandb": {"group": "a"}}})
    again = writer.post(
        f"runs/{tracked.pk}/describe", {"name": " warm ", "tags": ["Paper", "seed-1"], "config": {"lr": 2e-6}}
    )

    assert (first.status_code, again.status_code) == (200, 200)
    assert (again.json()["name"], again.json()["version"]) == ("warm", first.json()["version"] + 1)
    run = Run.objects.get(pk=tracked.pk)
    assert run.config == tracked.config | {"lr": 2e-6, "wandb": {"group": "a"}}
    assert run.tags == ["paper", "seed-1"]


def test_the_same_again_changes_nothing_and_tags_stay(writer, tracked):
    Run.objects.filter(pk=tracked.pk).update(tags=["ours"])
    said = {"tags": ["paper"], "config": {"lr": 1e-6}}
    first = writer.post(f"runs/{tracked.pk}/describe", said).json()

    assert writer.post(f"runs/{tracked.pk}/describe", said).json()["version"] == first["version"]
    assert writer.post(f"runs/{tracked.pk}/describe", {}).json()["name"] == tracked.name
    assert Run.objects.get(pk=tracked.pk).tags == ["ours", "paper"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "n" * 121}, "name"),
        ({"tags": ["two words"]}, "tags"),
        ({"tags": [f"t{i}" for i in range(21)]}, "tags"),
        ({"config": {"text": "x" * MAX_CONFIG_CHARACTERS}}, "config"),
        ({"config": []}, "config"),
        ({"task": "math"}, "task"),
    ],
)
def test_what_cannot_be_stored_is_named_and_nothing_is(writer, tracked, body, field):
    answer = writer.post(f"runs/{tracked.pk}/describe", {"config": {"lr": 1}, "name": "other"} | body)

    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)
    run = Run.objects.get(pk=tracked.pk)
    assert (run.name, run.config, run.tags) == (tracked.name, tracked.config, tracked.tags)


def test_a_new_run_has_no_larger_one(writer):
    answer = writer.post("runs", {"tracked": True, "config": {"text": "x" * MAX_CONFIG_CHARACTERS}})

    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "config")
    assert not Run.objects.exists()


def test_a_run_launched_here_keeps_its_configuration(writer, launcher, launch_body):
    run = launcher.post("runs", launch_body).json()["id"]

    assert writer.post(f"runs/{run}/describe", {"config": {"lr": 1.0}}).status_code == 409


def test_model_and_seed_of_the_configuration_are_the_runs_where_nobody_said_them(writer):
    config = {"actor_rollout_ref": {"model": {"path": "Qwen/Qwen3-8B"}}, "seed": 4}
    made = writer.post("runs", {"tracked": True, "config": config}).json()
    said = writer.post("runs", {"tracked": True, "config": config, "model": "8b", "seed": 5}).json()
    later = writer.post("runs", {"tracked": True}).json()
    for run in (said, later):
        answer = writer.post(f"runs/{run['id']}/describe", {"config": {"_name_or_path": "Q\n", "seed": "7"}})
        run |= answer.json()

    assert (made["model"], made["seed"]) == ("Qwen/Qwen3-8B", 4)
    assert (said["model"], said["seed"]) == ("8b", 5)
    assert (later["model"], later["seed"]) == ("Q", 7)
    odd = {"model": {"layers": 2}, "seed": -1}
    unknown = writer.post("runs", {"tracked": True, "config": odd}).json()
    assert (unknown["model"], unknown["seed"]) == ("unspecified", 0)
