"""Runs over HTTP: made, described, ended, joined again, found; what Headroom's pages see of them."""

import pytest

from tests.webapp.interfaces.mlflow.conftest import T0
from webapp.identity.audit.models import Event
from webapp.interfaces.tracking.translate import to_ms
from webapp.record.runs.editing import change_run, delete_run
from webapp.record.runs.models import Run
from webapp.record.runs.points import effective_points

HF_PARAMS = {"per_device_train_batch_size": "4", "gradient_accumulation_steps": "1", "seed": "7"}


def pairs(values):
    return [{"key": key, "value": value} for key, value in values.items()]


def as_dict(items):
    return {item["key"]: item["value"] for item in items}


def test_a_run_is_tracked_and_comes_back_as_it_went_in(mlflow, reader, user):
    run_id = mlflow.new_run(run_name="first try", user_id="ada", tags=pairs({"mlflow.user": "ada", "a": "b"}))
    mlflow.ok("runs/log-parameter", run_id=run_id, key="lr", value="1e-6")
    mlflow.ok("runs/log-batch", run_id=run_id, params=pairs({"trainer/nnodes": "2"}), tags=pairs({"c": "d"}))

    found = reader.run(run_id)

    assert len(run_id) == 32 and int(run_id, 16) >= 0
    info = found["info"]
    assert (info["status"], info["run_name"], info["user_id"]) == ("RUNNING", "first try", "ada")
    assert (info["start_time"], info["lifecycle_stage"]) == (T0, "active") and "end_time" not in info
    assert as_dict(found["data"]["params"]) == {"lr": "1e-6", "trainer/nnodes": "2"}
    tags = as_dict(found["data"]["tags"])
    assert tags == {"mlflow.user": "ada", "a": "b", "c": "d", "mlflow.runName": "first try"}
    run = Run.objects.get()
    assert (run.name, run.state, run.origin, run.created_by) == ("first try", "running", "tracked", user)
    assert run.config["lr"] == "1e-6"
    origin = {"client": "mlflow", "group": "Default", "run_id": run_id, "tags": {"a": "b", "c": "d"}}
    assert run.config["logged_through"] == origin
    assert Event.objects.filter(verb="run.tracked", object_id=run.pk).count() == 1


@pytest.mark.parametrize(
    ("status", "state"), [("FINISHED", "succeeded"), ("FAILED", "failed"), ("KILLED", "cancelled")]
)
def test_its_end(mlflow, status, state):
    run_id = mlflow.new_run()

    for _ in range(2):  # a repetition is no error
        answer = mlflow.ok("runs/update", run_id=run_id, status=status, end_time=T0 + 5000)

    assert (answer["run_info"]["status"], answer["run_info"]["end_time"]) == (status, T0 + 5000)
    run = Run.objects.get()
    assert run.state == state
    for row in (run, run.attempts.get()):
        assert (to_ms(row.started_at), to_ms(row.ended_at)) == (T0, T0 + 5000)


def test_an_end_after_another_end_is_no_error_and_changes_nothing(mlflow):
    run_id = mlflow.new_run()
    mlflow.ok("runs/update", run_id=run_id, status="FAILED")

    answer = mlflow.ok("runs/update", run_id=run_id, status="FINISHED")

    assert answer["run_info"]["status"] == "FAILED"
    assert Run.objects.get().state == "failed"


def test_a_run_that_is_joined_again_supersedes_what_it_repeats(mlflow):
    run_id = mlflow.new_run()
    for step in range(1, 7):
        mlflow.log(run_id, {"loss": 6.0 - step}, step, T0 + step)
    mlflow.ok("runs/update", run_id=run_id, status="FAILED")

    mlflow.ok("runs/update", run_id=run_id, status="RUNNING")
    mlflow.ok("runs/update", run_id=run_id, status="RUNNING")  # the client repeats its request
    assert Run.objects.get().state == "running"
    mlflow.log(run_id, {"epoch": 0.1}, 5, T0 + 100)
    for step in (5, 6, 7):
        mlflow.log(run_id, {"loss": 10.0 + step}, step, T0 + 100 + step)

    run = Run.objects.get()
    steps = [(point.step, point.value) for point in effective_points(run, "loss")]
    assert steps == [(1, 5.0), (2, 4.0), (3, 3.0), (4, 2.0), (5, 15.0), (6, 16.0), (7, 17.0)]
    assert len(mlflow.history(run_id, "loss")) == 9  # the client finds all that it logged
    again = run.attempts.get(number=run.attempt_number)
    assert again.resumed_from_step == 4


def test_a_run_that_was_killed_and_joined_again_is_a_new_attempt_once_it_goes_back(mlflow):
    run_id = mlflow.new_run()
    for step in (1, 2, 3):
        mlflow.log(run_id, {"loss": 1.0}, step, T0 + step)

    mlflow.ok("runs/update", run_id=run_id, status="RUNNING")
    mlflow.log(run_id, {"loss": 2.0}, 2, T0 + 50)

    run = Run.objects.get()
    assert run.attempt_number == 2 and run.attempts.get(number=2).resumed_from_step == 1
    assert [point.value for point in effective_points(run, "loss")] == [1.0, 2.0]


def test_a_training_that_begins_anew_supersedes_all(mlflow):
    run_id = mlflow.new_run()
    mlflow.log(run_id, {"loss": 1.0}, 0, T0)
    mlflow.log(run_id, {"loss": 1.0}, 1, T0 + 1)
    mlflow.ok("runs/update", run_id=run_id, status="RUNNING")

    mlflow.log(run_id, {"loss": 2.0}, 0, T0 + 50)

    assert [point.value for point in effective_points(Run.objects.get(), "loss")] == [2.0]


def test_who_joins_to_add_other_metrics_supersedes_nothing(mlflow):
    run_id = mlflow.new_run()
    for step in (1, 2, 3):
        mlflow.log(run_id, {"loss": 1.0}, step, T0 + step)
    mlflow.ok("runs/update", run_id=run_id, status="FINISHED")

    mlflow.ok("runs/update", run_id=run_id, status="RUNNING")
    mlflow.log(run_id, {"benchmark/aime": 0.4}, 0, T0 + 50)
    mlflow.ok("runs/update", run_id=run_id, status="FINISHED")

    run = Run.objects.get()
    assert len(effective_points(run, "loss")) == 3 and len(effective_points(run, "benchmark/aime")) == 1
    assert run.state == "succeeded"


def test_params_do_not_change(mlflow, refusal):
    run_id = mlflow.new_run()
    mlflow.ok("runs/log-parameter", run_id=run_id, key="lr", value="1e-6")

    same = mlflow.post("runs/log-parameter", run_id=run_id, key="lr", value="1e-6")
    other = mlflow.log(run_id, {"loss": 1.0}, params=pairs({"new": "1", "lr": "2e-6"}))

    assert same.status_code == 200
    status, code, message = refusal(other)
    assert (status, code) == (400, "INVALID_PARAMETER_VALUE") and "'lr'" in message and "1e-6" in message
    found = mlflow.run(run_id)["data"]
    assert as_dict(found["params"]) == {"lr": "1e-6"} and found["metrics"] == []  # all or nothing


def test_tags_change_and_go(mlflow, refusal):
    run_id = mlflow.new_run()
    mlflow.ok("runs/set-tag", run_id=run_id, key="phase", value="warm")
    mlflow.ok("runs/set-tag", run_id=run_id, key="phase", value="hot")
    mlflow.ok("runs/set-tag", run_id=run_id, key="mlflow.runName", value="renamed")
    before = as_dict(mlflow.run(run_id)["data"]["tags"])

    mlflow.ok("runs/delete-tag", run_id=run_id, key="phase")

    assert before["phase"] == "hot" and Run.objects.get().name == "renamed"
    assert "phase" not in as_dict(mlflow.run(run_id)["data"]["tags"])
    assert refusal(mlflow.post("runs/delete-tag", run_id=run_id, key="phase"))[1] == "RESOURCE_DOES_NOT_EXIST"


def test_what_params_and_tags_say_is_the_runs_task_model_and_seed(mlflow):
    run_id = mlflow.new_run()

    mlflow.log(run_id, {}, params=pairs(HF_PARAMS | {"_name_or_path": "Qwen/Qwen3-8B"}))
    mlflow.ok("runs/set-tag", run_id=run_id, key="headroom.task", value="math")

    run = Run.objects.get()
    assert (run.task, run.model, run.seed) == ("math", "Qwen/Qwen3-8B", 7)


def test_its_description_is_the_runs_notes_until_a_person_writes_others(mlflow, user):
    run_id = mlflow.new_run(tags=pairs({"mlflow.note.content": "Why:\r\n\x07the **first**", "team": "rl"}))
    run = Run.objects.get()
    assert run.notes == "Why:\nthe **first**"

    change_run(run, {"notes": "It went well."}, user=user)
    mlflow.ok("runs/set-tag", run_id=run_id, key="team", value="ops")
    run.refresh_from_db()
    assert run.notes == "It went well." and run.config["logged_through"]["tags"] == {"team": "ops"}
    mlflow.ok("runs/set-tag", run_id=run_id, key="mlflow.note.content", value="later")
    run.refresh_from_db()
    assert run.notes == "later"


def test_a_deleted_run_is_hidden_from_the_client_and_kept_here(mlflow, refusal):
    run_id = mlflow.new_run()
    mlflow.ok("runs/delete", run_id=run_id)

    refused = mlflow.log(run_id, {"loss": 1.0})

    assert refusal(refused)[:2] == (400, "INVALID_PARAMETER_VALUE")
    assert mlflow.run(run_id)["info"]["lifecycle_stage"] == "deleted"
    assert mlflow.ok("runs/search", experiment_ids=["0"])["runs"] == []
    assert Run.objects.count() == 1
    mlflow.ok("runs/restore", run_id=run_id)
    assert mlflow.log(run_id, {"loss": 1.0}).status_code == 200


def test_links_to_data_and_models_are_taken_and_a_model_is_a_tag(mlflow):
    run_id = mlflow.new_run()
    mlflow.ok("runs/log-inputs", run_id=run_id, datasets=[{"dataset": {"name": "gsm8k"}}])
    mlflow.ok("runs/outputs", run_id=run_id, models=[])

    for number in (1, 2):
        mlflow.ok("runs/log-model", run_id=run_id, model_json=f'{{"model_uuid": "{number}"}}')

    tags = as_dict(mlflow.run(run_id)["data"]["tags"])
    assert tags["mlflow.log-model.history"] == '[{"model_uuid": "1"}, {"model_uuid": "2"}]'


@pytest.mark.parametrize("model", ["[" * 100_000, "no JSON", "[]", "9" * 5000])
def test_a_model_that_is_no_object_is_refused(mlflow, refusal, model):
    answer = mlflow.post("runs/log-model", run_id=mlflow.new_run(), model_json=model)

    assert refusal(answer)[:2] == (400, "INVALID_PARAMETER_VALUE")


def test_a_history_of_models_that_is_none_begins_anew(mlflow):
    run_id = mlflow.new_run()
    for said in ("[" * 5000, "7"):
        mlflow.ok("runs/set-tag", run_id=run_id, key="mlflow.log-model.history", value=said)
        mlflow.ok("runs/log-model", run_id=run_id, model_json='{"model_uuid": "1"}')

        tags = as_dict(mlflow.run(run_id)["data"]["tags"])
        assert tags["mlflow.log-model.history"] == '[{"model_uuid": "1"}]'


def test_params_and_tags_of_a_run_have_a_bound_together(mlflow, refusal):
    run_id = mlflow.new_run()
    for field in ("params", "tags"):
        many = [[{"key": f"k{j}{i}", "value": "x" * 6000} for i in range(100)] for j in range(2)]
        mlflow.ok("runs/log-batch", run_id=run_id, **{field: many[0]})

        status, _, message = refusal(mlflow.post("runs/log-batch", run_id=run_id, **{field: many[1]}))
        assert status == 400 and message.startswith(f"{field} may have at most 1,000,000 characters")


def test_what_a_person_has_put_right_stays_until_the_client_says_it_anew(mlflow):
    run_id = mlflow.new_run(run_name="first try", tags=pairs({"headroom.task": "math"}))
    change_run(Run.objects.get(), {"name": "mine", "task": "code", "seed": 5}, user=None)

    mlflow.ok("runs/log-batch", run_id=run_id, params=pairs({"lr": "1e-6"}), tags=pairs({"c": "d"}))
    run = Run.objects.get()
    assert (run.name, run.task, run.seed, run.config["lr"]) == ("mine", "code", 5, "1e-6")

    mlflow.ok("runs/set-tag", run_id=run_id, key="headroom.task", value="logic")
    run = Run.objects.get()
    assert (run.name, run.task) == ("mine", "logic")


def test_a_run_that_was_deleted_here_is_unknown(mlflow, reader):
    run_id = mlflow.new_run()
    mlflow.ok("runs/update", run_id=run_id, status="FINISHED")
    delete_run(Run.objects.get(), user=None)

    answer = mlflow.post("runs/log-metric", run_id=run_id, key="loss", value=1.0, timestamp=T0, step=1)
    assert (answer.status_code, answer.json()["error_code"]) == (404, "RESOURCE_DOES_NOT_EXIST")
