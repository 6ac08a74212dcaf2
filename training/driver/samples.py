"""Keeps samples of batches and evaluations (`training.samples`), off the step's path: a thread of its own decodes and
writes, and what it cannot do is a warning."""

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from training import samples
from training.codec import Codec
from training.driver.parity import PARITY_SAMPLES, sample_rows
from training.errors import telling_line
from training.reporting import Reporter
from training.rollouts import Group, Sample, seed_of
from training.schema import Recipe
from training.trainer.batching import BySample

log = logging.getLogger("training")

MOST_WAITING = 16  # files; a disk that is slower than this loses samples, not steps


class SampleKeeper:
    """Writes into `folder`, and reports what it has written. `resumed_at`: step that the run goes on from, if any."""

    def __init__(
        self, recipe: Recipe, codec: Codec, reporter: Reporter, folder: Path, resumed_at: int | None = None
    ) -> None:
        self._recipe, self._codec, self._reporter, self._folder = recipe, codec, reporter, folder
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="samples")
        self._waiting: list[Future[None]] = []
        if recipe.samples.groups:
            self._begin(partial(samples.remove_after, folder, -1 if resumed_at is None else resumed_at))

    def trained(self, groups: Sequence[Group], step: int, by_sample: BySample | None) -> None:
        """The batch of update `step`; of each n-th some groups are kept, drawn by seed and step alone."""
        settings = self._recipe.samples
        if not settings.groups or step % settings.every_steps:
            return
        draw = random.Random(seed_of(self._recipe.seed, "samples", step))  # nosec B311  # no secret
        places = sorted(draw.sample(range(len(groups)), min(settings.groups, len(groups))))
        starts = np.cumsum([0, *(len(group.samples) for group in groups)])
        found: dict[int, dict[str, float]] = {}
        if by_sample is not None:
            for place in places:
                for index, sample in enumerate(groups[place].samples, int(starts[place])):
                    found[id(sample)] = {
                        "advantage": float(by_sample.advantages[index]),
                        "logp_gap": float(by_sample.logp_gap[index]),
                    }
        self._keep("train", step, [groups[place] for place in places], found)

    def evaluated(self, groups: Sequence[Group], step: int, gaps: Mapping[int, float]) -> None:
        """Of an evaluation after `step` updates the same prompts each time. gaps: id of a sample -> its mean gap."""
        if not self._recipe.samples.groups:
            return
        compared = sample_rows(len(groups), PARITY_SAMPLES)  # the gap is known of these
        places = [compared[place] for place in sample_rows(len(compared), self._recipe.samples.groups)]
        found = {key: {"logp_gap": gap} for key, gap in gaps.items()}
        self._keep("eval", step, [groups[place] for place in places], found)

    async def close(self, timeout: float) -> None:
        """Wait for what is being written; raises nothing."""
        if waiting := [asyncio.wrap_future(each) for each in self._waiting]:
            await asyncio.wait(waiting, timeout=timeout)
        self._writer.shutdown(wait=False, cancel_futures=True)

    def _keep(
        self, kind: str, step: int, groups: Sequence[Group], found: Mapping[int, Mapping[str, float]]
    ) -> None:
        self._waiting = [each for each in self._waiting if not each.done()]
        if len(self._waiting) >= MOST_WAITING:
            log.warning("samples of step %d are not kept: those before are still being written", step)
            return
        self._begin(partial(self._write, kind, step, groups, found))

    def _begin(self, work: partial[None]) -> None:
        with suppress(RuntimeError):  # the run has ended
            self._waiting.append(self._writer.submit(_guarded, work))

    def _write(
        self, kind: str, step: int, groups: Sequence[Group], found: Mapping[int, Mapping[str, float]]
    ) -> None:
        rows = [
            {**self._row(group, sample), **found.get(id(sample), {})}
            for group in groups
            for sample in group.samples
        ]
        prepared = samples.prepare(rows)
        samples.write(self._folder, kind, step, prepared.rows)
        samples.thin(self._folder, kind)
        self._reporter.log_samples(step, prepared.rows, kind=kind)

    def _row(self, group: Group, sample: Sample) -> dict[str, Any]:
        prompt = group.prompt
        return {
            "prompt_id": prompt.id,
            "part": prompt.part,
            "difficulty": prompt.difficulty,
            "prompt": prompt.text,
            "answer": prompt.answer,
            "response": self._codec.decode(sample.response),
            "prompt_tokens": len(sample.prompt),
            "tokens": len(sample.response),
            "reward": sample.reward,
            "correct": sample.correct,
            "judged": not sample.failure,
            "why": sample.failure or sample.reason,
            "truncated": not sample.finished,
            "interrupted": sample.interrupted,
            "forced": sample.chosen.count(False),
            "version_oldest": sample.oldest_version,
            "version_newest": sample.newest_version,
        }


def _guarded(work: partial[None]) -> None:
    try:
        work()
    except Exception as error:  # samples never stop a training
        log.warning("samples are not kept: %s", telling_line(error))
