"""Several tasks at once, e.g. math and code, each with an evaluation curve of its own."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from random import Random
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from training.tasks.base import Options, Prompt, Task, TaskError
from training.tasks.dataset import digest_of
from training.tasks.registry import make_task
from training.verifiers.base import Verifier


class Part(BaseModel):
    """One task of a mixture."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str = Field(description="Name of the task.")
    name: str = Field(
        default="",
        pattern=r"^[a-z0-9_-]{0,40}$",
        description="Name in the metrics (eval/NAME/pass_rate); open: the task's.",
    )
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        default=1.0, description="Share of the prompts, relative to the other parts."
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Options of the task.")

    @property
    def title(self) -> str:
        """The name in the metrics."""
        return self.name or self.task


class Mixture(Options):
    """Prompts of its parts in proportion to their weights. Implements `training.tasks.base.Task`.

    An epoch has as many prompts as the part that runs out first allows. `Prompt.difficulty` is the share of a part's
    prompts that are easier, because the parts' own scales cannot be compared.
    """

    parts: tuple[Part, ...] = Field(min_length=1, max_length=20, description="The tasks mixed.")

    @model_validator(mode="after")
    def _parts_are_distinct_tasks(self) -> "Mixture":
        if any(part.task == "mixture" for part in self.parts):
            raise ValueError("a mixture cannot be part of a mixture")
        name, uses = Counter(part.title for part in self.parts).most_common(1)[0]
        if uses > 1:
            raise ValueError(f"two parts are named {name!r}; give each a name of its own")
        return self

    @property
    def held_out_pool(self) -> int:
        """The most prompts that all parts hold out in proportion to their weights."""
        pools = [self._tasks[part.title].held_out_pool for part in self.parts]
        total = sum(part.weight for part in self.parts)
        most = min(pool * total / part.weight for pool, part in zip(pools, self.parts, strict=True))
        counts = range(int(most) + len(self.parts), len(self.parts), -1)
        fits = (n for n in counts if all(a <= b for a, b in zip(self._shares(n), pools, strict=True)))
        return next(fits, len(self.parts))

    def check(self) -> None:
        """Make the parts. TaskError names the part at fault."""
        for part in self.parts:
            if not self._pool(part, seed=0):
                raise TaskError(f"part {part.title}: every training prompt is held out by another part")

    def training_prompts(self, seed: int) -> Sequence[Prompt]:
        """Of each part as many as its weight asks for, interleaved; which ones and in what order `seed` says."""
        pools = {part.title: self._pool(part, seed) for part in self.parts}
        epoch = min(len(pools[part.title]) / part.weight for part in self.parts)
        counts = {part.title: max(1, int(part.weight * epoch + 1e-9)) for part in self.parts}
        order = [name for name, count in counts.items() for _ in range(count)]
        Random(f"mixture/{seed}").shuffle(order)  # nosec B311  # drawn anew from a seed, kept from nobody
        taken = {name: iter(pool) for name, pool in pools.items()}
        return [next(taken[name]) for name in order]

    def held_out_prompts(self, count: int) -> Sequence[Prompt]:
        """`count` prompts in proportion to the weights, at least one of each part; ValueError where a part lacks
        them."""
        prompts: list[Prompt] = []
        for part, number in zip(self.parts, self._shares(count), strict=True):
            try:
                own = self._tasks[part.title].held_out_prompts(number)
            except ValueError as error:
                raise ValueError(f"part {part.title}: {error}") from None
            prompts += self._marked(part, own)
        return prompts

    def verifier(self, prompt: Prompt) -> Verifier:
        """The one of the part that the prompt belongs to."""
        task = self._tasks[prompt.part]
        return task.verifier(replace(prompt, id=prompt.id.removeprefix(f"{prompt.part}/"), part=""))

    def _pool(self, part: Part, seed: int) -> list[Prompt]:
        """A part's training prompts, without what any part holds out."""
        prompts = self._marked(part, self._tasks[part.title].training_prompts(seed))
        return [prompt for prompt in prompts if digest_of(prompt.text) not in self._held_out]

    @cached_property
    def _held_out(self) -> set[str]:
        """Digests of all texts that the parts hold out."""
        tasks = self._tasks.values()
        return {digest_of(p.text) for task in tasks for p in task.held_out_prompts(task.held_out_pool)}

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        tasks = {}
        for part in self.parts:
            try:
                tasks[part.title] = make_task(
                    part.task, part.options, self._place.home, patience=self._place.patience
                )
            except TaskError as error:
                raise TaskError(f"part {part.title}: {error}") from None
        return tasks

    def _shares(self, count: int) -> list[int]:
        """`count` divided by the weights (largest remainders), one for each part before."""
        rest = count - len(self.parts)
        if rest < 0:
            raise ValueError(f"{count} held-out prompts are fewer than the {len(self.parts)} parts")
        total = sum(part.weight for part in self.parts)
        wanted = [count * part.weight / total for part in self.parts]
        shares = [max(1, int(share)) for share in wanted]
        while sum(shares) != count:
            step = 1 if sum(shares) < count else -1
            open_to_change = [i for i in range(len(shares)) if step > 0 or shares[i] > 1]
            shares[max(open_to_change, key=lambda i: step * (wanted[i] - shares[i]))] += step
        return shares

    @staticmethod
    def _marked(part: Part, prompts: Sequence[Prompt]) -> list[Prompt]:
        """With the part's name, ids that no other part has, and difficulties from 0 to below 1."""
        known = sorted(prompt.difficulty for prompt in prompts if prompt.difficulty is not None)
        return [
            replace(
                prompt,
                id=f"{part.title}/{prompt.id}",
                part=part.title,
                difficulty=None
                if prompt.difficulty is None
                else bisect_left(known, prompt.difficulty) / len(known),
            )
            for prompt in prompts
        ]
