from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from training.checkpoints import Checkpoint, CheckpointError
from training.driver.snapshot import SAMPLES, RunState, Work, from_checkpoint, to_files
from training.driver.staleness import BufferState, Ticket
from training.driver.stepmetrics import Usage
from training.recipe import Recipe
from training.rollouts import Draft, Group, Sample
from training.tasks import Prompt

PROMPTS = {name: Prompt(name, f"{name}=", name) for name in ("a", "b", "c")}


def sample(*tokens: int, **more: object) -> Sample:
    logp = [float(np.float32(-0.1 * token)) for token in tokens]
    return Sample(
        [7, 8], list(tokens), logp, [t % 5 != 0 for t in tokens], versions=[3] * len(tokens), **more
    )


def a_state() -> RunState:
    """One finished group, one with a part of its tokens, one of which nothing is known."""
    done = Group(
        PROMPTS["a"],
        [
            sample(1, 2, finished=True, reward=1.0, correct=True),
            sample(5, interrupted=True, reward=-1.0, failure="timed out after 5 s"),
        ],
    )
    partial = Work(Ticket(9, 4), Draft(PROMPTS["b"], [sample(3, 4, 5), sample()], "train/9/2", 0.5), round=2)
    unknown = Work(Ticket(10, 4), Draft(PROMPTS["c"], [sample()], "train/10/0"))
    return RunState(
        usage=Usage(0.25, 1e15, 1234),
        sampler={"queue": ["c"], "epoch": 1},
        buffer=BufferState(4, 4, finished=[(Ticket(8, 3), done)], running=[partial.ticket, unknown.ticket]),
        works=[partial, unknown],
        pass_rate=0.5,
        evaluated_step=4,
        num_refills=3,
    )


def written(folder: Path, state: RunState, recipe: Recipe) -> Checkpoint:
    import json

    files = to_files(state, recipe)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return Checkpoint(folder, state.buffer.trainer_version, json.loads(files["driver.json"]))


def test_state_comes_back(toy_recipe: Recipe, tmp_path: Path) -> None:
    state = a_state()

    assert from_checkpoint(written(tmp_path, state, toy_recipe), PROMPTS.__getitem__) == state


def test_empty_state_comes_back(toy_recipe: Recipe, tmp_path: Path) -> None:
    state = RunState(Usage(), {}, BufferState(finished=[], running=[]), works=[])

    assert from_checkpoint(written(tmp_path, state, toy_recipe), PROMPTS.__getitem__) == state


def test_arrays_that_end_early_are_a_damaged_file(toy_recipe: Recipe, tmp_path: Path) -> None:
    checkpoint = written(tmp_path, a_state(), toy_recipe)
    shorter = to_files(replace(a_state(), works=a_state().works[1:]), toy_recipe)
    (tmp_path / SAMPLES).write_bytes(shorter[SAMPLES])

    with pytest.raises(CheckpointError, match=r"samples.npz is damaged \(ValueError: \w+ ends early\)"):
        from_checkpoint(checkpoint, PROMPTS.__getitem__)


def test_driver_file_without_a_part_is_damaged(toy_recipe: Recipe, tmp_path: Path) -> None:
    checkpoint = written(tmp_path, a_state(), toy_recipe)
    del checkpoint.driver["evaluated_step"]

    with pytest.raises(CheckpointError, match=r"driver.json is damaged \(KeyError: 'evaluated_step'\)"):
        from_checkpoint(checkpoint, PROMPTS.__getitem__)


def test_nothing_is_pickled(toy_recipe: Recipe, tmp_path: Path) -> None:
    written(tmp_path, a_state(), toy_recipe)

    archive = np.load(tmp_path / SAMPLES, allow_pickle=False)
    assert {archive[name].dtype.kind for name in archive.files} == {"i", "f", "b"}
