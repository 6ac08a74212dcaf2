"""Drafts, priority, larger budgets, stops, and the history of a run, over the API."""

import pytest

from webapp.record.runs.models import Run


@pytest.fixture
def made(launcher, launch_body):
    """made(draft=True, ...): the answer to a launch."""
    return lambda **changes: launcher.post("runs", launch_body | changes).json()


def test_a_draft_is_launched_later(launcher, made, problem):
    draft = made(draft=True, priority="high", retries=0)
    assert (draft["state"], draft["priority"], draft["retries"]) == ("draft", "high", 0)

    assert launcher.post(f"runs/{draft['id']}/launch").json()["state"] == "queued"
    status, code, _, message = problem(launcher.post(f"runs/{draft['id']}/launch"))
    assert (status, code, message) == (409, "conflict", "This run is no draft any more: it is queued.")


def test_a_draft_is_deleted_and_a_launched_run_is_not(launcher, made, problem):
    draft, run = made(draft=True), made()

    assert launcher.request("DELETE", f"runs/{draft['id']}").status_code == 204
    assert problem(launcher.request("DELETE", f"runs/{run['id']}"))[:2] == (409, "conflict")
    assert list(Run.objects.values_list("pk", flat=True)) == [run["id"]]


def test_more_budget_and_priority(launcher, made, problem):
    path = f"runs/{made()['id']}"

    assert launcher.post(f"{path}/extend", {"budget_hours": 2.5}).json()["budget_hours"] == 2.5
    assert launcher.post(f"{path}/priority", {"priority": "low"}).json()["priority"] == "low"
    status, _, field, message = problem(launcher.post(f"{path}/extend", {"budget_hours": 1.0}))
    assert (status, field) == (422, "budget_hours")
    assert message == "The budget is 2.5 device-hours, of which 0 are spent; it can only be extended."


@pytest.mark.parametrize(
    "change", [{"priority": "urgent"}, {"retries": -1}, {"retries": 1000}, {"draft": "yes"}]
)
def test_a_bad_wish_is_named(launcher, launch_body, problem, change):
    status, code, field, _ = problem(launcher.post("runs", launch_body | change))

    assert (status, code, field) == (422, "invalid_input", next(iter(change)))
    assert not Run.objects.exists()


def test_the_history_tells_who_did_what(launcher, reader, made):
    run = made()["id"]
    launcher.post(f"runs/{run}/stop")

    items = reader.get(f"runs/{run}/transitions").json()["items"]

    assert [(item["from_state"], item["to_state"], item["actor"]) for item in items] == [
        (None, "queued", "ada"),
        ("queued", "cancelled", "ada"),
    ]
    assert items[1]["reason"] == "Cancelled by ada."


def test_a_launch_beyond_the_quota_says_what_is_left(launcher, launch_body, problem, project):
    from webapp.record.runs import places

    places.set_queue(project, most_at_work=None, quota_hours=0.25, user=None)

    status, _, field, message = problem(launcher.post("runs", launch_body))

    assert (status, field) == (422, "budget_hours")
    assert "quota has 0.25 device-hours left, and this asks for 0.5" in message
