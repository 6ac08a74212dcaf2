"""Samples: what keeping them costs a step, and how fast their page answers in a store of many runs.

    .venv/bin/python -m benchmarks.bench_samples [--runs 1000] [--files 12] [--distinct 20] [--home DIR] [--repeats 30]

The cost: CPU seconds of the thread that decodes and writes, plus the time that the driver's loop stands still, of the
files that 100 steps of the recipe make, over the seconds of 100 steps. Of `tiny/scalerl` steps are timed in the same
process; of `scalerl` (48 x 16 responses of 12,000 tokens) a step is taken for a minute.
The pages: every run has its rows in the index and its files, of 128 responses of 12,000 characters. So many distinct
runs have files of their own, the others hard links to those: with `--runs 10000 --files 12 --distinct 800` the store
has 53 GB by the names of its files and 4.3 GB on the disk. Goals at the 95th percentile over HTTP: a page of samples
150 ms, a prompt's history 200 ms. Each question is of another run, up to as many as there are.
"""

import argparse
import asyncio
import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_driver import VOCABULARY, Reporter, recipe_of, write_model
from benchmarks.bench_pages import Question, in_process, over_http, show, web_server
from benchmarks.home import PROJECT, USER, bare_home

GOAL, PAPER_STEP_SECONDS = 0.01, 60.0
PROMPTS, RESPONSES, CHARACTERS = 8, 16, 12_000
STRIDE = 7919  # of runs that are asked for one after the other


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--files", type=int, default=12, help="of each run (12)")
    parser.add_argument("--distinct", type=int, default=20, help="runs with files of their own (20)")
    parser.add_argument("--home", type=Path, help="folder that keeps the data (default: a temporary one)")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--only", choices=("cost", "pages"))
    options = parser.parse_args(arguments)
    if options.only != "pages":
        cost()
    if options.only != "cost":
        pages(options)


# -- what keeping them costs ---------------------------------------------------------------------------------


def cost() -> None:
    with tempfile.TemporaryDirectory(prefix="headroom-samples-") as folder:
        write_model(Path(folder))
        recipe = recipe_of(Path(folder), 1)
        report("scalerl", recipe, Path(folder), tokens=12_000, vocabulary=VOCABULARY, step=PAPER_STEP_SECONDS)
    with tempfile.TemporaryDirectory(prefix="headroom-samples-") as folder:
        tiny, step = tiny_steps(Path(folder))
        report("tiny/scalerl", tiny, Path(folder) / "model", tokens=48, vocabulary=14, step=step)


def report(name: str, recipe: Any, model: Path, *, tokens: int, vocabulary: int, step: float) -> None:
    """Of 100 steps: the writer's CPU seconds and the loop's, over those of the steps."""
    from training.codec import Codec
    from training.driver.samples import SampleKeeper
    from training.schema import Evaluation
    from training.trainer.batching import BySample

    rollout, evaluation = recipe.rollout, Evaluation() if name == "scalerl" else recipe.eval
    batch = groups_of(rollout.prompts_per_step, rollout.generations_per_prompt, tokens, vocabulary)
    held_out = groups_of(64, evaluation.k, tokens, vocabulary)
    zeros = np.zeros(rollout.prompts_per_step * rollout.generations_per_prompt, np.float32)
    num_batches, num_evaluations = 100 // recipe.samples.every_steps, max(1, 100 // evaluation.every_steps)

    async def run() -> tuple[float, float]:
        keeper, held = SampleKeeper(recipe, Codec(model), Reporter(), model / "samples"), 0.0  # type: ignore[arg-type]
        keeper._writer.submit(time.sleep, 0).result()
        before = keeper._writer.submit(time.thread_time).result()
        for place in range(num_batches + num_evaluations):
            number = recipe.samples.every_steps * (place + 1)
            began = time.perf_counter()
            if place < num_batches:
                keeper.trained(batch, number, BySample(zeros, zeros))
            else:
                keeper.evaluated(held_out, number, {})
            held += time.perf_counter() - began
            keeper._writer.submit(time.sleep, 0).result()  # one file after the other, as steps are apart
        cpu = keeper._writer.submit(time.thread_time).result() - before
        await keeper.close(10)
        return cpu, held

    cpu, held = asyncio.run(run())
    size = sum(path.stat().st_size for path in (model / "samples").glob("*.parquet"))
    share = (cpu + held) / (100 * step)
    print(
        f"{name}: {num_batches} batches and {num_evaluations} evaluations of 100 steps of {step:.2f} s: "
        f"{cpu:.3f} s of CPU beside the steps, {1000 * held:.2f} ms on their path, {size / 1e6:.2f} MB; "
        f"{share:.3%} of a step (goal {GOAL:.0%}): {'reached' if share < GOAL else 'missed'}"
    )


def groups_of(prompts: int, responses: int, tokens: int, vocabulary: int) -> list[Any]:
    from training.rollouts import Completion, Group, Sample
    from training.tasks import Prompt

    draw, groups = random.Random(0), []
    for number in range(prompts):
        samples = []
        for _ in range(responses):
            sample = Sample([4] * 100 if tokens > 100 else [4] * 10)
            made = draw.choices(range(3, vocabulary), k=tokens)
            sample.add(Completion(made, [-1.0] * tokens, True, [1] * tokens))
            samples.append(sample)
        groups.append(Group(Prompt(str(number), f"prompt {number}", "4"), samples))
    return groups


def tiny_steps(folder: Path) -> tuple[Any, float]:
    """(the recipe, seconds of a step of it in this process, median of twelve)."""
    import torch

    from tests.training.driver.test_controller import Setup, change
    from training.lessons import Lessons
    from training.pretrain import new_model, save
    from training.recipe import load_recipe

    torch.manual_seed(0)
    lessons = Lessons()
    save(new_model(lessons), lessons, folder / "model")
    recipe = change(load_recipe("tiny/scalerl"), model=str(folder / "model"), budget__device_hours=10.0)
    short = change(recipe, budget__max_steps=12, eval__every_steps=100, eval__prompts=4, samples__groups=0)
    setup = Setup(short, folder / "run")
    asyncio.run(setup.controller.run())
    return recipe, statistics.median(setup.reporter.series("perf/step_seconds").values())


# -- how fast they are read ----------------------------------------------------------------------------------


def pages(options: argparse.Namespace) -> None:
    with bare_home(options.home) as folder:
        ids = make_store(options.runs, options.files, options.distinct)
        print(words_on_store(folder, len(ids)))
        another = lambda i: ids[(STRIDE * i) % len(ids)]
        last = max(1, options.files - 1)
        of_prompt = lambda i: f"/runs/{another(i)}/samples?prompt=p{i % PROMPTS}"
        asked = [
            Question(
                "a page of samples", lambda i: f"/runs/{another(i)}/samples?step={10 * (i % last)}", 150
            ),
            Question(
                "filtered by flags", lambda i: f"/runs/{another(i)}/samples?flag=correct&tokens_min=100", 150
            ),
            Question("filtered by a text", lambda i: f"/runs/{another(i)}/samples?q=word7"),
            Question("a prompt's history", of_prompt, 200),
            Question("list of runs, beside them", lambda i: "/runs"),
            Question("side by side", lambda i: f"{of_prompt(i)}&against=0"),
        ]
        inside = {question.name: in_process(question, options.repeats) for question in asked}
        with web_server(folder) as url:
            outside = {question.name: over_http(question, url, options.repeats) for question in asked}
        show(asked, inside, outside)


def make_store(runs: int, files: int, distinct: int) -> list[str]:
    """Ids of the runs; made once in a folder."""
    from django.contrib.auth import get_user_model

    from webapp.identity.accounts.models import Project, Role
    from webapp.identity.accounts.services import create_project, set_role
    from webapp.record.runs.models import Attempt, Run

    project = Project.objects.filter(slug=PROJECT).first() or create_project(slug=PROJECT, name="Made")
    set_role(project, get_user_model().objects.get(username=USER), Role.ADMIN)
    known = list(Run.objects.filter(project=project).order_by("pk").values_list("pk", flat=True))
    if known:
        return known
    made = Run.objects.bulk_create(
        [
            Run(project=project, origin="tracked", name=f"run {n}", task="math", model="8b", state="running")
            for n in range(runs)
        ],
        batch_size=1000,
    )
    attempts = [Attempt(run=run, number=1, submission_id=run.pk, state="running") for run in made]
    Attempt.objects.bulk_create(attempts, batch_size=1000)
    ids = sorted(run.pk for run in made)
    fill_store(ids, range(0, 10 * files, 10), distinct)
    return ids


def fill_store(ids: Sequence[str], steps: Sequence[int], distinct: int) -> None:
    """Files of the steps, written once, copied for each distinct run and linked for the others; and the index."""
    from training import samples
    from webapp.record.samples.models import SampleFile
    from webapp.record.samples.store import path_of

    prepared = samples.prepare(responses())
    index = samples.by_prompt(prepared.rows)
    first = path_of(ids[0], "eval", steps[0])
    samples.write(first.parent, "eval", steps[0], prepared.rows)
    for number, run_id in enumerate(ids):
        for step in steps:
            path = path_of(run_id, "eval", step)
            path.parent.mkdir(parents=True, exist_ok=True)
            if number >= distinct:
                path.hardlink_to(path_of(ids[number % distinct], "eval", step))
            elif path != first:
                shutil.copyfile(first, path)
    described = {"kind": "eval", "attempt": 1, "rows": len(prepared.rows), "size": first.stat().st_size}
    for run_id in ids:
        SampleFile.objects.bulk_create(
            SampleFile(run_id=run_id, step=step, prompts=index, **described) for step in steps
        )


def words_on_store(folder: Path, runs: int) -> str:
    """What it has, by the names of files and on the disk."""
    from django.db import connection

    found = [path.stat() for path in (folder / "runs").glob("*/samples/*.parquet")]
    on_disk = {one.st_ino: one.st_size for one in found}
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_total_relation_size('samples_samplefile')")
        (index,) = cursor.fetchone()
    return (
        f"{runs:,} runs, {len(found):,} samples of steps: {sum(one.st_size for one in found) / 1e9:.2f} GB by their "
        f"names, {sum(on_disk.values()) / 1e9:.2f} GB on the disk, {index / 1e6:.0f} MB of index"
    )


def responses() -> list[dict[str, Any]]:
    draw = random.Random(0)
    words = [f"word{number}" for number in range(500)]
    found = []
    for place in range(PROMPTS * RESPONSES):
        text = " ".join(draw.choices(words, k=CHARACTERS // 7))
        found.append(
            {
                "prompt_id": f"p{place // RESPONSES}", "prompt": f"Problem {place // RESPONSES}. " * 20,
                "response": f"<think>{text}</think>So it is \\boxed{{{place}}}.", "answer": "7", "tokens": 3000,
                "reward": draw.choice([1.0, -1.0]), "correct": draw.random() < 0.5, "judged": True,
                "difficulty": draw.random(), "truncated": False, "interrupted": False, "forced": 0,
            }
        )  # fmt: skip
    return json.loads(json.dumps(found))


if __name__ == "__main__":
    main()
