"""Step time, idle shares and staleness of a run on 8 to 1,024 GPUs, by simulation, and the best split.

    .venv/bin/python -m benchmarks.simulate_cluster scalerl --rates rates.yaml [--gpus 8 64 1024] [--rate NAME=VALUE]
    .venv/bin/python -m benchmarks.simulate_cluster tiny/scalerl --check RUN/metrics.jsonl

Every rate is to be given, as `NAME: {value: NUMBER, source: measured|published|assumed, note: where}` in the file, or
by `--rate`; their list is `benchmarks.cluster.Rates`. What comes out is no better than the rates that go in, and is
printed below them. --check takes the rates from every second step of a real run of one engine and one trainer and
compares the others, so that a machine that gets slower is no error of the simulation (of the steps with an evaluation
or a wait for a block, too, each second one); where the run has a checkpoint, its recipe is the one that is simulated.
See docs/benchmarks.md.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from math import lcm
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from benchmarks.cluster import Cluster, Rates, Step, Workload
from training.checkpoints import CheckpointError, newest_checkpoint
from training.recipe import load_recipe
from training.schema import Recipe

SOURCES = ("measured", "published", "assumed")
COUNTS = ("engine_sequences", "engine_gpus", "max_response_tokens", "trainer_gpus_multiple", "reward_workers")
POSITIVE = ("decode_seconds_per_sequence", "response_tokens", "trainer_tokens_per_gpu_second")


@dataclass(frozen=True)
class Outcome:
    """Means over steps after the first ones. throughput: response tokens trained a second."""

    generator_gpus: int
    trainer_gpus: int
    seconds: float
    throughput: float
    generator_idle: float
    trainer_idle: float
    staleness_mean: float
    staleness_max: int


def workload_of(recipe: Recipe) -> Workload:
    """What the recipe has on its way."""
    rollout, offpolicy = recipe.rollout, recipe.offpolicy
    depth, push_every = (offpolicy.k, 1) if offpolicy.mode == "pipeline" else (offpolicy.k - 1, offpolicy.k)
    prompts, n = rollout.prompts_per_step, rollout.generations_per_prompt
    return Workload(prompts, n, rollout.max_in_flight_prompts, depth, push_every)


def read_rates(data: Any, given: Mapping[str, float]) -> tuple[Rates, dict[str, str]]:
    """Rates and where each comes from. ValueError names the rate that is missing, unknown or impossible."""
    if not isinstance(data, dict):
        raise ValueError("rates: needs a mapping of names to {value, source, note}")
    names = [each.name for each in fields(Rates)]
    unknown = sorted((set(data) | set(given)) - set(names))
    missing = [name for name in names if name not in data and name not in given]
    if unknown or missing:
        raise ValueError(f"rates: missing {missing}, unknown {unknown}")
    values = {name: given[name] if name in given else _value(name, data[name]) for name in names}
    for name, value in values.items():
        _check(name, value)
    if values["weights_pause_seconds"] > values["weights_seconds"]:
        raise ValueError("weights_pause_seconds: engines cannot stand still for longer than weights_seconds")
    sources = {n: "command line" if n in given else f"{data[n]['source']}: {data[n]['note']}" for n in names}
    return Rates(**{n: int(v) if n in COUNTS else v for n, v in values.items()}), sources  # type: ignore[arg-type]


def _value(name: str, entry: Any) -> float:
    if not isinstance(entry, dict) or set(entry) != {"value", "source", "note"}:
        raise ValueError(f"{name}: needs value, source and note")
    if entry["source"] not in SOURCES:
        raise ValueError(f"{name}: source is one of {', '.join(SOURCES)}, not {entry['source']!r}")
    try:
        return float(entry["value"])
    except (TypeError, ValueError):
        raise ValueError(f"{name}: {entry['value']!r} is no number") from None


def _check(name: str, value: float) -> None:
    if not 0 <= value < float("inf"):
        raise ValueError(f"{name}: {value} is not a finite number of at least 0")
    if name in COUNTS and (value < 1 or value != int(value)):
        raise ValueError(f"{name}: {value} is no whole number of at least 1")
    if name in POSITIVE and value == 0:
        raise ValueError(f"{name}: must be above 0")


def outcome(cluster: Cluster, steps: int) -> Outcome:
    """Of so many steps, after as many as the staleness bound lets the start have an effect on."""
    warm = 2 * (cluster.workload.depth + 1)
    found = cluster.run(warm + steps)[warm:]
    seconds = sum(step.seconds for step in found)
    ages = [age for step in found for age in step.staleness]
    return Outcome(
        cluster.engines * cluster.rates.engine_gpus,
        cluster.trainer_gpus,
        seconds / steps,
        sum(step.tokens for step in found) / seconds,
        sum(step.generator_idle * step.seconds for step in found) / seconds,
        sum(step.trainer_idle * step.seconds for step in found) / seconds,
        fmean(ages),
        max(ages),
    )


def best_split(rates: Rates, workload: Workload, gpus: int, steps: int) -> Outcome:
    """The split with the most tokens a second: nine that are evenly apart, then nine between the best one's neighbours,
    until they are next to each other. ValueError where that many GPUs hold no engine and trainer."""
    step = rates.trainer_gpus_multiple
    splits = [
        (engines, (gpus - engines * rates.engine_gpus) // step * step)
        for engines in range(1, gpus // rates.engine_gpus + 1)
        if gpus - engines * rates.engine_gpus >= step
    ]
    if not splits:
        raise ValueError(f"gpus: {gpus} hold no engine of {rates.engine_gpus} and trainer of {step}")

    @cache
    def tried(place: int) -> Outcome:
        return outcome(Cluster(rates, workload, *splits[place]), steps)

    return tried(_peak(len(splits), lambda place: tried(place).throughput))


def _peak(count: int, height: Callable[[int], float]) -> int:
    """Where a function with one peak is highest, of 0 .. count - 1."""
    low, high = 0, count - 1
    while True:
        places = sorted({low + (high - low) * i // 8 for i in range(9)})
        best = max(range(len(places)), key=lambda i: height(places[i]))
        if high - low <= 8:
            return places[best]
        low, high = places[max(0, best - 1)], places[min(len(places) - 1, best + 1)]


def rates_of_run(records: Sequence[Mapping[str, float]], recipe: Recipe) -> Rates:
    """From a run of one engine and one trainer: what each got done while it was not idle.

    An engine's tokens a second are taken to be the same whatever its batch. Lengths of responses do not vary here,
    weights take no time, and the driver and rewards are in the engine's time.
    """
    rollout = recipe.rollout
    made = rollout.prompts_per_step * rollout.generations_per_prompt
    tokens = made * fmean(r["train/response_length"] for r in records)
    generating = fmean(r["perf/step_seconds"] * (1 - r["perf/generator_idle"]) for r in records)
    counted = fmean(r["perf/tokens_per_second"] * r["perf/step_seconds"] for r in records)
    generated = (
        counted - tokens * fmean(r["train/effective_batch"] for r in records) / made
    )  # both are counted
    training = fmean(r["perf/step_seconds"] * (1 - r["perf/trainer_idle"]) for r in records)
    sequences = min(
        recipe.engine.max_sequences, rollout.max_in_flight_prompts * rollout.generations_per_prompt
    )
    return Rates(
        0.0, generating / generated, sequences, 1, tokens / made, 0.0, 1 << 30, tokens / training, 0.0, 1,
        0.0, 0.0, 0.0, 0.0, 1,
    )  # fmt: skip


def compare(path: Path, recipe: Recipe) -> list[tuple[str, float, float]]:
    """Name, simulated, real, of every second step of a run. `recipe`: of a run without checkpoints.

    ValueError where it has under 20 steps, CheckpointError where its checkpoint cannot be read."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    records = [line["metrics"] for line in lines if "perf/step_seconds" in line.get("metrics", {})]
    if len(records) < 20:
        raise ValueError(f"{path}: {len(records)} steps, needs 20")
    if checkpoint := newest_checkpoint(path.parent / "checkpoints"):
        recipe = checkpoint.recipe
    workload = workload_of(recipe)
    given, held = halves(records, lcm(workload.push_every, recipe.eval.every_steps))
    steps = Cluster(rates_of_run(given, recipe), workload, 1, 1).run(len(records))
    found = steps[2:]  # all: lengths that do not vary can make every second step a short one
    names = ("seconds", "generator_idle", "trainer_idle")
    real = [[r[f"perf/{n}"] for r in held] for n in ("step_seconds", *names[1:])]
    return [(name, _mean_of(found, name), fmean(values)) for name, values in zip(names, real, strict=True)]


def halves(records: Sequence[Any], every: int) -> tuple[list[Any], list[Any]]:
    """Every second record, from the third on (two steps fill the pipeline), and those between.

    They change places at each multiple of `every`, after which evaluations and waits for a block come again: these
    would lie in the same half otherwise, as an even number of steps is between them.
    """
    found: tuple[list[Any], list[Any]] = [], []
    for place, record in enumerate(records[2:], start=2):
        found[(place % every + place // every) % 2].append(record)
    return found


def _mean_of(steps: Sequence[Step], name: str) -> float:
    return fmean(getattr(step, name) for step in steps)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("recipe", help="a YAML file, or the name of a committed recipe")
    parser.add_argument("--rates", type=Path, help="YAML or JSON")
    parser.add_argument("--rate", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--gpus", type=int, nargs="+", default=[8, 16, 32, 64, 128, 256, 512, 1024])
    parser.add_argument(
        "--steps", type=int, default=10, help="that count, after those that fill the pipeline"
    )
    parser.add_argument("--check", type=Path, metavar="METRICS_JSONL")
    options = parser.parse_args(arguments)
    try:
        recipe = load_recipe(options.recipe)
        if options.check:
            for name, simulated, real in compare(options.check, recipe):
                print(
                    f"{name}: simulated {simulated:.3f}, run {real:.3f}, difference {simulated - real:+.3f}"
                )
            return
        given = {name: float(value) for name, _, value in (each.partition("=") for each in options.rate)}
        data = yaml.safe_load(options.rates.read_text()) if options.rates else {}
        rates, sources = read_rates(data, given)
        show(rates, sources, [best_split(rates, workload_of(recipe), n, options.steps) for n in options.gpus])
    except (ValueError, OSError, CheckpointError) as error:
        parser.error(str(error))


def show(rates: Rates, sources: Mapping[str, str], found: Sequence[Outcome]) -> None:
    """The rates with their sources, then a row for each number of GPUs."""
    print("simulated, not measured; rates:")
    for name, source in sources.items():
        print(f"  {name} = {getattr(rates, name):g} ({source})")
    print("generator + trainer GPUs | s/step | tokens/s | idle generator, trainer | staleness mean, max")
    for o in found:
        print(
            f"{o.generator_gpus} + {o.trainer_gpus} | {o.seconds:.2f} | {o.throughput:,.0f} |"
            f" {o.generator_idle:.2f}, {o.trainer_idle:.2f} | {o.staleness_mean:.2f}, {o.staleness_max}"
        )


if __name__ == "__main__":
    main()
