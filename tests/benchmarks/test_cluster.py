"""The simulated cluster against closed forms, its bound, its search and its refusals."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.cluster import Cluster, Rates, Workload
from benchmarks.simulate_cluster import (
    best_split,
    compare,
    halves,
    outcome,
    rates_of_run,
    read_rates,
    workload_of,
)
from training.recipe import apply_overrides, load_recipe

RATES = Path(__file__).parents[2] / "benchmarks" / "rates"
# one engine that makes 4 tokens a second, 8 tokens a step: 2 s; a trainer that takes 3 s for them
PLAIN = Rates(
    decode_seconds=0.0, decode_seconds_per_sequence=0.25, engine_sequences=100, engine_gpus=1, response_tokens=4,
    response_tokens_cv=0.0, max_response_tokens=100, trainer_tokens_per_gpu_second=8 / 3, trainer_fixed_seconds=0.0,
    trainer_gpus_multiple=1, weights_seconds=0.0, weights_pause_seconds=0.0, driver_seconds_per_completion=0.0,
    reward_seconds_per_completion=0.0, reward_workers=1,
)  # fmt: skip
ONE_BY_ONE = Workload(1, 2, max_in_flight_prompts=1, depth=0)


def last(rates: Rates, workload: Workload) -> Any:
    return Cluster(rates, workload, 1, 1).run(30)[-1]


def test_synchronous_steps_take_the_sum() -> None:
    rates = replace(
        PLAIN,
        weights_seconds=1.0,
        driver_seconds_per_completion=0.25,
        reward_seconds_per_completion=0.5,
        trainer_fixed_seconds=0.5,
    )
    step = last(rates, ONE_BY_ONE)

    assert step.seconds == pytest.approx(2 + 0.5 + 1 + 3.5 + 1)
    assert step.generator_idle == pytest.approx(6 / 8)
    assert step.trainer_idle == pytest.approx(4.5 / 8)
    assert step.staleness == [0]


@pytest.mark.parametrize(("tokens_per_second", "training"), [(8 / 3, 3.0), (8.0, 1.0)])
def test_overlapping_steps_take_the_longer(tokens_per_second: float, training: float) -> None:
    step = last(replace(PLAIN, trainer_tokens_per_gpu_second=tokens_per_second), replace(ONE_BY_ONE, depth=2))

    assert step.seconds == pytest.approx(max(2.0, training))
    assert step.trainer_idle == pytest.approx(max(0.0, 1 - training / 2))
    assert step.generator_idle == pytest.approx(max(0.0, 1 - 2 / training))


def test_engines_stand_still_while_they_take_weights() -> None:
    rates = replace(PLAIN, weights_seconds=0.5, weights_pause_seconds=0.5, trainer_tokens_per_gpu_second=8.0)

    assert last(rates, replace(ONE_BY_ONE, depth=2)).seconds == pytest.approx(2.5)


def test_sequences_beyond_those_an_engine_decodes_wait() -> None:
    rates = replace(PLAIN, decode_seconds=1.0, decode_seconds_per_sequence=0.5, engine_sequences=1)

    assert last(rates, ONE_BY_ONE).seconds == pytest.approx(2 * 4 * 1.5 + 3)


@pytest.mark.parametrize(("depth", "push_every"), [(0, 1), (1, 1), (8, 1), (3, 4)])
@pytest.mark.parametrize("speed", [0.5, 50.0])
def test_no_group_is_older_than_the_bound(depth: int, push_every: int, speed: float) -> None:
    rates = replace(PLAIN, response_tokens_cv=1.5, trainer_tokens_per_gpu_second=speed, weights_seconds=0.3)
    steps = Cluster(rates, Workload(3, 2, 40, depth, push_every), 2, 1).run(40)
    ages = [age for step in steps for age in step.staleness]

    assert max(ages) <= depth
    assert all(len(step.staleness) == 3 for step in steps)
    assert speed > 1 or max(ages) == depth  # a slow trainer is run ahead of as far as may be


def test_the_best_split_is_the_best_of_all() -> None:
    workload = Workload(8, 4, 64, depth=4)
    rates = replace(PLAIN, trainer_tokens_per_gpu_second=2.0)
    found = best_split(rates, workload, 24, 5)
    every = [outcome(Cluster(rates, workload, n, 24 - n), 5).throughput for n in range(1, 24)]

    assert found.generator_gpus + found.trainer_gpus == 24
    assert found.throughput == pytest.approx(max(every))
    with pytest.raises(ValueError, match="gpus: 1 hold no engine of 1 and trainer of 1"):
        best_split(rates, workload, 1, 5)


def entries(**changes: Any) -> dict[str, Any]:
    whole = {
        f.name: {"value": getattr(PLAIN, f.name), "source": "assumed", "note": "x"} for f in fields(Rates)
    }
    return whole | changes


def test_rates_say_where_they_come_from() -> None:
    rates, sources = read_rates(entries(), {"decode_seconds": 2.0})

    assert rates == replace(PLAIN, decode_seconds=2.0)
    assert (sources["decode_seconds"], sources["engine_gpus"]) == ("command line", "assumed: x")


@pytest.mark.parametrize("file", sorted(RATES.glob("*.yaml")), ids=lambda file: file.stem)
def test_committed_rates_are_whole(file: Path) -> None:
    rates, sources = read_rates(yaml.safe_load(file.read_text()), {})

    found = outcome(Cluster(rates, workload_of(load_recipe("scalerl")), 1, 1), 1)
    assert found.throughput > 0 and any(source.startswith("measured") for source in sources.values())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "rates: needs a mapping"),
        ({}, "missing .*'decode_seconds'"),
        (entries(speed=1), r"unknown \['speed'\]"),
        (entries(decode_seconds=1.0), "decode_seconds: needs value, source and note"),
        (
            entries(decode_seconds={"value": 1, "source": "guess", "note": ""}),
            "decode_seconds: source is one of",
        ),
        (
            entries(decode_seconds={"value": "x", "source": "assumed", "note": ""}),
            "decode_seconds: 'x' is no",
        ),
        (
            entries(engine_gpus={"value": 1.5, "source": "assumed", "note": ""}),
            "engine_gpus: 1.5 is no whole",
        ),
        (entries(response_tokens={"value": 0, "source": "assumed", "note": ""}), "response_tokens: must be"),
        (
            entries(decode_seconds={"value": -1, "source": "assumed", "note": ""}),
            "decode_seconds: -1.0 is not",
        ),
        (
            entries(weights_pause_seconds={"value": 1, "source": "assumed", "note": ""}),
            "weights_pause_seconds",
        ),
    ],
)
def test_bad_rates_are_refused(data: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_rates(data, {})


# 256 responses of 20 tokens a step of 4 s, in 1 s of which the trainer waits.
STEADY = {
    "train/response_length": 20.0,
    "train/effective_batch": 256.0,
    "perf/step_seconds": 4.0,
    "perf/tokens_per_second": 2 * 256 * 20 / 4,
    "perf/generator_idle": 0.0,
    "perf/trainer_idle": 0.25,
}


def test_rates_of_a_steady_run_give_its_steps_again() -> None:
    recipe = load_recipe("tiny/scalerl")
    steps = Cluster(rates_of_run([STEADY], recipe), workload_of(recipe), 1, 1).run(60)[40:]

    assert sum(step.seconds for step in steps) / 20 == pytest.approx(4, rel=0.02)
    assert sum(step.trainer_idle * step.seconds for step in steps) == pytest.approx(20, rel=0.1)
    assert all(step.generator_idle == 0 for step in steps)


def test_a_run_is_simulated_with_the_recipe_of_its_checkpoint(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text((json.dumps({"metrics": STEADY}) + "\n") * 40)
    checkpoint = tmp_path / "checkpoints" / "step-00000040"
    checkpoint.mkdir(parents=True)
    recipe = load_recipe("tiny/scalerl").model_dump(mode="json")
    (checkpoint / "driver.json").write_text(json.dumps({"step": 40, "recipe": recipe}))
    (checkpoint / "COMPLETE").touch()

    (name, simulated, real), *_ = compare(metrics, load_recipe("scalerl"))

    assert (name, real) == ("seconds", 4.0)
    assert simulated == pytest.approx(4, rel=0.02)


@pytest.mark.parametrize("every", [1, 2, 5, 6, 20])
def test_evaluations_are_shared_by_both_halves_of_a_run(every: int) -> None:
    given, held = halves(range(200), every)

    assert sorted(given + held) == list(range(2, 200))
    evaluated = [sum(step % every == 0 for step in half) for half in (given, held)]
    assert abs(evaluated[0] - evaluated[1]) <= 1
    assert abs(len(given) - len(held)) <= 2


def test_waits_for_a_block_are_in_both_halves_of_a_run(tmp_path: Path) -> None:
    recipe = apply_overrides(
        load_recipe("tiny/scalerl"), {"offpolicy.mode": "ppo", "offpolicy.k": 8, "eval.every_steps": 6}
    )
    metrics = tmp_path / "metrics.jsonl"
    steps = [STEADY | {"perf/step_seconds": 0.4 if step % 8 else 4.0} for step in range(2 + 192)]
    metrics.write_text("".join(json.dumps({"metrics": step}) + "\n" for step in steps))

    (_, _, real), *_ = compare(metrics, recipe)

    assert real == pytest.approx((4.0 + 7 * 0.4) / 8)
