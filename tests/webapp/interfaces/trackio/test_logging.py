"""trackio's lines become records of a tracked run, once each."""

import json
import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from webapp.interfaces.tracking.client_runs import end_silent_trackio
from webapp.interfaces.tracking.models import ClientRun, Group
from webapp.interfaces.trackio import services
from webapp.interfaces.trackio.services import MOST_NAMES
from webapp.record.runs.bounds import MAX_CONFIG_CHARACTERS
from webapp.record.runs.lifecycle import cancel_run
from webapp.record.runs.models import Record, Run
from webapp.record.runs.points import effective_points
from webapp.record.runs.tokens import create_job_token

T0 = "2026-01-01T00:00:00+00:00"


def test_lines_become_records(trackio, user):
    config = {"lr": 1e-6, "nested": {"a": [1]}, "_Username": "ada", "_Created": T0, "_Group": None}
    trackio.log(trackio.entry({"loss": 1.5, "acc": 0.5}, 0, config=config), trackio.entry({"loss": 1.25}, 1))

    run = Run.objects.get()

    assert (run.name, run.state, run.origin, run.created_by) == ("first", "running", "tracked", user)
    assert run.config["nested"] == {"a": [1]} and run.config["logged_through"]["group"] == "grpo"
    assert [(each.step, each.metrics) for each in Record.objects.order_by("seq")] == [
        (0, {"loss": 1.5, "acc": 0.5}), (1, {"loss": 1.25}),
    ]  # fmt: skip
    assert Group.objects.get().name == "grpo" and ClientRun.objects.get().user_name == "ada"


def test_a_line_that_comes_again_is_stored_once(trackio):
    lines = [trackio.entry({"loss": float(step)}, step) for step in range(5)]
    trackio.log(*lines)

    trackio.log(*lines)
    trackio.log(*reversed(lines), *lines[:2], trackio.entry({"loss": 9.0}, 5))

    assert [point.value for point in effective_points(Run.objects.get(), "loss")] == [0, 1, 2, 3, 4, 9]


def test_a_line_without_an_id_is_known_by_what_it_says(trackio):
    lines = [trackio.entry({"loss": float(step)}, step, log_id=None) for step in range(2)]

    for _ in range(2):
        trackio.log(*lines)

    assert Record.objects.count() == 2


def test_transformers_own_step_and_names(trackio):
    config = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 1, "seed": 3}
    metrics = {"train/reward": 0.5, "train/num_tokens": 700.0, "train/completions/clipped_ratio": 0.1}
    trackio.log(
        trackio.entry(metrics | {"train/global_step": 10}, 0, config=config),
        trackio.entry({"eval/loss": 0.5, "train/global_step": 20}, 1),
    )

    run = Run.objects.get()

    (point,) = effective_points(run, "train/truncation_rate")
    assert (point.step, point.tokens, point.device_hours) == (10, 700.0, None)
    assert effective_points(run, "eval/loss")[0].step == 20 and run.seed == 3


def test_a_configuration_names_the_pass_rate_and_the_devices(trackio):
    config = {"headroom.pass_rate": "eval/acc", "headroom.devices": 8, "_Created": T0}
    trackio.log(trackio.entry({"eval/acc": 0.5}, 1, config=config))

    (point,) = effective_points(Run.objects.get())

    assert point.value == 0.5 and point.device_hours > 8  # since the beginning of 2026


def test_what_is_no_number_is_left_out_and_said(trackio):
    table = {"_type": "trackio.table", "_value": [[1]]}
    trackio.log(
        trackio.entry({"loss": "NaN", "table": table, "text": "hello", "kl": 0.5, "x" * 1_000_000: 1}, 0)
    )

    assert Record.objects.get().metrics == {"loss": None, "kl": 0.5}
    assert Run.objects.get().config["logged_through"]["left_out"] == [
        "text",
        "x" * 250,
    ]  # test_artifacts.py: tables


def test_system_metrics_stand_at_the_runs_newest_step(trackio):
    trackio.log(trackio.entry({"loss": 1.0}, 7))
    system = trackio.entry({"gpu/0/memory": 0.5}) | {"timestamp": "2026-01-01T00:00:05+00:00"}
    trackio.ok("bulk_log_system", logs=[system], hf_token=None)

    (point,) = effective_points(Run.objects.get(), "system/gpu/0/memory")

    assert (point.step, point.time.isoformat()) == (7, "2026-01-01T00:00:05+00:00")


def test_alerts_are_shown_with_the_runs_configuration(trackio):
    alert = {
        "project": "grpo", "run": "first", "run_id": trackio.run_id, "title": "Entropy fell", "text": "below 0.1",
        "level": "warn", "step": 3, "timestamp": T0, "alert_id": "a1",
    }  # fmt: skip
    for _ in range(2):
        trackio.ok("bulk_alert", alerts=[alert], hf_token=None)

    assert Run.objects.get().config["logged_through"]["alerts"] == [
        {"level": "warn", "title": "Entropy fell", "text": "below 0.1", "step": 3, "time": T0}
    ]


def test_a_new_process_that_goes_back_is_the_next_attempt(trackio):
    config = {"lr": 1}
    trackio.log(
        *[trackio.entry({"loss": 1.0}, step, config=config if step == 0 else None) for step in range(4)]
    )
    (found,) = trackio.ok("get_runs_for_project", project="grpo")
    assert trackio.ok("get_run_summary", project="grpo", run_id=found["id"])["last_step"] == 3

    trackio.log(trackio.entry({"loss": 2.0}, 2, config={"lr": 2}))

    run = Run.objects.get()
    assert run.attempt_number == 2 and run.config["lr"] == 2
    assert [point.value for point in effective_points(run, "loss")] == [1.0, 1.0, 2.0]


def test_runs_are_told_apart_by_their_ids_and_else_by_name(trackio):
    trackio.log(
        trackio.entry({"a": 1.0}, 0), trackio.entry({"a": 1.0}, 0, run_id="b" * 32),
        trackio.entry({"a": 1.0}, 0, run_id=None, run="second"),
        trackio.entry({"a": 2.0}, 1, run_id=None, run="second"),
    )  # fmt: skip

    runs = trackio.ok("get_runs_for_project", "grpo")

    assert [each["name"] for each in runs].count("first") == 2 and len(runs) == 3
    assert trackio.ok("get_runs_for_project", project="nothing") == []
    assert trackio.ok("get_run_summary", project="grpo", run="nothing")["last_step"] is None


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"project": ""}, "logs[1].project"),
        ({"project": "x" * 501}, "logs[1].project"),
        ({"project": None}, "logs[1].project"),
        ({"run": 3}, "logs[1].run"),
        ({"run_id": "x" * 65}, "logs[1].run_id"),
        ({"metrics": None}, "logs[1].metrics"),
        ({"metrics": [1]}, "logs[1].metrics"),
        ({"step": 1.5}, "logs[1].step"),
        ({"step": True}, "logs[1].step"),
        ({"config": "x"}, "logs[1].config"),
        ({"log_id": 7}, "logs[1].log_id"),
        ({"timestamp": "yesterday"}, "logs[1].timestamp"),
        (
            {"timestamp": "9999-12-31T23:59:59-23:59"},
            "timestamp must be in the year 9999 of UTC at the latest.",
        ),
    ],
)
def test_each_wrong_field_is_named_and_nothing_is_stored(trackio, change, word):
    response = trackio.call(
        "bulk_log", logs=[trackio.entry({"a": 1.0}, 0), trackio.entry({"a": 1.0}, 1) | change]
    )

    assert response.status_code == 422 and word in response.json()["error"]
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        ("{", 400), ("[]", 422), ('{"args": 1}', 422), ('{"kwargs": {"logs": 1}}', 422), ('{"kwargs": {}}', 422),
        ('{"kwargs": {"logs": [1]}}', 422), ('{"kwargs": {"logs": [{"run": "a\\u0000"}]}}', 400),
    ],
)  # fmt: skip
def test_bodies_that_cannot_be_read(trackio, raw, status):
    response = trackio.send("bulk_log", raw)

    assert response.status_code == status and response.json()["data"] is None and response.json()["error"]


def test_names_of_a_line_have_a_bound(trackio):
    trackio.log(trackio.entry({f"m{i}": i for i in range(MOST_NAMES + 5)}, 0))

    assert sum(len(record.metrics) for record in Record.objects.all()) == MOST_NAMES
    assert Run.objects.get().config["logged_through"]["left_out"] == ["5 more names"]


def test_a_configuration_beyond_the_bound_is_left_out_and_the_lines_stay(trackio):
    trackio.log(trackio.entry({"a": 1.0}, 0, config={"text": "x" * MAX_CONFIG_CHARACTERS}))

    run = Run.objects.get()
    assert run.config["logged_through"]["left_out"] == ["config"] and "text" not in run.config
    assert Record.objects.get().metrics == {"a": 1.0}


def test_what_is_too_much_at_once_is_stored_part_by_part(trackio, monkeypatch):
    """As a client sends it that has kept back the lines of many runs, each with its configuration."""
    monkeypatch.setattr(services, "SECONDS", 0.0)
    monkeypatch.setattr(services, "MOST_RUNS", 2)
    lines = [trackio.entry({"a": 1.0}, 0, run_id=f"{run}", config={"lr": 1}) for run in range(5)]

    answers = [trackio.call("bulk_log", lines) for _ in range(4)]

    assert [answer.status_code for answer in answers] == [503, 503, 200, 200]
    assert "as much as is stored at once" in answers[0].json()["error"]
    assert (Run.objects.count(), Record.objects.count()) == (5, 5)


def test_a_run_in_several_parts_stays_one_attempt(trackio, monkeypatch):
    monkeypatch.setattr(services, "MOST_VALUES", 2)
    lines = [trackio.entry({"a": 1.0}, step, config={"lr": 1}) for step in (1, 2, 3, 3, 4)]

    trackio.log(*lines)

    assert Run.objects.get().attempt_number == 1
    assert list(Record.objects.order_by("seq").values_list("step", flat=True)) == [1, 2, 3, 3, 4]


def test_alerts_are_of_few_runs(trackio):
    said = {"title": "t", "level": "warn"}
    many = [trackio.entry({}, 0, run_id=uuid.uuid4().hex, **said) for _ in range(services.MOST_RUNS + 1)]

    answer = trackio.call("bulk_alert", many)

    assert (answer.status_code, Run.objects.count()) == (422, 0)


def test_many_alerts_at_once_are_kept_in_their_order(trackio, django_assert_max_num_queries):
    alerts = [trackio.entry({}, 0, title=str(i), level="warn", alert_id=str(i)) for i in range(150)]
    with django_assert_max_num_queries(60):
        for _ in range(2):
            trackio.ok("bulk_alert", alerts=alerts, hf_token=None)

    kept = Run.objects.get().config["logged_through"]["alerts"]
    assert [alert["title"] for alert in kept] == [str(i) for i in range(50, 150)]


def test_levels_of_alerts_are_named(trackio):
    alert = {"project": "grpo", "run": "first", "title": "t", "level": "loud"}

    assert "alerts[0].level" in trackio.call("bulk_alert", alerts=[alert]).json()["error"]


TOOLS = ("bulk_log", "bulk_log_system", "bulk_alert", "get_runs_for_project", "get_run_summary")


@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_asks_for_a_token(db, client, name):
    for token in ("", "hr_wrong"):
        answer = client.post(
            f"/api/{name}", "{}", content_type="application/json", headers={"x-trackio-write-token": token}
        )
        assert answer.status_code == 401 and answer.json()["error"]
    assert client.get(f"/api/{name}").status_code == 405


def test_reading_needs_read_and_logging_needs_write(client_with):
    reader = client_with("read")

    for name in TOOLS[:3]:
        assert reader.call(name, logs=[], alerts=[]).status_code == 403
    for name in TOOLS[3:]:
        assert reader.call(name, project="grpo").status_code == 200


def test_runs_of_others_are_not_there(trackio, foreign):
    trackio.log(trackio.entry({"a": 1.0}, 4))

    assert foreign.ok("get_runs_for_project", project="grpo") == []
    assert foreign.ok("get_run_summary", project="grpo", run_id=trackio.run_id)["last_step"] is None
    foreign.log(trackio.entry({"a": 5.0}, 9))  # the same ids in another project are another run

    assert Run.objects.count() == 2
    assert trackio.ok("get_run_summary", project="grpo", run_id=trackio.run_id)["last_step"] == 4


def test_a_runs_own_token_does_not_open_this(trackio, project):
    trackio.log(trackio.entry({"a": 1.0}, 0))
    run = Run.objects.get()
    token = create_job_token(run)
    body = json.dumps({"kwargs": {"logs": []}})

    answer = trackio._client.post(
        "/api/bulk_log", body, content_type="application/json", headers={"x-trackio-write-token": token}
    )

    assert answer.status_code == 403


def silent(run, minutes):
    then = timezone.now() - timedelta(minutes=minutes)
    Run.objects.filter(pk=run.pk).update(created_at=then, started_at=then, heartbeat_at=then)


def test_a_run_that_had_figures_of_its_machine_ends_with_its_silence(trackio):
    """The client's `finish` sends nothing; while it runs it sends such figures every ten seconds."""
    trackio.log(trackio.entry({"loss": 1.0}, 0))
    run = Run.objects.get()
    silent(run, minutes=6)
    assert end_silent_trackio() == 0  # it may think for as long as it likes

    trackio.ok("bulk_log_system", logs=[trackio.entry({"cpu": 50.0})], hf_token=None)
    assert end_silent_trackio() == 0
    silent(run, minutes=6)
    assert (end_silent_trackio(), end_silent_trackio()) == (1, 0)

    run.refresh_from_db()
    assert (run.state, run.attempt_number) == ("succeeded", 1)
    assert run.state_reason == (
        "Its client has been silent for 5 minutes; trackio does not say how a run ends."
    )


def test_a_run_that_speaks_after_its_silence_goes_on_and_loses_nothing(trackio):
    trackio.log(trackio.entry({"loss": 0.0}, 0))
    trackio.ok("bulk_log_system", logs=[trackio.entry({"cpu": 50.0})], hf_token=None)
    run = Run.objects.get()
    silent(run, minutes=6)
    end_silent_trackio()

    late = trackio.entry({"loss": 1.0}, 1)
    trackio.log(late)
    trackio.log(late, trackio.entry({"loss": 2.0}, 2))

    run.refresh_from_db()
    assert (run.state, run.attempt_number) == ("running", 2)
    assert [point.value for point in effective_points(run, "loss")] == [0.0, 1.0, 2.0]


def test_a_run_that_a_person_has_ended_stays_so(trackio):
    trackio.log(trackio.entry({"loss": 0.0}, 0))
    cancel_run(Run.objects.get(), user=None)
    trackio.log(trackio.entry({"loss": 1.0}, 1))

    assert Run.objects.get().state == "cancelled"


def test_a_step_beyond_64_bits_is_the_last_that_there_is(trackio):
    trackio.log(trackio.entry({"a": 1.0}, 10**30), trackio.entry({"a": 2.0}, -(2**64)))

    assert sorted(record.step for record in Record.objects.all()) == [-(2**63), 2**63 - 1]


def test_tokens_as_steps(trackio):
    steps = [3_000_000_000, -1, 2**63 - 1]
    trackio.log(*(trackio.entry({"loss": 1.0}, step) for step in steps), trackio.entry({"loss": 2.0}))

    assert list(Record.objects.order_by("seq").values_list("step", flat=True)) == [*steps, 2**63 - 1]
