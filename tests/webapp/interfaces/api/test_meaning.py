"""Saying over HTTP what a tracked run's metrics mean."""

import pytest

from webapp.record.runs.models import Run

NOTHING = {
    "pass_rate": "", "stderr": "", "percent": False, "n_prompts": None, "devices": None, "device_hours": "",
    "flops": "", "tokens": "",
}  # fmt: skip


@pytest.fixture
def reported(writer, tracked, record):
    batch = {"records": [record(step, {"val/accuracy": step / 10}) for step in range(5)]}
    assert writer.post(f"runs/{tracked.pk}/records", batch).status_code == 200
    return tracked


def test_a_metric_becomes_the_curve(writer, reported):
    answer = writer.post(f"runs/{reported.pk}/meaning", {"pass_rate": "val/accuracy", "n_prompts": 50})

    said = writer.get(f"runs/{reported.pk}").json()["meaning"]
    assert writer.get(f"runs/{reported.pk}/meaning").json() == NOTHING | said
    assert (answer.status_code, said) == (200, {"pass_rate": "val/accuracy", "n_prompts": 50})
    assert writer.get(f"runs/{reported.pk}/curve", x="step").json()["total"] == 5


def test_the_curve_is_shown_before_it_is_said(writer, reported):
    body = {"pass_rate": "val/accuracy", "n_prompts": 50}
    answer = writer.post(f"runs/{reported.pk}/meaning/preview?x=step", body).json()

    assert (answer["x"], answer["total"]) == ("step", 5)
    assert [point["compute"] for point in answer["points"]] == [0, 1, 2, 3, 4]
    assert Run.objects.get(pk=reported.pk).meaning == {}
    wrong = writer.post(f"runs/{reported.pk}/meaning/preview", {"pass_rate": "no/such"})
    assert (wrong.status_code, wrong.json()["error"]["field"]) == (422, "pass_rate")


def test_before_anything_was_said_nothing_is_known(reader, stranger, tracked):
    assert reader.get(f"runs/{tracked.pk}/meaning").json() == NOTHING
    assert stranger.get(f"runs/{tracked.pk}/meaning").status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"pass_rate": "no/such"}, "pass_rate"),
        ({"devices": 0}, "devices"),
        ({"n_prompts": 0}, "n_prompts"),
        ({"n_prompts": 1.5}, "n_prompts"),
        ({"devises": 8}, "devises"),
    ],
)
def test_a_wrong_meaning_is_named(writer, reported, body, field):
    answer = writer.post(f"runs/{reported.pk}/meaning", body)

    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)
    assert Run.objects.get(pk=reported.pk).meaning == {}


def test_a_run_launched_here_has_none(writer, launcher, launch_body):
    run = launcher.post("runs", launch_body).json()["id"]

    assert writer.post(f"runs/{run}/meaning", {"devices": 8}).status_code == 409


def test_what_was_said_can_be_read_changed_and_said_again(writer, reported):
    address = f"runs/{reported.pk}/meaning"
    said = {"pass_rate": "val/accuracy", "percent": True, "tokens": "val/accuracy"}
    assert writer.post(address, said).status_code == 200

    assert writer.post(address, writer.get(address).json() | {"n_prompts": 50}).status_code == 200
    assert writer.get(address).json() == NOTHING | said | {"n_prompts": 50}
