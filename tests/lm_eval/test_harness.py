"""The real lm-evaluation-harness on a tiny model, with a task and data of one's own (`make lm-eval`)."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from training.__main__ import main
from training.pretrain import Lessons, new_model, save

pytest.importorskip("lm_eval", reason="`make lm-eval` makes its environment")
NUM_PROMPTS = 500
SUMS = """
task: sums
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["<"], do_sample: false}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
metadata: {{version: 1.0}}
"""
CHOICE = """
task: larger
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{gold}}}}"
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
metadata: {{version: 2.0}}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model that was taught nothing, and 500 problems whose right choice is the one that it finds likelier half of
    the time."""
    torch.manual_seed(0)
    lessons = Lessons(hidden=32, layers=1, heads=1, mlp=32, context=96)
    save(new_model(lessons), lessons, tmp_path / "models" / "toy")
    (tmp_path / "data" / "lm_eval").mkdir(parents=True)
    rows = [
        {"question": f"{n}+1=", "answer": str(n + 1), "choices": ["12", "77"], "gold": n % 2}
        for n in range(NUM_PROMPTS)
    ]
    file = tmp_path / "data" / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, text in (("sums", SUMS), ("larger", CHOICE)):
        (tmp_path / "data" / "lm_eval" / f"{name}.yaml").write_text(text.format(file=file))
    monkeypatch.setenv("HEADROOM_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    return tmp_path


def evaluated(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    status = main(["evaluate", "toy", *arguments, "--json"])
    out, err = capsys.readouterr()
    assert status == 0, err
    return json.loads(out)


def test_500_prompts_are_generated_and_judged(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    found = evaluated(capsys, "--task", "lm_eval/sums")

    print(f"500 prompts: {time.monotonic() - began:.1f} s")
    assert (found["metric"], found["n_prompts"], found["engine"]) == (
        "exact_match",
        NUM_PROMPTS,
        "transformers",
    )
    assert found["pass_rate"] < 0.1 and found["lm_eval"] == "0.4.13"


def test_choices_are_compared_by_likelihood(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = evaluated(capsys, "--task", "lm_eval/larger", "--limit", "100", "--option", "num_fewshot=0")

    assert (found["metric"], found["n_prompts"], found["version"]) == ("acc", 100, 2.0)
    assert 0.3 < found["pass_rate"] < 0.7 and found["pass_rate_stderr"] == pytest.approx(0.05, abs=0.01)
    assert "acc_norm,none" in found["metrics"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--task", "lm_eval/nothing"), "has no task named 'nothing'"),
        (("--task", "lm_eval/arc_easy"), "offline, its data must be in the cache of HF_HOME"),
        (("--task", "lm_eval/sums", "--k", "4"), "--k is for benchmarks of our own"),
    ],
)
def test_what_is_missing_is_said(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert main(["evaluate", "toy", *arguments]) == 1
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_a_package_that_is_missing_is_no_missing_data(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(**given: Any) -> None:
        raise ImportError("No package metadata was found for vllm")

    monkeypatch.setattr("lm_eval.simple_evaluate", without)
    assert main(["evaluate", "toy", "--task", "lm_eval/sums"]) == 1
    assert (
        capsys.readouterr()
        .err.splitlines()[-1]
        .endswith("lm_eval/sums: No package metadata was found for vllm")
    )
