"""TRL's GRPOTrainer on the model and data of benchmarks/letters.py. Runs in TRL's own environment; see bench_step.

    .venv-parity/bin/python -m benchmarks.trl_step MODEL DATA --steps 8 --threads 2 [--loss cispo]

Prints one JSON line a step: seconds, completions, response tokens.
"""

import argparse
import json
import tempfile
import time
from typing import Any

import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from benchmarks.letters import is_right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--completions", type=int, default=512)
    parser.add_argument("--group", type=int, default=16)
    parser.add_argument("--max-tokens", type=int, default=32)
    parser.add_argument("--micro-batch", type=int, default=512, help="completions of one forward pass")
    parser.add_argument("--loss", default="cispo")
    parser.add_argument("--bf16", action="store_true", help="bfloat16 activations, as Headroom's recipes")
    parser.add_argument("--lr", type=float, default=1e-5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    train(options)


def train(options: argparse.Namespace) -> None:
    made = {"tokens": 0}

    def reward(
        completions: list[str], completion_ids: list[list[int]], answer: list[str], **_: Any
    ) -> list[float]:
        made["tokens"] = sum(map(len, completion_ids))
        return [
            1.0 if is_right(text, right) else -1.0 for text, right in zip(completions, answer, strict=True)
        ]

    class Clock(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.began = time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            seconds = time.perf_counter() - self.began
            line = {"seconds": seconds, "completions": options.completions, "tokens": made["tokens"]}
            print(json.dumps(line), flush=True)

    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder,
            max_steps=options.steps,
            per_device_train_batch_size=options.micro_batch,
            gradient_accumulation_steps=options.completions // options.micro_batch,
            generation_batch_size=options.completions,
            num_generations=options.group,
            max_completion_length=options.max_tokens,
            loss_type=options.loss,
            epsilon_high=5.0,  # an absolute cap in TRL's cispo
            scale_rewards="batch",
            beta=0.0,
            temperature=1.0,
            learning_rate=options.lr,
            use_cpu=True,
            bf16=options.bf16,
            gradient_checkpointing=False,
            report_to=[],
            logging_steps=10_000,
            save_strategy="no",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32),
            reward_funcs=reward,
            args=config,
            train_dataset=load_dataset("json", data_files=options.data, split="train", cache_dir=folder),
            processing_class=PreTrainedTokenizerFast.from_pretrained(options.model),
            callbacks=[Clock()],
        )
        trainer.train()


if __name__ == "__main__":
    main()
