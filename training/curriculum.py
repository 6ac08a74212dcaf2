"""Which prompt comes next."""

import random
from collections.abc import Sequence
from typing import Any

from training.schema import Curriculum
from training.tasks import Prompt


class PromptSampler:
    """Epochs over the training prompts, each in its own order.

    With `no_positive_resampling` a prompt whose historical pass rate reaches `max_pass_rate` is removed for good
    (arXiv 2510.13786, section 3.2).
    """

    def __init__(self, prompts: Sequence[Prompt], curriculum: Curriculum, seed: int) -> None:
        self._by_id = {prompt.id: prompt for prompt in prompts}
        self._curriculum, self._seed = curriculum, seed
        self._epoch = -1
        self._queue: list[str] = []
        self._removed: set[str] = set()
        self._history: dict[str, tuple[int, int]] = {}  # id -> (correct, generated)

    @property
    def num_removed(self) -> int:
        """Prompts removed for good."""
        return len(self._removed)

    def next(self) -> Prompt | None:
        """The next prompt, or None where every one has been removed."""
        while True:
            while self._queue:
                prompt_id = self._queue.pop()
                if prompt_id not in self._removed:
                    return self._by_id[prompt_id]
            if len(self._removed) == len(self._by_id):
                return None
            self._epoch += 1
            self._queue = list(self._by_id)
            random.Random(f"{self._seed}/{self._epoch}").shuffle(self._queue)

    def record(self, prompt: Prompt, num_correct: int, num_generated: int) -> None:
        """Count a trained group towards its prompt's historical pass rate."""
        if self._curriculum.mode == "uniform":
            return
        correct, generated = self._history.get(prompt.id, (0, 0))
        correct, generated = correct + num_correct, generated + num_generated
        self._history[prompt.id] = (correct, generated)
        if correct >= self._curriculum.max_pass_rate * generated:
            self._removed.add(prompt.id)

    def state(self, pending: Sequence[Prompt]) -> dict[str, Any]:
        """JSON-ready state. `pending` were handed out and not trained: a resumed run gets them first."""
        return {
            "epoch": self._epoch,
            "queue": self._queue + [prompt.id for prompt in reversed(pending)],
            "removed": sorted(self._removed),
            "history": {prompt_id: list(counts) for prompt_id, counts in self._history.items()},
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        self._epoch = state["epoch"]
        self._queue = list(state["queue"])
        self._removed = set(state["removed"])
        self._history = {prompt_id: (c, n) for prompt_id, (c, n) in state["history"].items()}
