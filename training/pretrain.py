"""The base model of the default task: a small Qwen2-shaped network taught by supervision.

Most of its lessons guess an answer without thinking; the others think and are right. So it can add, but seldom does:
what reinforcement learning has to find out is that thinking pays. Held-out problems are never shown.
"""

import hashlib
import json
import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm
from transformers import Qwen2Config, Qwen2ForCausalLM

from training.tasks.arithmetic import END_THINK, THINK, Arithmetic, draw, make_prompt, solution

COMPLETE = "COMPLETE.json"  # written last; a folder without it is not a model
PAD, EOS = "<pad>", "<eos>"
VOCABULARY = [PAD, EOS, THINK, END_THINK, *"0123456789+=,"]


@dataclass(frozen=True)
class Lessons:
    """Size of the network and of its schooling."""

    hidden: int = 128
    layers: int = 2
    heads: int = 4
    mlp: int = 256
    context: int = 64
    steps: int = 700
    batch: int = 128
    lr: float = 2e-3
    guesses: float = 0.7  # share of lessons that guess an answer without thinking
    digits: int = 2
    seed: int = 0


def pretrain(out: Path, lessons: Lessons = Lessons()) -> bool:  # noqa: B008 - frozen
    """Make the model in `out`. False where it was complete already; True after making it."""
    if is_complete(out, lessons):
        return False
    torch.manual_seed(lessons.seed)
    model = new_model(lessons)
    teach(model, lessons)
    save(model, lessons, out)
    return True


def is_complete(out: Path, lessons: Lessons) -> bool:
    """Whether `out` holds the finished model of these very lessons."""
    try:
        return json.loads((out / COMPLETE).read_text()) == provenance(lessons)
    except (OSError, ValueError):
        return False


def provenance(lessons: Lessons) -> dict[str, Any]:
    """What the model was made from: its lessons, and which problems it must never have seen."""
    held_out = "\n".join(sorted(held_out_ids()))
    return {"lessons": asdict(lessons), "held_out": hashlib.sha256(held_out.encode()).hexdigest()}


def held_out_ids() -> set[str]:
    """The default task's held-out problems."""
    task = Arithmetic()
    return {prompt.id for prompt in task.held_out_prompts(task.held_out_pool)}


def new_model(lessons: Lessons) -> Qwen2ForCausalLM:
    """An untrained network."""
    config = Qwen2Config(
        vocab_size=len(VOCABULARY),
        hidden_size=lessons.hidden,
        intermediate_size=lessons.mlp,
        num_hidden_layers=lessons.layers,
        num_attention_heads=lessons.heads,
        num_key_value_heads=lessons.heads,
        max_position_embeddings=lessons.context,
        tie_word_embeddings=False,
        pad_token_id=VOCABULARY.index(PAD),
        eos_token_id=VOCABULARY.index(EOS),
        bos_token_id=None,
    )
    return Qwen2ForCausalLM(config)


def teach(model: Qwen2ForCausalLM, lessons: Lessons) -> None:
    """Next-token prediction of the responses, one cosine cycle of AdamW, with a progress bar."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lessons.lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=lessons.lr, total_steps=lessons.steps, pct_start=0.1
    )
    bar = tqdm(
        batches(lessons), total=lessons.steps, desc="pretraining the base model", unit="step", mininterval=1
    )
    for step, (tokens, is_lesson) in enumerate(bar):
        logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
        loss = cross_entropy(logits[is_lesson[:, 1:]], tokens[:, 1:][is_lesson[:, 1:]])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            bar.set_postfix(loss=f"{loss.item():.3f}")


def batches(lessons: Lessons) -> Iterator[tuple[Tensor, Tensor]]:
    """(tokens [batch, L], is_lesson [batch, L]): padded problems, and which tokens belong to the response."""
    rng = random.Random(lessons.seed)  # nosec B311  # drawn anew from a seed, kept from nobody
    codec = make_tokenizer()
    held_out = held_out_ids()
    for _ in range(lessons.steps):
        rows = [_lesson(lessons, held_out, codec, rng) for _ in range(lessons.batch)]
        width = max(len(question) + len(answer) for question, answer in rows)
        tokens = torch.zeros(len(rows), width, dtype=torch.long)
        is_lesson = torch.zeros(len(rows), width, dtype=torch.bool)
        for row, (question, answer) in enumerate(rows):
            end = len(question) + len(answer)
            tokens[row, :end] = torch.tensor(question + answer)
            is_lesson[row, len(question) : end] = True
        yield tokens, is_lesson


def _lesson(
    lessons: Lessons, held_out: set[str], codec: Tokenizer, rng: random.Random
) -> tuple[list[int], list[int]]:
    while True:
        a, b = draw(rng, lessons.digits)
        prompt = make_prompt(a, b)
        if prompt.id not in held_out:
            break
    answer = guess(a, b, rng) if rng.random() < lessons.guesses else solution(a, b)
    return codec.encode(prompt.text).ids, codec.encode(answer + EOS).ids


def guess(a: int, b: int, rng: random.Random) -> str:
    """A response to `make_prompt(a, b)` without thinking: as many digits as the sum has, at random."""
    return END_THINK + "".join(rng.choice("0123456789") for _ in str(a + b))


def make_tokenizer() -> Tokenizer:
    """One token a character; `<think>`, `</think>` and the special tokens are one token each."""
    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate(VOCABULARY)}))  # no unknowns
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([PAD, EOS, THINK, END_THINK])
    return tokenizer


def save(model: Qwen2ForCausalLM, lessons: Lessons, out: Path) -> None:
    """Write the folder beside its place, then move it there: readers never see half a model."""
    partial = out.with_name(f".{out.name}.partial-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    cast: Any = model
    cast.to(torch.bfloat16).save_pretrained(partial)
    make_tokenizer().save(str(partial / "tokenizer.json"))
    tokenizer_config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": EOS, "pad_token": PAD}
    (partial / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    (partial / COMPLETE).write_text(json.dumps(provenance(lessons)))
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)
