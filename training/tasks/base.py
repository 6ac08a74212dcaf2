"""What a task is."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, PrivateAttr

from training.models import default_home
from training.verifiers.base import Verifier

PATIENCE_SECONDS = 20.0  # for a download while a person waits for the page


class TaskError(ValueError):
    """An unknown task, a wrong option, or data that cannot be used."""


class Place(NamedTuple):
    """Where relative paths begin (`home`/data), and how long a download may take, seconds."""

    home: Path
    patience: float


@dataclass(frozen=True)
class Prompt:
    """One problem. `id` is stable across runs; `text` is what the model sees; `answer` is never shown.

    `part` names the part of a mixture that it belongs to. `difficulty` is a number that grows with it, on the task's
    own scale; None where the task does not know.
    """

    id: str
    text: str
    answer: str
    part: str = ""
    difficulty: float | None = None


class Task(Protocol):
    """Prompts plus verifier. The held-out prompts come from the same distribution and share none with training."""

    @property
    def held_out_pool(self) -> int:
        """How many prompts are held out."""

    def check(self) -> None:
        """Read whatever the options name. TaskError where that cannot be used."""

    def training_prompts(self, seed: int) -> Sequence[Prompt]:
        """The training prompts in an order that depends on `seed` alone."""

    def held_out_prompts(self, count: int) -> Sequence[Prompt]:
        """The first `count` held-out prompts: the same for every run, recipe and seed. ValueError where there are
        fewer."""

    def verifier(self, prompt: Prompt) -> Verifier:
        """Who judges responses to this prompt: the final answer, not the thinking."""


class Options(BaseModel):
    """What the fields of every task are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    _place: Place = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """`context` of the validation is the task's place."""
        self._place = context if isinstance(context, Place) else Place(default_home(), PATIENCE_SECONDS)


class SplitTask(Options):
    """A task whose prompts are made or read once; the fields are its options. A subclass says `_split`, `verifier` and
    `held_out_pool`. Implements `Task`.
    """

    @cached_property
    def _split(self) -> tuple[list[Prompt], list[Prompt]]:
        """(training, held out). TaskError where the options allow too few, or name what cannot be used."""
        raise NotImplementedError

    def check(self) -> None:
        """Make or read the prompts. TaskError as `_split`."""
        _ = self._split

    def training_prompts(self, seed: int) -> Sequence[Prompt]:
        """All training prompts, shuffled by `seed`."""
        prompts = list(self._split[0])
        Random(seed).shuffle(prompts)  # nosec B311  # drawn anew from a seed, kept from nobody
        return prompts

    def held_out_prompts(self, count: int) -> Sequence[Prompt]:
        """The first `count` held-out prompts; ValueError where there are fewer."""
        held_out = self._split[1]
        if count > len(held_out):
            raise ValueError(f"the task holds out {len(held_out)} prompts, not {count}")
        return held_out[:count]
