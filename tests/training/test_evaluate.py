"""`python -m training evaluate`: checkpoints and models on benchmarks."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from training.__main__ import main
from training.checkpoints import DRIVER, MARKER, TRAINER
from training.digests import digests_of
from training.driver.snapshot import RunState, to_files
from training.driver.staleness import BufferState
from training.driver.stepmetrics import Usage
from training.engines.transformers_engine import TransformersEngine
from training.evaluate import as_text
from training.recipe import Recipe, apply_overrides
from training.trainer.trainer import Trainer

SUMS = ("--option", "max_digits=1", "--option", "min_digits=1", "--option", "train_prompts=40")
SUMS = (*SUMS, "--option", "held_out_pool=32")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADROOM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def run_dir(toy_recipe: Recipe, schooled_model: Path, tmp_path: Path) -> Path:
    """Of a run whose first checkpoint holds what it started from."""
    recipe = apply_overrides(toy_recipe, {"model": str(schooled_model), "rollout.temperature": 0.5})
    folder = tmp_path / "run" / "checkpoints" / "step-00000007"
    folder.mkdir(parents=True)
    Trainer(recipe.model_dump(mode="json"), str(schooled_model)).save(str(folder / TRAINER))
    state = RunState(Usage(), {}, BufferState(trainer_version=7, generator_version=7))
    for name, content in to_files(state, recipe).items():
        (folder / name).write_bytes(content)
    (folder / MARKER).write_bytes(digests_of(folder))
    (tmp_path / "run" / "driver.json").write_text(json.dumps({"model": str(schooled_model)}))
    return tmp_path / "run"


def evaluated(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["evaluate", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_checkpoint_is_its_model_with_the_lengths_of_its_run(
    run_dir: Path, schooled_model: Path, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    common = ("--task", "arithmetic", "--k", "4", *SUMS)
    of_run = evaluated(capsys, str(run_dir), *common)
    of_checkpoint = evaluated(capsys, str(run_dir / "checkpoints" / "step-00000007"), *common)
    same = ("--set", "rollout.max_thinking_tokens=12", "--set", "rollout.max_answer_tokens=8")
    precision = ("--set", "precision.generator=float32")
    of_model = evaluated(capsys, str(schooled_model), *common, *same, *precision)

    assert of_run | {"seconds": 0} == of_checkpoint | {"seconds": 0}
    assert (of_run["step"], of_run["n_prompts"], of_run["k"]) == (7, 32, 4)
    assert 0 < of_run["pass_rate"] < 1 and 0 < of_run["pass_rate_stderr"] < 0.2
    assert of_run["pass_rate"] == pytest.approx(of_model["pass_rate"], abs=0.15)
    assert of_run["contamination"] == 0  # its run trains on longer sums
    assert (of_model["step"], of_model["contamination"]) == (None, None)
    assert list((home / "models").iterdir()) == []  # what was exported is gone


def test_for_people(schooled_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(schooled_model), "--task", "arithmetic", "--limit", "5", *SUMS]) == 0

    assert "arithmetic: 0." in (line := capsys.readouterr().out.splitlines()[-1])
    assert "5 prompts (limited) x 1; " in line


@pytest.mark.parametrize(
    ("stderr", "said"),
    [(0.0123, "0.79 ± 0.01"), (0.0004, "0.7888 ± 0.0004"), (float("nan"), "0.789"), (None, "0.789;")],
)
def test_people_get_the_digits_that_the_error_supports(stderr: float | None, said: str) -> None:
    result: dict[str, Any] = {
        "task": "math500", "pass_rate": 0.7888, "pass_rate_stderr": stderr, "n_prompts": 500, "k": 1,
        "limit": None, "seconds": 1.0, "truncation_rate": None, "contamination": None,
    }  # fmt: skip

    line = as_text(result)

    assert line.startswith(f"math500: {said}")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda run, base: (run / "checkpoints/step-00000007" / MARKER).unlink(),
            "has no complete checkpoint",
        ),
        (lambda run, base: (run / "checkpoints/step-00000007" / DRIVER).write_text("{"), "driver.json"),
        (lambda run, base: (base / "tokenizer.json").unlink(), "has no tokenizer.json"),
    ],
)
def test_what_cannot_be_measured_is_said(
    run_dir: Path,
    schooled_model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spoil: Any,
    message: str,
) -> None:
    base = tmp_path / "base"
    shutil.copytree(schooled_model, base)
    (run_dir / "driver.json").write_text(json.dumps({"model": str(base)}))
    spoil(run_dir, base)

    assert main(["evaluate", str(run_dir), "--task", "arithmetic"]) == 1
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_an_engine_whose_head_is_less_precise_is_refused(
    schooled_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As at the start of a run: vLLM only warns of it, and is told to be quiet."""

    async def rounded(self: TransformersEngine) -> None:
        raise ValueError("this model's logits are computed in bfloat16 here")

    monkeypatch.setattr(TransformersEngine, "check_head", rounded)
    assert main(["evaluate", str(schooled_model), "--task", "arithmetic", "--limit", "2", *SUMS]) == 1
    assert "precision.head_generator: this model's logits are computed in" in capsys.readouterr().err


def test_a_checkpoint_that_is_not_there_names_those_that_are(
    run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(run_dir / "checkpoints" / "step-00000008"), "--task", "arithmetic"]) == 1
    assert "beside it there are: step-00000007" in capsys.readouterr().err


def test_a_vocabulary_without_words_refuses_a_benchmark_in_words(
    schooled_model: Path, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    (home / "data").mkdir(parents=True)
    (home / "data" / "mine.jsonl").write_text('{"question": "How many?", "answer": "#### 7"}\n')

    assert main(["evaluate", str(schooled_model), "--task", "gsm8k", "--option", "path=mine.jsonl"]) == 1
    said = capsys.readouterr().err
    assert "1 of 1 prompts of the benchmark gsm8k cannot be used: the model's vocabulary cannot spell" in said
