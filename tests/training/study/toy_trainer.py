"""`python -m training`, without learning: the same words, journal, summary, signals and resuming, a step a moment.

Seeds say how a run goes: 13 fails always, 14 fails at its first try, 15 hangs; 16 loses its cluster once, 17 always.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import headroom
from training.errors import EXIT_TEMPORARY
from training.recipe import content_hash, load_recipe

SECONDS_A_STEP = float(os.environ.get("TOY_SECONDS_A_STEP", "0"))
stopping: list[int] = []


def main(words: list[str]) -> int:
    if words[0] == "pretrain":
        folder = Path(os.environ["HEADROOM_HOME"]) / "models" / words[1]
        folder.mkdir(parents=True)
        (folder / "COMPLETE.json").write_text("{}")
        print(f"made: {folder}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
    return run(words[1], Path(words[3]), resume="--resume" in words)


def run(recipe_file: str, folder: Path, *, resume: bool) -> int:
    recipe = load_recipe(recipe_file)
    budget = recipe.budget.max_steps
    assert budget is not None
    checkpoint = folder / "checkpoint.json"
    known = json.loads(checkpoint.read_text()) if resume and checkpoint.exists() else None
    journal = headroom.init(journal=folder / "metrics.jsonl", resumed_from_step=known, restarted=resume)
    for step in range(0 if known is None else known + 1, budget + 1):
        report(journal, step, recipe.seed)
        if step == 4:
            misbehave(recipe.seed, folder)
        if step % 3 == 0:
            checkpoint.write_text(json.dumps(step))
        if stopping:
            return end(folder, recipe, journal, "cancelled", step)
        time.sleep(SECONDS_A_STEP)
    return end(folder, recipe, journal, "succeeded", budget)


def report(journal: Any, step: int, seed: int) -> None:
    compute = {"device_hours": step / 100, "flops": step * 1e9, "tokens": step * 100.0}
    journal.log({"train/reward": step / 10, "train/lr": 0.1}, step=step, compute=compute)
    rates = {"eval/pass_rate": step / (step + 10 + seed), "eval/pass_rate_stderr": 0.01}
    journal.log(rates, step=step, compute=compute)


def misbehave(seed: int, folder: Path) -> None:
    first = not folder.with_name(f"{folder.name}.failed-1").exists()
    if seed == 13 or (seed == 14 and first):
        print("error: the toy broke", file=sys.stderr, flush=True)
        os._exit(1)
    if seed == 15:
        time.sleep(600)
    lost = folder / "lost"
    if seed == 17 or (seed == 16 and not lost.exists()):
        lost.touch()
        print("error: the Ray cluster is lost", file=sys.stderr, flush=True)
        os._exit(EXIT_TEMPORARY)


def end(folder: Path, recipe: Any, journal: Any, state: str, step: int) -> int:
    (folder / "checkpoint.json").write_text(json.dumps(step))
    summary = {"state": state, "content_hash": content_hash(recipe), "step": step}
    (folder / "summary.json").write_text(json.dumps(summary))
    journal.finish(state)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
