"""Which prompt comes next."""

import random
from collections.abc import Sequence
from typing import Any

from training.schema import Curriculum
from training.tasks import Prompt


def ramp_share(step: int, curriculum: Curriculum) -> float:
    """Share of the prompts, easiest first, that are in at a step; 1 without a ramp.

    With p = min(1, step / ramp_steps) and s = ramp_start: linear s + (1 - s) p, exponential s^(1 - p).
    """
    if not curriculum.mode.endswith("_ramp"):
        return 1.0
    progress, start = min(1.0, step / curriculum.ramp_steps), curriculum.ramp_start
    if curriculum.mode == "linear_ramp":
        return start + (1 - start) * progress
    return start ** (1 - progress)


class PromptSampler:
    """Epochs over the training prompts, each in its own order.

    With `no_positive_resampling` a prompt whose historical pass rate reaches `max_pass_rate` is removed for good
    (arXiv 2510.13786, section 3.2, which leaves open of which visits: `pass_rate_of`). With a ramp, an epoch begins
    with the easiest prompts; the others join it as soon as `ramp_share` lets them in. Raises ValueError where a ramp
    meets a prompt without a difficulty.
    """

    def __init__(self, prompts: Sequence[Prompt], curriculum: Curriculum, seed: int) -> None:
        self._by_id = {prompt.id: prompt for prompt in prompts}
        self._curriculum, self._seed = curriculum, seed
        self._epoch = -1
        self._queue: list[str] = []
        self._removed: set[str] = set()
        self._history: dict[str, tuple[int, int]] = {}  # id -> (correct, generated)
        self._rank = self._ranks() if curriculum.mode.endswith("_ramp") else {}
        self._num_admitted = 0  # of the prompts by rank, that this epoch has been given

    def _ranks(self) -> dict[str, int]:
        """Place of each prompt from the easiest on; equal difficulties in an order that depends on the seed."""
        ids = list(self._by_id)
        random.Random(f"{self._seed}/ranks").shuffle(ids)  # nosec B311  # drawn anew from a seed, kept from nobody
        difficulties: dict[str, float] = {}
        for prompt_id in ids:
            if (difficulty := self._by_id[prompt_id].difficulty) is None:
                raise ValueError(f"prompt {prompt_id} has no difficulty, and curriculum.mode needs one")
            difficulties[prompt_id] = difficulty
        return {prompt_id: rank for rank, prompt_id in enumerate(sorted(ids, key=difficulties.__getitem__))}

    def next(self, step: int = 0) -> Prompt | None:
        """The next prompt at a step of training, or None where every one has been removed."""
        while True:
            self._admit(step)
            while self._queue:
                prompt_id = self._queue.pop()
                if prompt_id not in self._removed:
                    return self._by_id[prompt_id]
            if len(self._removed) == len(self._by_id):
                return None
            self._epoch += 1
            self._num_admitted = 0
            if not self._rank:
                self._fill(list(self._by_id))

    def _admit(self, step: int) -> None:
        """Let the prompts into a ramp's epoch that the step allows and that are not in yet."""
        allowed = max(1, round(ramp_share(step, self._curriculum) * len(self._by_id)))
        if not self._rank or self._epoch < 0 or allowed <= self._num_admitted:
            return
        fresh = [id for id, rank in self._rank.items() if self._num_admitted <= rank < allowed]
        self._num_admitted = allowed
        self._fill(self._queue + fresh)

    def _fill(self, ids: list[str]) -> None:
        self._queue = ids
        wave = f"/{self._num_admitted}" if self._num_admitted else ""
        random.Random(f"{self._seed}/{self._epoch}{wave}").shuffle(self._queue)  # nosec B311  # drawn anew from a seed, kept from nobody

    def record(self, prompt: Prompt, num_correct: int, num_generated: int) -> None:
        """Count a trained group towards its prompt's historical pass rate."""
        if self._curriculum.mode != "no_positive_resampling":
            return
        correct, generated = self._history.get(prompt.id, (0, 0))
        correct, generated = correct + num_correct, generated + num_generated
        self._history[prompt.id] = (correct, generated)
        if self._curriculum.pass_rate_of == "last_visit":
            correct, generated = num_correct, num_generated
        if correct >= self._curriculum.max_pass_rate * generated:
            self._removed.add(prompt.id)

    def prompt(self, prompt_id: str) -> Prompt:
        """The prompt with this id. KeyError where there is none."""
        return self._by_id[prompt_id]

    def state(self) -> dict[str, Any]:
        """JSON-ready state: what has been handed out stays so, whoever loads it has to see to that."""
        return {
            "epoch": self._epoch,
            "admitted": self._num_admitted,
            "queue": list(self._queue),
            "removed": sorted(self._removed),
            "history": {prompt_id: list(counts) for prompt_id, counts in self._history.items()},
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._epoch = state["epoch"]
        self._num_admitted = state["admitted"]
        self._queue = list(state["queue"])
        self._removed = set(state["removed"])
        self._history = {prompt_id: (c, n) for prompt_id, (c, n) in state["history"].items()}
