"""Metrics over HTTP: exactly as they were logged, once, within MLflow's limits."""

import json
import math

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.webapp.interfaces.mlflow.conftest import T0
from webapp.interfaces.tracking.models import NotFinite, Receipt
from webapp.record.runs.models import Point, Record, Run
from webapp.record.runs.points import effective_points


def line(key, value, step=0, time=T0):
    return {"key": key, "value": value, "step": step, "timestamp": time}


def test_values_come_back_exactly(mlflow, reader):
    run_id = mlflow.new_run()
    values = [0.1, 1e-300, -1.7976931348623157e308, 3, 0.30000000000000004, 12345678901234567]
    for step, value in enumerate(values):
        mlflow.ok("runs/log-metric", run_id=run_id, **line("actor/kl_loss", value, step, T0 + 7 * step))

    found = reader.history(run_id, "actor/kl_loss")

    assert found == [(step, T0 + 7 * step, float(value)) for step, value in enumerate(values)]
    (newest,) = reader.run(run_id)["data"]["metrics"]
    assert newest == {"key": "actor/kl_loss", "value": 12345678901234567.0, "timestamp": T0 + 35, "step": 5}


def test_what_is_logged_at_one_moment_is_one_record(mlflow):
    run_id = mlflow.new_run()
    mlflow.log(run_id, {"a": 1.0, "b": 2.0}, 3, T0)
    mlflow.ok(
        "runs/log-batch", run_id=run_id, metrics=[line("a", 2.0, 4), line("b", 3.0, 4), line("a", 9.0, 5)]
    )

    records = Record.objects.order_by("seq")

    assert [(each.seq, each.step, each.metrics) for each in records] == [
        (0, 3, {"a": 1.0, "b": 2.0}), (1, 4, {"a": 2.0, "b": 3.0}), (2, 5, {"a": 9.0}),
    ]  # fmt: skip
    assert {each.attempt for each in records} == {1}


def test_two_values_of_a_metric_at_one_moment_are_both_kept(mlflow):
    run_id = mlflow.new_run()
    mlflow.ok("runs/log-batch", run_id=run_id, metrics=[line("a", 1.0), line("a", 2.0), line("b", 3.0)])

    assert mlflow.history(run_id, "a") == [(0, T0, 1.0), (0, T0, 2.0)]
    assert mlflow.run(run_id)["data"]["metrics"][0]["value"] == 2.0


def test_the_same_again_is_stored_once_also_in_other_batches(mlflow):
    run_id = mlflow.new_run()
    lines = [line(f"m{i % 7}", i, i // 7, T0 + i // 7) for i in range(70)]
    mlflow.ok("runs/log-batch", run_id=run_id, metrics=lines)
    before = Record.objects.count(), Point.objects.count()

    mlflow.ok("runs/log-batch", run_id=run_id, metrics=lines)
    mlflow.ok("runs/log-batch", run_id=run_id, metrics=lines[10:] + lines[:10])
    for first in range(0, 70, 11):
        mlflow.ok("runs/log-batch", run_id=run_id, metrics=lines[first : first + 11])
    mlflow.ok("runs/log-metric", run_id=run_id, **lines[33])

    assert (Record.objects.count(), Point.objects.count()) == before == (10, 70)


def test_a_batch_that_is_half_known_stores_the_other_half(mlflow):
    run_id = mlflow.new_run()
    mlflow.log(run_id, {"a": 1.0})

    mlflow.log(run_id, {"a": 1.0, "b": 2.0})

    assert mlflow.history(run_id, "a") == [(0, T0, 1.0)] and mlflow.history(run_id, "b") == [(0, T0, 2.0)]
    assert [each.metrics for each in Record.objects.order_by("seq")] == [{"a": 1.0}, {"b": 2.0}]


def test_a_repeat_reads_the_moments_that_it_repeats_and_no_others(mlflow, django_assert_max_num_queries):
    run_id = mlflow.new_run()
    for step in range(30):
        mlflow.log(run_id, {"a": 1.0}, step, T0 + step)

    with django_assert_max_num_queries(40) as context:
        mlflow.log(run_id, {"a": 1.0}, 3, T0 + 3)

    (asked,) = [
        query["sql"] for query in context.captured_queries
        if "FROM tracking_receipt" in query["sql"] and query["sql"].startswith("SELECT")
    ]  # fmt: skip
    assert f"3:{T0 + 3}" in asked and Receipt.objects.count() == 30


def test_the_next_value_of_a_metric_takes_few_statements(mlflow, django_assert_max_num_queries):
    run_id = mlflow.new_run()
    for step in range(3):
        mlflow.log(run_id, {"a": 1.0}, step, T0 + step)

    with django_assert_max_num_queries(15) as context:
        mlflow.ok("runs/log-metric", run_id=run_id, **line("a", 1.0, 3, T0 + 3))

    locking = [query["sql"] for query in context.captured_queries if "FOR UPDATE" in query["sql"]]
    assert len(locking) == 1 and "tracking_clientrun" in locking[0]
    assert mlflow.history(run_id, "a")[-1] == (3, T0 + 3, 1.0)


def test_a_value_for_a_run_that_was_deleted_is_not_stored(mlflow):
    run_id = mlflow.new_run()
    Run.objects.update(state="succeeded", deleted_at=timezone.now())

    answer = mlflow.send("runs/log-metric", {"run_id": run_id, **line("a", 1.0)})

    assert answer.status_code == 404 and not Record.objects.exists()


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", math.nan, math.inf])
def test_what_is_not_finite_is_null_here_and_comes_back(mlflow, value):
    run_id = mlflow.new_run()
    body = json.dumps(
        {"run_id": run_id, "metrics": [line("loss", value, 1), line("kl", 0.5, 1)]}
    )  # NaN as a word, too

    for _ in range(2):
        assert mlflow.send("runs/log-batch", body).status_code == 200

    assert Record.objects.get().metrics == {"loss": None, "kl": 0.5}
    ((step, _, found),) = mlflow.history(run_id, "loss")
    assert (step, str(float(found))) == (1, str(float(value)))
    assert NotFinite.objects.count() == 1
    newest = {each["key"]: each["value"] for each in mlflow.run(run_id)["data"]["metrics"]}
    assert isinstance(newest["loss"], str) and newest["kl"] == 0.5


def test_the_newest_value_is_that_of_the_highest_step(mlflow):
    run_id = mlflow.new_run()
    mlflow.log(run_id, {"a": 1.0}, 5, T0)
    mlflow.log(run_id, {"a": 2.0}, 4, T0 + 100)  # late
    mlflow.log(run_id, {"a": 3.0}, 5, T0 + 1)
    mlflow.log(run_id, {"a": math.nan}, 5, T0 + 1)

    (newest,) = mlflow.run(run_id)["data"]["metrics"]

    assert (newest["value"], newest["step"], newest["timestamp"]) == (3.0, 5, T0 + 1)


def test_a_standard_error_beside_its_value_comes_back_by_its_own_name(mlflow):
    run_id = mlflow.new_run()
    mlflow.log(run_id, {"acc": 0.5, "acc_stderr": 0.01}, 1)
    mlflow.log(run_id, {"acc_stderr": 0.02}, 2)

    assert mlflow.history(run_id, "acc_stderr") == [(1, T0, 0.01), (2, T0, 0.02)]
    (point,) = effective_points(Run.objects.get(), "acc")
    assert point.stderr == 0.01


def test_trl_is_found_here_by_our_names_and_by_the_client_by_its_own(mlflow):
    run_id = mlflow.new_run()
    params = [
        {"key": k, "value": "4"} for k in ("per_device_train_batch_size", "gradient_accumulation_steps")
    ]
    mlflow.log(run_id, {}, params=params)
    mlflow.log(
        run_id, {"reward": 0.25, "eval_loss": 0.5, "completions/clipped_ratio": 0.1, "num_tokens": 900.0}, 1
    )

    run = Run.objects.get()

    assert [point.value for point in effective_points(run, "train/reward")] == [0.25]
    assert [point.value for point in effective_points(run, "eval/loss")] == [0.5]
    (point,) = effective_points(run, "train/truncation_rate")
    assert (point.tokens, point.flops, point.device_hours) == (900.0, None, None)
    assert mlflow.history(run_id, "completions/clipped_ratio") == [(1, T0, 0.1)]
    assert {each["key"] for each in mlflow.run(run_id)["data"]["metrics"]} == {
        "reward", "eval_loss", "completions/clipped_ratio", "num_tokens",
    }  # fmt: skip


def test_two_names_that_would_be_one_series_stay_two(mlflow):
    run_id = mlflow.new_run()
    params = [
        {"key": k, "value": "4"} for k in ("per_device_train_batch_size", "gradient_accumulation_steps")
    ]
    mlflow.log(run_id, {"loss": 1.0, "train_loss": 2.0, "train/loss": 3.0}, 1, params=params)

    for name, value in {"loss": 1.0, "train_loss": 2.0, "train/loss": 3.0}.items():
        assert mlflow.history(run_id, name) == [(1, T0, value)]


def test_verl_has_its_pass_rate_tokens_and_device_hours(mlflow):
    run_id = mlflow.new_run()
    params = {"trainer/n_gpus_per_node": "8", "trainer/nnodes": "2", "actor_rollout_ref/model/path": "Qwen/Q"}
    mlflow.log(run_id, {}, params=[{"key": k, "value": v} for k, v in params.items()])
    mlflow.log(run_id, {"val-core/gsm8k/reward/mean_at_4": 0.25}, 0)
    step = {"timing_s/step": 90.0, "timing_s/testing": 40.0, "timing_s/save_checkpoint": 5.0}
    for number in (1, 2):
        logged = step | {"perf/total_num_tokens": 1000.0, "critic/rewards/mean": 0.5}
        mlflow.log(run_id, logged | {"val-core/gsm8k/reward/mean_at_4": 0.3}, number, T0 + number)

    points = effective_points(Run.objects.get())

    assert [(each.step, each.value, each.stderr) for each in points] == [
        (0, 0.25, None),
        (1, 0.3, None),
        (2, 0.3, None),
    ]
    assert [each.tokens for each in points] == [0.0, 1000.0, 2000.0]
    assert [each.device_hours for each in points] == pytest.approx([0.0, 16 * 45 / 3600, 2 * 16 * 45 / 3600])
    assert Record.objects.order_by("seq").last().metrics["eval/k"] == 4.0
    assert [point.value for point in effective_points(Run.objects.get(), "train/reward")] == [0.5, 0.5]
    assert Run.objects.get().model == "Qwen/Q"


def test_a_tag_names_the_pass_rate_and_the_devices(mlflow):
    tags = {
        "headroom.pass_rate": "eval_rewards/acc/mean",
        "headroom.devices": "4",
        "headroom.n_prompts": "50",
    }
    run_id = mlflow.new_run(tags=[{"key": k, "value": v} for k, v in tags.items()])
    hour = 3_600_000
    mlflow.log(run_id, {"eval_rewards/acc/mean": 0.5}, 1, T0 + hour)
    mlflow.log(run_id, {"eval_rewards/acc/mean": 0.6}, 2, T0)  # the clock went backwards
    mlflow.log(run_id, {"eval_rewards/acc/mean": 7.0}, 3, T0 + 2 * hour)  # no pass rate

    points = effective_points(Run.objects.get())

    assert [(each.value, each.device_hours) for each in points] == [(0.5, 4.0), (0.6, 4.0)]
    assert Record.objects.first().metrics["eval/n_prompts"] == 50


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"metrics": [line("x" * 251, 1.0)]}, "metrics[0].key"),
        ({"metrics": [line("x" * 300_000, 1.0)]}, "metrics[0].key"),
        ({"metrics": [line("", 1.0)]}, "metrics[0].key"),
        ({"metrics": [line("tab\t", 1.0)]}, "metrics[0].key"),
        ({"metrics": [line("a", 1.0), line("b", "high")]}, "metrics[1].value"),
        ({"metrics": [line("a", None)]}, "metrics[0].value"),
        ({"metrics": [line("a", True)]}, "metrics[0].value"),
        ({"metrics": [line("a", 1.0, step=-(2**63) - 1)]}, "metrics[0].step"),
        ({"metrics": [line("a", 1.0, step=2**63)]}, "metrics[0].step"),
        ({"metrics": [line("a", 1.0, step="x")]}, "metrics[0].step"),
        ({"metrics": [line("a", 1.0, time=-1)]}, "metrics[0].timestamp"),
        ({"metrics": [line("a", 1.0, time=10**15)]}, "metrics[0].timestamp"),
        ({"metrics": [{"key": "a", "value": 1.0}]}, "metrics[0].timestamp"),
        ({"metrics": [line("a", 1.0)] * 1001}, "metrics"),
        ({"metrics": "a"}, "metrics"),
        ({"metrics": [1]}, "metrics"),
        ({"params": [{"key": f"p{i}", "value": "v"} for i in range(101)]}, "params"),
        ({"params": [{"key": "p", "value": "x" * 6001}]}, "params[0].value"),
        ({"params": [{"key": "p", "value": 1}]}, "params[0].value"),
        ({"params": [{"key": "p", "value": "1"}, {"key": "p", "value": "2"}]}, "params[1].key"),
        ({"tags": [{"key": f"t{i}", "value": "v"} for i in range(101)]}, "tags"),
        ({"tags": [{"key": "t", "value": "x" * 8001}]}, "tags[0].value"),
        ({"run_id": ""}, "run_id"),
        ({"run_id": 7}, "run_id"),
    ],
)
def test_each_wrong_field_is_named_and_nothing_is_stored(mlflow, refusal, change, word):
    run_id = mlflow.new_run()
    good = {"metrics": [line("fine", 1.0)], "params": [], "tags": [{"key": "fine", "value": "v"}]}

    response = mlflow.post("runs/log-batch", **({"run_id": run_id} | good | change))

    status, code, message = refusal(response)
    assert (status, code) == (400, "INVALID_PARAMETER_VALUE") and word in message and len(message) < 300
    assert not Record.objects.exists()
    assert "fine" not in {tag["key"] for tag in mlflow.run(run_id)["data"]["tags"]}


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        ("{", "JSON"),
        ("[]", "object"),
        ('{"run_id": "a\\u0000b"}', "NUL"),
        ('{"run_id": "\\ud800"}', "JSON"),
        ('{"pad": "' + "x" * 1_000_000 + '"}', "1,000,000"),
    ],
)
def test_bodies_that_cannot_be_read(mlflow, refusal, raw, word):
    status, code, message = refusal(mlflow.send("runs/log-batch", raw))

    assert (status, code) == (400, "INVALID_PARAMETER_VALUE") and word in message


def test_many_distinct_metrics(mlflow):
    """tests/trackers has a hundred thousand."""
    run_id = mlflow.new_run()
    for first in range(0, 3000, 1000):
        lines = [line(f"m{first + i}", float(first + i), 1) for i in range(1000)]
        assert mlflow.post("runs/log-batch", run_id=run_id, metrics=lines).status_code == 200

    assert len(mlflow.run(run_id)["data"]["metrics"]) == 3000
    assert mlflow.history(run_id, "m2999") == [(1, T0, 2999.0)]


def test_histories_of_several_runs_between_two_steps(mlflow, reader, refusal):
    ids = [mlflow.new_run(), mlflow.new_run()]
    for run_id in ids:
        lines = [line("a", float(step), step, T0 + step) for step in range(100)]
        mlflow.ok("runs/log-batch", run_id=run_id, metrics=lines)

    found = reader.get(
        "metrics/get-history-bulk-interval",
        run_ids=ids,
        metric_key="a",
        start_step=10,
        end_step=90,
        max_results=5,
    ).json()["metrics"]

    assert [each["step"] for each in found if each["run_id"] == ids[0]] == [10, 30, 50, 70, 90]
    assert {each["run_id"] for each in found} == set(ids)
    assert refusal(reader.get("metrics/get-history-bulk-interval", metric_key="a"))[0] == 400


def test_a_history_in_pages(mlflow, reader, refusal):
    """By step and time, what is not finite behind what is; of equal ones none is left out. The database gives no more
    rows than the page shows, and one."""
    run_id = mlflow.new_run()
    logged = [
        (1.0, 3, 5),
        (2.0, -1, 9),
        (3.0, 3, 4),
        ("NaN", 3, 4),
        (4.0, 3, 4),
        ("Infinity", 3, 4),
        (5.0, 2, 0),
    ]
    for value, step, time in logged:
        mlflow.ok("runs/log-metric", run_id=run_id, **line("a", value, step, T0 + time))

    pages, asked = [], {"run_id": run_id, "metric_key": "a", "max_results": 2}
    while True:
        with CaptureQueriesContext(connection) as queries:
            page = reader.get("metrics/get-history", **asked).json()
        assert [
            query["sql"] for query in queries if "LIMIT 3" in query["sql"] and "runs_point" in query["sql"]
        ]
        pages.append([each["value"] for each in page["metrics"]])
        if "next_page_token" not in page:
            break
        asked["page_token"] = page["next_page_token"]

    assert pages == [[2.0, 5.0], [3.0, 4.0], ["NaN", "Infinity"], [1.0]]
    assert reader.history(run_id, "unknown") == []
    for token in ("x", "3", "1.2.3.4", f"{2**63}.0.0.0"):
        asked["page_token"] = token
        assert (
            "page_token is none that this server gave"
            in refusal(reader.get("metrics/get-history", **asked))[2]
        )
    assert refusal(reader.get("metrics/get-history", **asked | {"max_results": 25_001}))[0] == 400


@pytest.mark.parametrize("most", [1, 2, 3, 5, 7, 8, 20])
def test_a_sample_of_a_history_is_even(mlflow, reader, most):
    run_id = mlflow.new_run()
    mlflow.ok("runs/log-batch", run_id=run_id, metrics=[line("a", float(i), i) for i in range(8)])

    asked = {"run_ids": run_id, "metric_key": "a", "max_results": most}
    found = reader.get("metrics/get-history-bulk-interval", **asked).json()["metrics"]

    even = [i * 7 // (most - 1) for i in range(most)] if most > 1 else [7]
    assert [each["step"] for each in found] == (even if most < 8 else list(range(8)))


def test_a_run_that_has_ended_still_takes_values(mlflow):
    run_id = mlflow.new_run()
    mlflow.ok("runs/update", run_id=run_id, status="FINISHED")

    assert mlflow.log(run_id, {"late": 1.0}).status_code == 200
    assert Run.objects.get().state == "succeeded"


def test_steps_of_64_bits_come_back_and_negative_ones_too(mlflow, reader):
    run_id = mlflow.new_run()
    steps = [-(2**63), -5, 0, 3_000_000_000, 2**63 - 1]
    for i, step in enumerate(steps):
        mlflow.ok("runs/log-metric", run_id=run_id, **line("loss", float(i), step, T0 + i))
    mlflow.ok("runs/log-metric", run_id=run_id, **line("only", 1.0, -3, T0))

    assert reader.history(run_id, "loss") == [(step, T0 + i, float(i)) for i, step in enumerate(steps)]
    newest = {each["key"]: each["step"] for each in reader.run(run_id)["data"]["metrics"]}
    assert newest == {"loss": 2**63 - 1, "only": -3}
    assert sorted(Record.objects.values_list("step", flat=True)) == sorted([*steps, -3])
