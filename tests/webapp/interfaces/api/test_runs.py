"""Launch, track, list, show, cancel and resume over HTTP."""

import pytest

from webapp.record.runs.models import Dispatch, IdempotencyKey, Run, State
from webapp.reporting.alarms.services import judge_run
from webapp.reporting.policies.selectors import own_actions


def test_launch_makes_a_queued_run_with_its_dispatch(launcher, launch_body):
    response = launcher.post("runs", launch_body)

    body = response.json()
    run = Run.objects.get(pk=body["id"])
    assert response.status_code == 201
    assert (body["state"], body["recipe"], body["revision"], body["created_by"]) == (
        "queued",
        "tiny-scalerl",
        1,
        "ada",
    )
    assert (run.config["seed"], run.config["budget"]["device_hours"]) == (1, 0.5)
    assert Dispatch.objects.get(run=run).kind == "submit"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"recipe": "nothing"}, "recipe"),
        ({"revision": 99}, "revision"),
        ({"revision": 0}, "revision"),
        ({"task": "nothing"}, "task"),
        ({"model": "nothing"}, "model"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**31}, "seed"),
        ({"seed": "1"}, "seed"),
        ({"seed": True}, "seed"),
        ({"budget_hours": 0}, "budget_hours"),
        ({"budget_hours": -1}, "budget_hours"),
        ({"budget_hours": 1e7}, "budget_hours"),
        ({"budget_hours": None}, "budget_hours"),
        ({"name": "x" * 121}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_bad_launches_name_the_field_and_leave_nothing(launcher, launch_body, problem, change, field):
    status, code, named, message = problem(launcher.post("runs", launch_body | change))

    assert (status, code, named) == (422, "invalid_input", field)
    assert message.endswith(".")
    assert not Run.objects.exists()
    assert not Dispatch.objects.exists()


def test_a_missing_field_is_named(launcher, launch_body, problem):
    del launch_body["task"]

    assert problem(launcher.post("runs", launch_body)) == (422, "invalid_input", "task", "task is required.")


def test_an_infinite_budget_is_refused(launcher, launch_body, problem):
    body = b'{"recipe":"tiny-scalerl","task":"arithmetic","model":"tiny-arithmetic","budget_hours":1e999}'

    status, _, field, _ = problem(launcher.post("runs", body))

    assert (status, field) in {(422, "budget_hours"), (400, None)}
    assert not Run.objects.exists()


def test_the_same_key_and_body_are_the_same_run(launcher, launch_body):
    first = launcher.post("runs", launch_body, Idempotency_Key="k1")

    again = launcher.post("runs", launch_body, Idempotency_Key="k1")

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert Run.objects.count() == 1


def test_a_used_key_with_another_body_is_refused_by_name(launcher, launch_body, problem):
    made = launcher.post("runs", launch_body, Idempotency_Key="k1").json()

    status, code, field, message = problem(
        launcher.post("runs", launch_body | {"seed": 2}, Idempotency_Key="k1")
    )

    assert (status, code, field) == (409, "conflict", "Idempotency-Key")
    assert "k1" in message
    assert made["id"] in message
    assert Run.objects.count() == 1


def test_a_failed_launch_does_not_use_up_the_key(launcher, launch_body):
    launcher.post("runs", launch_body | {"task": "nothing"}, Idempotency_Key="k1")

    assert not IdempotencyKey.objects.exists()
    assert launcher.post("runs", launch_body, Idempotency_Key="k1").status_code == 201


def test_a_key_of_another_project_is_another_key(launcher, stranger, launch_body):
    first = launcher.post("runs", launch_body, Idempotency_Key="k1").json()

    assert stranger.post("runs", launch_body, Idempotency_Key="k1").json()["id"] != first["id"]


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_unusable_keys_are_refused(launcher, launch_body, problem, key):
    status, _, field, _ = problem(launcher.post("runs", launch_body, Idempotency_Key=key))

    assert (status, field) == (422, "Idempotency-Key")


def test_track_a_run(writer):
    response = writer.post("runs", {"tracked": True, "name": "mine", "task": "math", "config": {"lr": 1e-3}})

    body = response.json()
    assert response.status_code == 201
    assert (body["origin"], body["state"], body["task"], body["model"]) == (
        "tracked", "running", "math", "unspecified",
    )  # fmt: skip
    assert Run.objects.get().config == {"lr": 1e-3}
    assert not Dispatch.objects.exists()


def test_tracking_for_another_project_is_refused(writer, problem):
    assert problem(writer.post("runs", {"tracked": True, "project": "code"}))[:3] == (
        422,
        "invalid_input",
        "project",
    )


@pytest.mark.parametrize(
    ("scope", "tracked", "status"),
    [
        ("read", True, 403),
        ("read", False, 403),
        ("write", True, 201),
        ("write", False, 403),
        ("launch", True, 201),
    ],
)
def test_what_each_scope_may_make(client_with, launch_body, scope, tracked, status):
    body = {"tracked": True} if tracked else launch_body

    assert client_with(scope).post("runs", body).status_code == status


def test_writers_may_not_cancel_or_resume(writer, tracked, problem):
    assert problem(writer.post(f"runs/{tracked.pk}/cancel"))[:2] == (403, "forbidden")
    assert problem(writer.post(f"runs/{tracked.pk}/resume"))[:2] == (403, "forbidden")


@pytest.mark.parametrize("path", ["", "/curve", "/series", "/fits", "/records", "/figure", "/metrics"])
def test_runs_of_others_do_not_exist(stranger, tracked, problem, path):
    assert problem(stranger.get(f"runs/{tracked.pk}{path}"))[:2] == (404, "not_found")


@pytest.mark.parametrize("path", ["cancel", "resume", "start", "describe", "finish", "records"])
def test_runs_of_others_cannot_be_changed(stranger, tracked, record, problem, path):
    bodies = {"finish": {"state": "failed"}, "records": {"records": [record(0, {"a": 1.0})]}}

    response = stranger.post(f"runs/{tracked.pk}/{path}", bodies.get(path))

    assert problem(response)[:2] == (404, "not_found")
    tracked.refresh_from_db()
    assert tracked.state == State.RUNNING


def test_a_runs_own_token_reports_that_run_and_nothing_else(
    client_with, tracked, user, project, record, problem
):
    from tests.launching import tracked_run

    other = tracked_run(user=user, project=project, name="other")
    own = client_with("write", run=tracked)

    assert own.post(f"runs/{tracked.pk}/start", {"attempt": 1}).status_code == 200
    assert own.post(f"runs/{tracked.pk}/records", {"records": [record(0, {"a": 1.0})]}).status_code == 200
    assert own.get(f"runs/{tracked.pk}").json()["latest"]["a"]["value"] == 1.0
    assert own.post(f"runs/{tracked.pk}/finish", {"attempt": 1, "state": "succeeded"}).status_code == 200
    for path in (f"runs/{other.pk}", f"runs/{other.pk}/records"):
        assert problem(own.get(path))[0] == 404
    for path in ("runs", "recipes", "fits", "leaderboard", f"runs/{tracked.pk}/curve"):
        assert problem(own.get(path))[0] == 403
    assert problem(own.post("runs", {"tracked": True}))[0] == 403
    assert problem(own.post(f"runs/{tracked.pk}/cancel"))[0] == 403


def test_list_pages_by_cursor_without_gaps_or_repeats(reader, project, user):
    from tests.launching import tracked_run

    made = [tracked_run(user=user, project=project, name=f"r{i}").pk for i in range(7)]
    moment = Run.objects.get(pk=made[0]).created_at
    Run.objects.filter(pk__in=made[:4]).update(created_at=moment)  # ties must not confuse it

    seen, cursor = [], None
    while True:
        page = reader.get("runs", limit=2, **({"cursor": cursor} if cursor else {})).json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break

    assert len(seen) == 7
    assert set(seen) == set(made)


def test_filters(reader, launcher, launch_body, writer):
    launched = launcher.post("runs", launch_body | {"name": "Alpha"}).json()["id"]
    tracked = writer.post("runs", {"tracked": True, "name": "Beta", "task": "code", "model": "7b"}).json()[
        "id"
    ]

    def ids(**query):
        return [item["id"] for item in reader.get("runs", **query).json()["items"]]

    assert ids(state="queued") == [launched]
    assert set(ids(state=["queued", "running"])) == {launched, tracked}
    assert ids(recipe="tiny-scalerl") == [launched]
    assert ids(task="code") == ids(model="7b") == ids(q="bet") == [tracked]
    assert ids(q="scalerl") == [launched]
    assert ids(q="nothing") == []


@pytest.mark.parametrize("count", [2, 12])
def test_the_list_costs_the_same_for_many_runs(
    reader, launcher, launch_body, count, django_assert_num_queries
):
    for seed in range(count):
        launcher.post("runs", launch_body | {"seed": seed})
    reader.get("runs")  # the token's use is noted once a minute

    with django_assert_num_queries(2):  # token, runs
        assert len(reader.get("runs").json()["items"]) == count


def test_cancel_and_resume(launcher, launch_body, problem):
    run = launcher.post("runs", launch_body).json()["id"]

    cancelled = launcher.post(f"runs/{run}/cancel")
    again = launcher.post(f"runs/{run}/cancel")
    resumed = launcher.post(f"runs/{run}/resume").json()

    assert (cancelled.status_code, again.status_code) == (200, 200)
    assert (cancelled.json()["state"], cancelled.json()["state_reason"]) == ("cancelled", "Cancelled by ada.")
    assert (resumed["state"], resumed["attempt"]) == ("queued", 2)
    assert problem(launcher.post(f"runs/{run}/resume"))[:2] == (409, "conflict")


def test_finish_checks_its_state(writer, tracked, problem):
    assert problem(writer.post(f"runs/{tracked.pk}/finish", {"attempt": 1, "state": "running"}))[:3] == (
        422, "invalid_input", "state",
    )  # fmt: skip
    assert problem(writer.post(f"runs/{tracked.pk}/start", {"attempt": 0}))[2] == "attempt"


def test_the_detail_has_attempts_configuration_and_newest_values(reader, writer, tracked, record):
    writer.post(f"runs/{tracked.pk}/start", {"attempt": 1, "device": {"cores": 2}})
    writer.post(f"runs/{tracked.pk}/records", {"records": [record(i, {"a": i / 4}) for i in range(3)]})

    body = reader.get(f"runs/{tracked.pk}").json()

    assert body["latest"] == {"a": {"value": 0.5, "stderr": None, "step": 2}}
    assert body["attempts"][0]["device"] == {"cores": 2}
    assert body["config"] == {}


@pytest.fixture
def truncate(tracked, record, writer):
    """truncate([0.12, 0.13]): these truncation rates are reported and judged."""

    def report(rates):
        records = [record(i, {"train/truncation_rate": rate}) for i, rate in enumerate(rates)]
        assert writer.post(f"runs/{tracked.pk}/records", {"records": records}).status_code == 200
        judge_run(tracked.pk)

    return report


def test_a_run_has_its_alarms(reader, tracked, truncate):
    assert reader.get(f"runs/{tracked.pk}").json()["alarms"] == []

    truncate([0.02, 0.12, 0.13, 0.12])
    (alarm,) = reader.get(f"runs/{tracked.pk}").json()["alarms"]

    assert alarm["raised_at"] and alarm["meaning"] and alarm["look_at"]
    assert {key: alarm[key] for key in alarm if key not in ("raised_at", "meaning", "look_at")} == {
        "rule": "truncation_rate",
        "metric": "train/truncation_rate",
        "level": "warning",
        "active": True,
        "threshold": 0.1,
        "value": 0.13,
        "latest": 0.12,
        "first_step": 1,
        "last_step": 3,
        "times": 1,
        "message": "Truncation rate is at or above 10 % since step 1, now 12 %.",
    }


def test_runs_are_listed_by_alarm(reader, tracked, truncate, problem):
    ids = lambda alarm: [run["id"] for run in reader.get("runs", alarm=alarm).json()["items"]]
    assert ids("active") == []

    truncate([0.2, 0.2, 0.2, 0.0])

    assert (ids("active"), ids("any"), ids("")) == ([], [tracked.pk], [tracked.pk])
    assert problem(reader.get("runs", alarm="loud"))[:3] == (422, "invalid_input", "alarm")


def test_the_filter_language(reader, launcher, launch_body, writer, problem, django_assert_num_queries):
    launched = launcher.post("runs", launch_body | {"name": "Alpha"}).json()["id"]
    tracked = writer.post("runs", {"tracked": True, "name": "Beta", "config": {"lr": 0.1}}).json()["id"]
    ids = lambda text, **more: [run["id"] for run in reader.get("runs", filter=text, **more).json()["items"]]

    reader.get("runs")  # the token's use is noted once a minute
    with django_assert_num_queries(2):
        assert ids("state:running OR name:nothing") == [tracked]
    assert ids("config.lr = 0.1") == ids("NOT recipe:tiny-scalerl") == [tracked]
    assert ids("by:me origin:launched") == [launched]
    assert ids("seed < 5", state="queued") == [launched]
    Run.objects.filter(pk=launched).update(archived_at="2026-01-01T00:00Z", state="failed")
    assert (ids("seed >= 0"), ids("archived:yes")) == ([tracked], [launched])
    status, code, field, message = problem(reader.get("runs", filter="state:running ceilin > 1"))
    assert (status, code, field) == (422, "invalid_input", "filter")
    assert message == 'filter, character 15: there is no field “ceilin”; did you mean "ceiling"?'


def test_a_run_is_launched_with_a_policy_of_its_own(launcher, launch_body, problem):
    made = launcher.post("runs", launch_body | {"policies": {"truncation": "stop"}})
    assert made.status_code == 201
    assert own_actions(Run.objects.get()) == {"truncation": "stop"}

    wrong = problem(launcher.post("runs", launch_body | {"policies": {"truncation": "off"}}))
    assert wrong[:3] == (422, "invalid_input", "policies.truncation")
    assert Run.objects.count() == 1


def test_a_full_disk_refuses_launches_with_figures(launcher, launch_body, problem, settings):
    settings.MIN_FREE_BYTES = 2**60

    status, code, _, message = problem(launcher.post("runs", launch_body))
    assert (status, code) == (507, "no_room")
    assert "must stay free" in message
