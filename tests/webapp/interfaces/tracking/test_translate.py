"""The pure translation: nothing is guessed, what is known is taken."""

import math
from dataclasses import asdict

import pytest

from webapp.interfaces.tracking.translate import (
    Meter,
    RunDescription,
    evaluation,
    said_by,
    stored_name,
    to_value,
)

VERL = {"trainer/n_gpus_per_node": "8", "trainer/nnodes": "2"}
HF = {"per_device_train_batch_size": "8", "gradient_accumulation_steps": 2, "seed": 42}
HOUR = 3_600_000


@pytest.mark.parametrize(
    ("params", "tags", "expected"),
    [
        ({}, {}, RunDescription()),
        (VERL, {}, RunDescription(trainer="verl", devices=16)),
        (
            {"trainer/n_gpus_per_node": "8"},
            {},
            RunDescription(trainer="verl", devices=8),
        ),
        (
            {"actor_rollout_ref": {"model": {"path": "Q"}}, "trainer": {"n_gpus_per_node": 4, "nnodes": 1}},
            {},
            RunDescription(trainer="verl", devices=4, model="Q"),
        ),
        (HF, {}, RunDescription(trainer="transformers", seed=42)),
        (HF | {"seed": "-1"}, {}, RunDescription(trainer="transformers")),
        (VERL, {"headroom.devices": "3"}, RunDescription(trainer="verl", devices=3)),
        ({"headroom.devices": 2}, {"headroom.devices": "3"}, RunDescription(devices=3)),
        ({"headroom.devices": "many"}, {}, RunDescription()),
        ({"headroom.devices": "0"}, {}, RunDescription()),
        ({"headroom.devices": "1.5"}, {}, RunDescription()),
        ({"headroom.devices": 8.0, "headroom.seed": True}, {}, RunDescription(devices=8)),
        ({"headroom.seed": "3000000000", "seed": "4"}, {}, RunDescription(seed=4)),
        (
            {},
            {"headroom.pass_rate": "a", "headroom.k": "4", "headroom.n_prompts": "10"},
            RunDescription("", None, "a", 4, 10),
        ),
        ({"headroom.task": "math"}, {"headroom.model": "8b"}, RunDescription(task="math", model="8b")),
        ({"_name_or_path": "Qwen/Q"}, {}, RunDescription(model="Qwen/Q")),
        ({"model": "8b", "seed": "4"}, {}, RunDescription(model="8b", seed=4)),
        (
            {"model": "8b", "seed": "4"},
            {"headroom.model": "9b", "headroom.seed": 5},
            RunDescription(model="9b", seed=5),
        ),
    ],
)
def test_what_params_and_tags_say(params, tags, expected):
    assert said_by(params, tags) == expected


@pytest.mark.parametrize(
    ("logged", "trainer", "expected"),
    [
        ("reward", "transformers", "train/reward"),
        ("eval_loss", "transformers", "eval/loss"),
        ("train_runtime", "transformers", "train/runtime"),
        ("train/completions/clipped_ratio", "transformers", "train/truncation_rate"),
        ("train/kl", "transformers", "train/kl"),
        ("eval/loss", "transformers", "eval/loss"),
        ("compute/device_hours", "transformers", "compute/device_hours"),
        ("system/gpu", "transformers", "system/gpu"),
        ("critic/rewards/mean", "verl", "train/reward"),
        ("val-core/x/mean_at_4", "verl", "val-core/x/mean_at_4"),
        ("reward", "", "reward"),
        ("eval_loss", "", "eval_loss"),
        ("train/global_step", "", "train/global_step"),
        ("x" * 250, "transformers", "x" * 250),  # with its group it would be too long
    ],
)
def test_names(logged, trainer, expected):
    assert stored_name(logged, trainer) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [(1, 1.0), (0.5, 0.5), ("Infinity", math.inf), ("-Infinity", -math.inf), ("1.5", None), (True, None),
     (None, None), ([1], None), ({"_type": "trackio.table"}, None), (10**400, None)],
)  # fmt: skip
def test_values(given, expected):
    assert to_value(given) == expected


def test_nan_is_a_value():
    assert math.isnan(to_value("NaN")) and math.isnan(to_value(math.nan))


@pytest.mark.parametrize(
    ("values", "said", "expected"),
    [
        ({"val-core/gsm8k/acc/mean@8": 0.5}, RunDescription(), {"eval/pass_rate": 0.5, "eval/k": 8.0}),
        ({"val-core/gsm8k/acc/mean_at_8": 0.5}, RunDescription(), {"eval/pass_rate": 0.5, "eval/k": 8.0}),
        ({"val-core/a/mean@8": 0.5, "val-core/b/mean@8": 0.6}, RunDescription(), {}),  # which one?
        ({"eval_rewards/accuracy_reward/mean": 0.5}, RunDescription(), {"eval/pass_rate": 0.5}),
        ({"eval/rewards/accuracy_reward/mean": 0.5, "eval/reward": 0.7}, RunDescription(k=4),
         {"eval/pass_rate": 0.5, "eval/k": 4.0}),
        ({"train/rewards/accuracy_reward/mean": 0.5, "eval/rewards/mine/mean": 0.5}, RunDescription(), {}),
        ({"val-core/a/best@8/mean": 0.5}, RunDescription(), {}),
        ({"val-aux/a/acc/mean@8": 0.5}, RunDescription(), {}),
        ({"val-core/a/acc/mean@8": -0.5}, RunDescription(), {}),
        ({"val-core/a/mean@8": 0.5, "val-core/b/mean@8": 0.6}, RunDescription(pass_rate="val-core/b/mean@8"),
         {"eval/pass_rate": 0.6, "eval/k": 8.0}),
        ({"val-core/b/mean_at_8": 0.6}, RunDescription(pass_rate="val-core/b/mean@8"),
         {"eval/pass_rate": 0.6, "eval/k": 8.0}),
        ({"acc": 0.6}, RunDescription(), {}),
        ({"acc": 0.6}, RunDescription(pass_rate="acc", k=2, n_prompts=30),
         {"eval/pass_rate": 0.6, "eval/k": 2.0, "eval/n_prompts": 30.0}),
        ({"acc": 0.6, "acc_stderr": 0.01}, RunDescription(pass_rate="acc"),
         {"eval/pass_rate": 0.6, "eval/pass_rate_stderr": 0.01}),
        ({"acc": 0.6, "val-core/a/mean@8": 0.5}, RunDescription(pass_rate="other"), {}),
        ({"eval/pass_rate": 0.6, "val-core/a/mean@8": 0.5}, RunDescription(), {}),  # the client says it itself
        ({"acc": 1.5}, RunDescription(pass_rate="acc"), {}),
    ],
)  # fmt: skip
def test_the_pass_rate(values, said, expected):
    assert evaluation(values, said) == expected


def test_compute_that_nobody_counts_is_not_known():
    meter = Meter(since_ms=0)

    meter.advance({"loss": 1.0, "timing_s/step": 9.0}, step=1, time_ms=HOUR, said=RunDescription())

    assert meter.compute == {"device_hours": None, "flops": None, "tokens": None}


def test_totals_are_taken_and_stay_as_last_reported():
    meter = Meter()

    meter.advance({"num_tokens": 10.0, "total_flos": 5e15}, step=1, time_ms=0, said=RunDescription())
    meter.advance({"loss": 1.0}, step=2, time_ms=0, said=RunDescription())
    meter.advance(
        {"compute/device_hours": 2.5, "train/num_tokens": 30.0}, step=3, time_ms=0, said=RunDescription()
    )

    assert meter.compute == {"device_hours": 2.5, "flops": 5e15, "tokens": 30.0}


def test_what_the_client_counts_itself_goes_before_the_clock():
    meter, said = Meter(since_ms=0), RunDescription(devices=8)

    meter.advance({"compute/device_hours": 2.5}, step=1, time_ms=HOUR, said=said)
    meter.advance({"loss": 1.0}, step=2, time_ms=2 * HOUR, said=said)

    assert meter.device_hours == 2.5


def test_devices_times_time_never_falls():
    meter, said = Meter(since_ms=HOUR), RunDescription(devices=2)
    seen = []
    for time_ms in (HOUR // 2, 2 * HOUR, HOUR, 3 * HOUR):
        meter.advance({}, step=1, time_ms=time_ms, said=said)
        seen.append(meter.device_hours)

    assert seen == [0.0, 2.0, 2.0, 4.0]


def test_verl_counts_the_time_of_steps_without_testing_and_saving():
    meter, said = Meter(since_ms=0), RunDescription(trainer="verl", devices=16)
    step = {"timing_s/step": 100.0, "timing_s/testing": 30.0, "timing_s/save_checkpoint": 10.0}

    meter.advance({"val-core/a/mean@1": 0.1}, step=0, time_ms=0, said=said)
    assert (meter.device_hours, meter.tokens) == (0.0, 0.0)
    meter.advance(step | {"perf/total_num_tokens": 7.0}, step=1, time_ms=0, said=said)
    meter.advance({"timing_s/step": 1.0, "timing_s/testing": 2.0}, step=2, time_ms=0, said=said)
    meter.advance({"perf/total_num_tokens": 7.0}, step=2, time_ms=9 * HOUR, said=said)

    assert meter.device_hours == pytest.approx(16 * 60 / 3600) and meter.tokens == 14.0


def test_verl_joined_in_the_middle_is_not_known_before_its_first_step():
    meter = Meter()

    meter.advance(
        {"val-core/a/mean@1": 0.1}, step=50, time_ms=0, said=RunDescription(trainer="verl", devices=16)
    )

    assert (meter.device_hours, meter.tokens) == (None, None)


def test_amounts_below_zero_are_none():
    meter = Meter()

    meter.advance(
        {"num_tokens": -1.0, "total_flos": -1.0, "compute/device_hours": -1.0},
        step=1,
        time_ms=0,
        said=RunDescription(),
    )

    assert meter.compute == {"device_hours": None, "flops": None, "tokens": None}


def test_a_meter_survives_being_stored():
    meter = Meter(device_hours=1.5, tokens=3.0, since_ms=7, base_hours=0.5, told=True)

    assert Meter(**asdict(meter)) == meter
