"""The callback with the real GRPOTrainer of TRL, and verl's real Tracking with our logger.

Neither is a dependency of ours; the client's own tests call both as these do.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from headroom.adapters import verl
from headroom.adapters.transformers import HeadroomCallback
from tests.headroom.fake_server import FakeServer

datasets = pytest.importorskip("datasets", reason="TRL is not installed: make parity")
trl = pytest.importorskip("trl", reason="TRL is not installed: make parity")

LETTERS = "ab+= "


@pytest.fixture
def server():
    fake = FakeServer()
    yield fake
    fake.stop()


def tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {token: number for number, token in enumerate(["<pad>", "<eos>", *LETTERS])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>")


def has_an_a(completions: list[str], **_: Any) -> list[float]:
    return [1.0 if "a" in text else 0.0 for text in completions]


def train(folder: Path, callback: HeadroomCallback, *, steps: int, resume: bool = False) -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=2 + len(LETTERS), pad_token_id=0, eos_token_id=1, **sizes)
    )
    rows = datasets.Dataset.from_list([{"prompt": "a+b="} for _ in range(8)])
    config = trl.GRPOConfig(
        output_dir=str(folder / "out"), max_steps=steps, logging_steps=1, eval_strategy="steps", eval_steps=2,
        save_steps=2, per_device_train_batch_size=4, per_device_eval_batch_size=4, num_generations=4,
        max_completion_length=4, use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[],
        disable_tqdm=True, dataloader_pin_memory=False,
    )  # fmt: skip
    trainer = trl.GRPOTrainer(
        model, has_an_a, config, train_dataset=rows, eval_dataset=rows.select(range(4)),
        processing_class=tokenizer(), callbacks=[callback],
    )  # fmt: skip
    trainer.train(resume_from_checkpoint=resume)


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out" / "headroom.jsonl").read_text().splitlines()]


def test_a_grpo_training_reports_and_goes_on_after_a_resume(server: FakeServer, tmp_path: Path) -> None:
    settings = {
        "url": server.url,
        "token": "hr_test",
        "task": "letters",
        "pass_rate": "eval_rewards/has_an_a/mean",
    }

    train(tmp_path, HeadroomCallback(**settings), steps=4)
    count = len(records(tmp_path))
    train(tmp_path, HeadroomCallback(**settings), steps=6, resume=True)

    (made,) = [body for path, body in server.notices if path == "runs"]
    assert (made["name"], made["task"]) == ("out", "letters") and made["config"]["trainer"]["max_steps"] == 4
    starts = [
        (body["attempt"], body["resumed_from_step"]) for what, body in server.notices if what == "start"
    ]
    assert starts == [(1, None), (2, 4)]
    stored = list(server.records.values())
    assert len(stored) == len(records(tmp_path)) > count
    rewards = [(r["attempt"], r["step"]) for r in stored if "train/reward" in r["metrics"]]
    assert rewards == [(1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6)]
    first = next(r for r in stored if "train/reward" in r["metrics"])
    assert {"train/entropy", "train/truncation_rate", "train/response_length", "train/grad_norm"} <= set(
        first["metrics"]
    )
    rates = [(r["step"], r["metrics"]["eval/pass_rate"]) for r in stored if "eval/pass_rate" in r["metrics"]]
    assert [step for step, _ in rates] == [2, 4, 6] and all(0 <= rate <= 1 for _, rate in rates)
    assert {r["metrics"]["eval/n_prompts"] for r in stored if "eval/pass_rate" in r["metrics"]} == {4}
    for axis in ("device_hours", "tokens"):
        used = [r["compute"][axis] for r in stored]
        assert used == sorted(used) and used[count] >= used[count - 1] > 0


def test_verls_tracking_takes_our_logger(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from verl.utils.tracking import Tracking

    monkeypatch.setenv("HEADROOM_URL", server.url)
    monkeypatch.setenv("HEADROOM_TOKEN", "hr_test")
    monkeypatch.chdir(tmp_path)
    verl.register()
    verl.register()

    tracking = Tracking("gsm8k", "grpo", ["console", "headroom"], config={"trainer": {"n_gpus_per_node": 2}})
    tracking.log({"val-core/gsm8k/acc/mean@1": 0.25}, step=0)
    tracking.log({"actor/entropy": 0.4, "timing_s/step": 36.0}, step=1)
    tracking.finish()

    before, after = server.records.values()
    assert before["metrics"]["eval/pass_rate"] == 0.25
    assert after["metrics"]["train/entropy"] == 0.4 and after["compute"]["device_hours"] == pytest.approx(
        0.02
    )
    assert [body["state"] for what, body in server.notices if what == "finish"] == ["succeeded"]
    Tracking("gsm8k", "other", "console").finish()  # other backends are as they were
