"""What a checkpoint is measured on beside its own held-out prompts: a data set by name, or any task. No torch."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.tasks import PATIENCE_SECONDS, Prompt, Task, TaskError, make_task, task_names
from training.tasks.dataset import DatasetTask

_WORDS = 13  # of an overlap that counts as contamination (GPT-3, arXiv 2005.14165, appendix C)
_WORD = re.compile(r"\w+")
PREFIX = "lm_eval/"
# Of `lm_eval.simple_evaluate`. Others say what is loaded and run: `confirm_run_unsafe_code` runs a model's programs.
OPTIONS = ("num_fewshot", "fewshot_as_multiturn", "apply_chat_template", "system_instruction", "gen_kwargs")
# Name -> task and options. Each is all of a data set's test problems.
BENCHMARKS: dict[str, tuple[str, dict[str, Any]]] = {
    "gsm8k": ("math", {"source": "gsm8k"}),
    "math500": ("math", {"source": "math"}),
    "aime24": ("math", {"source": "aime"}),
    "aime25": ("math", {"source": "aime25"}),
    "humaneval": ("code", {"source": "humaneval"}),
    "humaneval_plus": ("code", {"source": "humaneval_plus"}),
    "mbpp": ("code", {"source": "mbpp"}),
    "mbpp_plus": ("code", {"source": "mbpp_plus"}),
    "livecodebench": ("code", {"source": "livecodebench"}),
    "arc_challenge": ("choice", {"source": "arc"}),
    "arc_easy": ("choice", {"source": "arc", "config": "ARC-Easy"}),
    "hellaswag": ("choice", {"source": "hellaswag"}),
    "truthfulqa": ("choice", {"source": "truthfulqa"}),
    "natural_questions": ("exact", {"source": "natural_questions"}),
}


@dataclass(frozen=True)
class Benchmark:
    """Prompts, and the task that judges responses to them."""

    name: str
    task: Task
    prompts: Sequence[Prompt]


def make_benchmark(
    name: str,
    options: Mapping[str, Any] | None = None,
    home: Path | None = None,
    *,
    patience: float = PATIENCE_SECONDS,
) -> Benchmark:
    """One of BENCHMARKS, or any task's held-out prompts. `options` are the task's; `path` (a file under HOME/data)
    takes the place of the hub. TaskError where the name or an option is wrong, or the data are missing: it names the
    folder and what belongs there.
    """
    if name.startswith(PREFIX):
        raise TaskError(
            f"{name} is for `evaluate` alone: lm-evaluation-harness measures checkpoints that are written"
        )
    if name not in BENCHMARKS and name not in task_names():
        known = ", ".join([*BENCHMARKS, *task_names()])
        raise TaskError(f"no benchmark named {name!r}; there are: {known}")
    task_name, given = BENCHMARKS.get(name, (name, {}))
    options = dict(options or {})
    if "path" in options and given:
        given = {"adapter": given["source"]}
    task = make_task(task_name, given | options, home, patience=patience, reads=False)
    if isinstance(task, DatasetTask):
        return Benchmark(name, task, task.benchmark_prompts())
    task.check()
    return Benchmark(name, task, task.held_out_prompts(task.held_out_pool))


def check_options(options: Mapping[str, Any]) -> None:
    """TaskError for an option that is none of OPTIONS."""
    if unknown := sorted(set(options) - set(OPTIONS)):
        raise TaskError(f"no option {', '.join(unknown)} of lm_eval tasks; there are: {', '.join(OPTIONS)}")


def contamination(prompts: Sequence[Prompt], training: Iterable[Prompt]) -> float:
    """Share of `prompts` that have 13 words in a row in common with a training prompt; of a shorter one, all its words.

    What all prompts of a set begin or end with (a template) does not count. Prompts of one id are one.
    """
    wanted = [(key, set(spans)) for key, spans in _spans_of(prompts)]
    every = set().union(*(spans for _, spans in wanted))
    found = every & {span for _, spans in _spans_of(list(training)) for span in spans if span in every}
    seen = {key for key, spans in wanted if not spans.isdisjoint(found)}
    return len(seen) / len({prompt.id for prompt in prompts})


def _spans_of(prompts: Sequence[Prompt]) -> Iterator[tuple[str, Iterator[tuple[str, ...]]]]:
    """(id, spans) of each prompt."""
    parts: dict[str, list[tuple[str, list[str]]]] = {}
    for prompt in prompts:  # each part of a mixture has a template of its own
        parts.setdefault(prompt.part, []).append((prompt.id, _WORD.findall(prompt.text.casefold())))
    for of_part in parts.values():
        texts = [words for _, words in of_part]
        before, after = _shared(texts), _shared([words[::-1] for words in texts])
        for key, words in of_part:
            own = (words[before : len(words) - after] if len(texts) > 1 else []) or words
            yield key, (tuple(own[i : i + _WORDS]) for i in range(max(1, len(own) - _WORDS + 1)))


def _shared(texts: Sequence[list[str]]) -> int:
    """How many words all of them begin with."""
    first, last = min(texts), max(texts)
    return next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )
