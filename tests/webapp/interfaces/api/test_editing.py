"""PATCH, DELETE and actions on many runs over HTTP."""

import pytest

from webapp.record.runs.models import Run
from webapp.science.curves.services import refit


@pytest.fixture
def ended(writer, tracked):
    assert writer.post(f"runs/{tracked.pk}/finish", {"state": "succeeded"}).status_code == 200
    return tracked


def test_only_what_is_sent_changes(writer, tracked):
    answer = writer.request("PATCH", f"runs/{tracked.pk}", {"name": "again", "seed": 3, "tags": ["paper"]})

    said = answer.json()
    assert answer.status_code == 200
    assert (said["name"], said["seed"], said["tags"], said["task"]) == ("again", 3, ["paper"], tracked.task)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"seed": "3"}, "seed"),
        ({"seed": -3}, "seed"),
        ({"name": None}, "name"),
        ({"state": "failed"}, "state"),
        ({"meaning": {"pass_rate": "no/such"}}, "pass_rate"),
        ({"meaning": {"devises": 1}}, "meaning.devises"),
    ],
)
def test_what_cannot_be_is_named(writer, tracked, body, field):
    answer = writer.request("PATCH", f"runs/{tracked.pk}", {"notes": "odd"} | body)

    assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)
    assert Run.objects.get(pk=tracked.pk).notes == ""


def test_what_a_launch_determined_stays(writer, launcher, launch_body):
    run = launcher.post("runs", launch_body).json()["id"]

    answer = writer.request("PATCH", f"runs/{run}", {"seed": 9})

    assert (answer.status_code, answer.json()["error"]["field"]) == (409, "seed")


def test_deleted_and_restored(launcher, reader, ended):
    assert launcher.request("DELETE", f"runs/{ended.pk}").status_code == 204
    assert reader.get(f"runs/{ended.pk}").status_code == 404
    assert reader.get("runs").json()["items"] == []
    assert [run["id"] for run in reader.get("runs", filter="deleted:yes").json()["items"]] == [ended.pk]
    assert launcher.request("DELETE", f"runs/{ended.pk}").status_code == 404

    assert launcher.post(f"runs/{ended.pk}/restore").json()["deleted_at"] is None
    assert reader.get(f"runs/{ended.pk}").status_code == 200
    assert launcher.post(f"runs/{ended.pk}/restore").status_code == 409


def test_a_deleted_runs_fits_are_nowhere(writer, launcher, reader, tracked, record):
    batch = {"records": [record(step, {"eval/pass_rate": 0.8 - 0.6 * 0.7**step}) for step in range(8)]}
    writer.post(f"runs/{tracked.pk}/records", batch)
    writer.post(f"runs/{tracked.pk}/finish", {"state": "succeeded"})
    refit(tracked.pk)
    before = reader.get("fits")
    (fit,) = before.json()["items"]

    launcher.request("DELETE", f"runs/{tracked.pk}")

    after = reader.get("fits")
    assert after.json()["items"] == [] and after["ETag"] != before["ETag"]
    assert reader.get(f"fits/{fit['id']}").status_code == 404
    assert reader.get("leaderboard", published="false").json()["groups"] == []


def test_many_at_once(writer, launcher, ended, tracked):
    body = {"action": "change", "runs": [ended.pk, "nothere"], "changes": {"task": "code"}}
    answer = writer.post("runs/bulk", body, Idempotency_Key="k").json()

    assert answer["sentence"] == "1 changed, 1 not found."
    assert [one["phrase"] for one in answer["outcomes"]] == ["changed", "not found"]
    assert Run.objects.get(pk=ended.pk).task == "code"
    assert writer.post("runs/bulk", {"action": "archive", "runs": [ended.pk]}).status_code == 403
    assert launcher.post("runs/bulk", {"action": "archive", "runs": [ended.pk]}).status_code == 200
    assert Run.objects.get(pk=ended.pk).archived_at is not None
    wrong = writer.post("runs/bulk", {"action": "change", "runs": [ended.pk], "changes": {"seed": -1}})
    assert (wrong.status_code, wrong.json()["error"]["field"]) == (422, "seed")


def test_what_metrics_of_many_mean_their_end_and_the_way_back(
    writer, launcher, reader, ended, tracked, record
):
    batch = {"records": [record(step, {"acc": 10.0 * step, "used": 2.0 * step}) for step in range(1, 4)]}
    writer.post(f"runs/{tracked.pk}/records", batch)
    meaning = {"pass_rate": "acc", "percent": True, "device_hours": "used"}
    bulk = lambda sender, action, **more: sender.post(
        "runs/bulk", {"action": action, "runs": [tracked.pk, "nothere"], **more}
    ).json()["sentence"]

    assert bulk(writer, "change", changes={"meaning": meaning}) == "1 changed, 1 not found."
    points = reader.get(f"runs/{tracked.pk}/curve").json()["points"]
    assert [(point["compute"], point["value"]) for point in points] == [(2, 0.1), (4, 0.2), (6, 0.3)]
    assert bulk(launcher, "delete") == "1 deleted, 1 not found."
    assert reader.get(f"runs/{tracked.pk}").status_code == 404
    assert bulk(launcher, "restore") == "1 restored, 1 not found."
    assert reader.get(f"runs/{tracked.pk}/curve").json()["points"] == points
