"""The example project of a made corpus: its size, the seconds until it is imported and fitted, the database's growth.

    .venv/bin/python -m benchmarks.bench_example [--runs 250] [--home FOLDER]

The corpus is simulated, as large as that of real runs: 10 arms a study, 41 evaluations of 28 metrics, 12 of which never
change, and 45 diagnostics.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.home import bare_home
from training.study.corpus import POINTS, RUNS, CorpusRun, point_table, write_corpus
from training.study.file import load_study
from training.study.plan import PlannedRun, plan

GOAL_SECONDS, GOAL_MEGABYTES, GOAL_CORPUS_MEGABYTES = 60.0, 100.0, 20.0
BEGAN = "2026-01-01T00:00:00+00:00"
LEVELS = [f"eval/level_{level}" for level in range(1, 11)]
CHANGING = (
    "eval/pass_rate",
    *(f"{level}/pass_rate" for level in LEVELS),
    *(f"eval/other_{n}" for n in range(5)),
)
CONSTANT = ("eval/k", "eval/n_prompts", *(f"{level}/n_prompts" for level in LEVELS))
DIAGNOSTICS = tuple(f"train/diagnostic_{number}" for number in range(45))
STUDY = """\
title: Made runs
studies:
{studies}"""
ONE_STUDY = """\
  - name: study-{number}
    question: Does the learning rate matter, made for the {number}th time?
    recipe: tiny/scalerl
    settings: {{optimizer.warmup_steps: {number}}}
    arms:
      base: {{}}
{arms}    baseline: base
    seeds: {seeds}
    budget: {{steps: 320}}
    axis: tokens
    judgement: {{measure: ceiling, margin: 0.02, yes: It does., no: It does not., undecided: Nobody knows.}}
"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=250)
    parser.add_argument("--home", type=Path, help="folder that keeps the data (default: a temporary one)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="headroom-corpus-") as folder:
        make_corpus(Path(folder), options.runs)
        size = sum((Path(folder) / name).stat().st_size for name in (RUNS, POINTS)) / 1e6
        print(f"corpus of {options.runs} runs: {size:.1f} MB; {size / GOAL_CORPUS_MEGABYTES:.2f} of the goal")
        os.environ["HEADROOM_EXAMPLE"] = folder
        with bare_home(options.home):
            measure()


def measure() -> None:
    from django.db import connection

    from webapp.interfaces.imports.example import bring_example
    from webapp.record.runs.models import Point, Run

    def megabytes() -> float:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_database_size(current_database())")
            return cursor.fetchone()[0] / 1e6

    before, began = megabytes(), time.perf_counter()
    assert bring_example()
    seconds, grown = time.perf_counter() - began, megabytes() - before
    points, runs = Point.objects.count(), Run.objects.count()
    print(f"{runs} runs, {points:,} points stored and fitted")
    print(f"{seconds:.1f} s; {seconds / GOAL_SECONDS:.2f} of the goal of {GOAL_SECONDS:.0f} s")
    print(f"{grown:.1f} MB of database; {grown / GOAL_MEGABYTES:.2f} of the goal of {GOAL_MEGABYTES:.0f} MB")


def make_corpus(folder: Path, runs: int, *, arms: int = 10, steps: int = 320) -> None:
    """A corpus of about so many simulated runs in `folder`."""
    file = folder / "study.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    seeds = list(range(min(5, -(-runs // arms))))
    lines = "".join(f"      lr-{arm}: {{optimizer.lr: {arm}.5e-5}}\n" for arm in range(1, arms))
    studies = [
        ONE_STUDY.format(number=n, arms=lines, seeds=seeds) for n in range(-(-runs // (arms * len(seeds))))
    ]
    file.write_text(STUDY.format(studies="".join(studies)))
    planned = plan(load_study(file))[:runs]
    random = np.random.default_rng(0)
    tables = [point_table(run.id, list(_rows(run, random, steps))) for run in planned]
    write_corpus(folder, [_corpus_run(run) for run in planned], tables, file.read_bytes())


def _corpus_run(run: PlannedRun) -> CorpusRun:
    recipe = run.recipe
    return CorpusRun(
        id=run.id, places=run.places, recipe=recipe.name, content_hash=run.content_hash, task=recipe.task.name,
        model=recipe.model, seed=recipe.seed, steps=run.steps, state="succeeded", reason="", failed_tries=0,
        began=BEGAN, wall_seconds=200.0, cpu_free_share=0.9, config=recipe.model_dump(mode="json"),
        versions={"python": "3.11"}, machine={"cores": 2, "processor": "made"},
    )  # fmt: skip


def _rows(run: PlannedRun, random: np.random.Generator, steps: int) -> Iterator[tuple[Any, ...]]:
    """Points along Eq. 1 with the noise of 512 prompts, in the order of training."""
    ceiling = 0.5 + 0.03 * (run.recipe.optimizer.lr / 1e-5)
    every, kept = steps // 40, steps // 60
    for step in range(steps + 1):
        spent = (float(step), step / 1e4, step * 1e12, step * 4e3)
        if step % max(kept, 1) == 0 and step:
            for metric in DIAGNOSTICS:
                yield metric, step, *spent, float(random.normal()), None
        if step % max(every, 1) == 0:
            gain = (ceiling - 0.1) / (1 + (steps / 5 / step) ** 1.5) if step else 0.0
            for metric in CONSTANT:
                yield metric, step, *spent, 512.0, None
            for metric in CHANGING:
                yield metric, step, *spent, float(np.clip(0.1 + gain + random.normal(0, 0.01), 0, 1)), 0.01


if __name__ == "__main__":
    main()
