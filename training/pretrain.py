"""The tiny base models: small Qwen2-shaped networks taught by supervision, imperfectly.

Their lessons are the easy part of a family of tasks; some guess an answer without thinking, the others think with
mistakes. So a model can do it, but seldom does, and the more steps a problem takes, the more seldom: what reinforcement
learning has to find out is to think, to think without mistakes, and how far that carries. Held-out problems are never
shown.
"""

import hashlib
import json
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm
from transformers import Qwen2Config, Qwen2ForCausalLM

from training.lessons import LESSONS, Lessons
from training.models import ModelError
from training.tasks.arithmetic import END_THINK, THINK
from training.teaching import FAMILIES

MICRO_BATCHES = 2  # of a step; each is only as wide as its own longest row
COMPLETE = "COMPLETE.json"  # written last; a folder without it is not a model
PAD, EOS = "<pad>", "<eos>"
VOCABULARY = [PAD, EOS, THINK, END_THINK, *"0123456789+=,-*().", "Calculate"]


def lessons_of(name: str) -> Lessons:
    """Of the model with this name. ModelError where there is none."""
    if name not in LESSONS:
        raise ModelError(f"no base model named {name!r}; there are: {', '.join(LESSONS)}")
    return LESSONS[name]


def pretrain(out: Path, lessons: Lessons = Lessons(), *, made: Path | None = None) -> bool:  # noqa: B008 - frozen
    """Have the model in `out`, as a copy of the folder `made` where that is of these very lessons. False where it was
    there already."""
    if is_complete(out, lessons):
        return False
    if made is not None and is_complete(made, lessons):
        with _placed(out) as partial:
            shutil.copytree(made, partial, dirs_exist_ok=True)
        return True
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
    held_out = "\n".join(sorted(held_out_texts(lessons)))
    return {
        "lessons": json.loads(json.dumps(asdict(lessons))),
        "held_out": hashlib.sha256(held_out.encode()).hexdigest(),
    }


def held_out_texts(lessons: Lessons) -> set[str]:
    """The held-out problems of its families' tasks."""
    tasks = [FAMILIES[course.family].task() for course in lessons.courses]
    return {prompt.text for task in tasks for prompt in task.held_out_prompts(task.held_out_pool)}


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
    """Next-token prediction of the responses, one cosine cycle of AdamW; a progress bar, or in a log a line at each
    tenth."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lessons.lr, weight_decay=0.01, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=lessons.lr, total_steps=lessons.steps, pct_start=0.1
    )
    bar = tqdm(
        batches(lessons),
        total=lessons.steps,
        desc="pretraining the base model",
        unit="step",
        mininterval=1,
        disable=None,  # in a log
    )
    for step, parts in enumerate(bar):
        optimizer.zero_grad(set_to_none=True)
        count = sum(int(is_lesson.sum()) for _, is_lesson in parts)
        loss = sum(_backward(model, tokens, is_lesson, count) for tokens, is_lesson in parts)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            bar.set_postfix(loss=f"{loss:.3f}")
        if bar.disable and (step + 1) % max(1, lessons.steps // 10) == 0:
            print(f"taught the base model {step + 1} of {lessons.steps} steps, loss {loss:.3f}", flush=True)


def _backward(model: Qwen2ForCausalLM, tokens: Tensor, is_lesson: Tensor, count: int) -> float:
    """Add the gradient of the loss summed over these lessons, divided by `count` tokens: the loss."""
    logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
    loss = cross_entropy(logits[is_lesson[:, 1:]], tokens[:, 1:][is_lesson[:, 1:]], reduction="sum") / count
    loss.backward()
    return loss.item()


Part = tuple[Tensor, Tensor]


def batches(lessons: Lessons) -> Iterator[list[Part]]:
    """For each step, in parts of about equal length: (tokens [rows, L], is_lesson [rows, L]), padded problems and which
    tokens belong to the response."""
    rng = random.Random(lessons.seed)  # nosec B311  # drawn anew from a seed, kept from nobody
    codec = make_tokenizer()
    held_out = held_out_texts(lessons)
    for _ in range(lessons.steps):
        rows = [_lesson(lessons, held_out, codec, rng) for _ in range(lessons.batch)]
        rows.sort(key=lambda row: len(row[0]) + len(row[1]))
        width = -(-len(rows) // MICRO_BATCHES)
        yield [_padded(rows[start : start + width]) for start in range(0, len(rows), width)]


def _padded(rows: list[tuple[list[int], list[int]]]) -> Part:
    width = max(len(question) + len(answer) for question, answer in rows)
    tokens = torch.zeros(len(rows), width, dtype=torch.long)
    is_lesson = torch.zeros(len(rows), width, dtype=torch.bool)
    for row, (question, answer) in enumerate(rows):
        end = len(question) + len(answer)
        tokens[row, :end] = torch.tensor(question + answer)
        is_lesson[row, len(question) : end] = True
    return tokens, is_lesson


def _lesson(
    lessons: Lessons, held_out: set[str], codec: Tokenizer, rng: random.Random
) -> tuple[list[int], list[int]]:
    """(question, response) as tokens. A response that leaves the context is drawn anew."""
    while True:
        course = rng.choice(lessons.courses)
        family = FAMILIES[course.family]
        prompt = family.problem(rng.choice(course.sizes), rng)
        if prompt.text in held_out:
            continue
        is_guess = rng.random() < lessons.guesses
        answer = family.guess(prompt, rng) if is_guess else family.worked(prompt, lessons.mistakes, rng)
        question, response = codec.encode(prompt.text).ids, codec.encode(answer + EOS).ids
        if len(question) + len(response) <= lessons.context:
            return question, response


def make_tokenizer() -> Tokenizer:
    """One token a character; `<think>`, `</think>` and the special tokens are one token each."""
    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate(VOCABULARY)}))  # no unknowns
    characters = pre_tokenizers.Split(Regex(r"Calculate|."), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), characters])
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([PAD, EOS, THINK, END_THINK])
    return tokenizer


def save(model: Qwen2ForCausalLM, lessons: Lessons, out: Path) -> None:
    """Write the folder of a taught model."""
    with _placed(out) as partial:
        cast: Any = model
        cast.to(torch.bfloat16).save_pretrained(partial)
        make_tokenizer().save(str(partial / "tokenizer.json"))
        tokenizer_config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": EOS, "pad_token": PAD}
        (partial / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
        (partial / COMPLETE).write_text(json.dumps(provenance(lessons)))


@contextmanager
def _placed(out: Path) -> Iterator[Path]:
    """A folder beside its place, which is moved there at the end: readers never see half a model."""
    partial = out.with_name(f".{out.name}.partial-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    yield partial
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)
