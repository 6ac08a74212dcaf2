"""Mathematics and code together: real data files, chat template, Math-Verify and the sandbox in one run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import Qwen2Config, Qwen2ForCausalLM

from tests.training.driver.test_controller import Setup
from training.recipe import Recipe, apply_overrides, check_runnable, load_recipe

TEMPLATE = (
    "{% for m in messages %}<user>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<think>{% endif %}"
)
MATH = [{"prompt": f"What is {i} + 1?", "answer": i + 1} for i in range(24)]
CODE = [
    {
        "prompt": f"Write f(x) that adds {i}.",
        "answer": {"kind": "functional", "fn_name": "f", "inputs": [[1]], "outputs": [1 + i]},
    }
    for i in range(24)
]


@pytest.fixture(scope="module")
def byte_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untaught model that reads and writes bytes; its tokenizer has a chat template and no pad token."""
    folder = tmp_path_factory.mktemp("home") / "models" / "bytes"
    folder.mkdir(parents=True)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(["<eos>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<eos>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"eos_token": "<eos>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    config = Qwen2Config(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        max_position_embeddings=1024,
        eos_token_id=0,
        bos_token_id=None,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)  # type: ignore[arg-type]
    return folder


def recipe_of(byte_model: Path, tmp_path: Path) -> Recipe:
    parts = []
    for name, rows in (("math", MATH), ("code", CODE)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        parts.append({"task": name, "options": {"path": str(path), "held_out_share": 0.25}})
    return apply_overrides(
        load_recipe("scalerl-math-code"),
        {
            "task.options": {"parts": parts},
            "model": str(byte_model),
            "engine.type": "transformers",
            "resources": {},
            "rollout.max_prompt_tokens": 512,
            "rollout.max_thinking_tokens": 24,
            "rollout.max_answer_tokens": 8,
            "rollout.prompts_per_step": 4,
            "rollout.generations_per_prompt": 2,
            "length": {"interrupt_low": 8, "interrupt_high": 12, "phrase": "</think>"},
            "filter.zero_variance": "keep",
            "budget.max_steps": 2,
            "eval": {"every_steps": 2, "prompts": 8, "k": 2},
        },
    )


@pytest.mark.deep
def test_math_and_code_run_has_a_curve_for_each(byte_model: Path, tmp_path: Path) -> None:
    recipe = recipe_of(byte_model, tmp_path)
    check_runnable(recipe)
    setup = Setup(recipe, tmp_path / "run")

    outcome = setup.run()

    assert (outcome.state, outcome.step) == ("succeeded", 2)
    for metric in ("eval/pass_rate", "eval/math/pass_rate", "eval/code/pass_rate"):
        assert list(setup.reporter.series(metric)) == [0, 2]
    assert set(setup.reporter.series("eval/code/n_prompts").values()) == {4}
    assert set(setup.reporter.series("train/verifier_failure_rate").values()) == {0}
    assert set(setup.reporter.series("eval/verifier_failure_rate").values()) == {0}
    assert max(setup.reporter.series("train/interruption_rate").values()) > 0.5


@pytest.mark.ray
@pytest.mark.deep
@pytest.mark.timeout(240)
def test_reward_workers_judge_a_run_of_the_command(byte_model: Path, tmp_path: Path) -> None:
    recipe = apply_overrides(recipe_of(byte_model, tmp_path), {"resources.reward_workers": 2})
    file, run_dir = tmp_path / "recipe.yaml", tmp_path / "run"
    file.write_text(yaml.safe_dump(recipe.model_dump(mode="json")))
    command = [sys.executable, "-m", "training", "run", str(file), "--run-dir", str(run_dir)]

    done = subprocess.run(command, capture_output=True, text=True, timeout=200)

    assert done.returncode == 0, done.stderr + done.stdout
    assert "2 reward workers on " in done.stderr + done.stdout
    records = [json.loads(line)["metrics"] for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    rates = [record["train/verifier_failure_rate"] for record in records if "train/reward" in record]
    assert rates == [0, 0]
