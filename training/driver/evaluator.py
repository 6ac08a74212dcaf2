"""Evaluation of the weights that generator and trainer hold: held-out pass rate, and how far the two agree."""

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from training.driver.parity import PARITY_SAMPLES, gaps_of_rows, mismatch, sample_rows
from training.driver.samples import SampleKeeper
from training.evaluation import evaluation_metrics, sampled
from training.rollouts import Group, Rollouts, warn_of_failures
from training.schema import Recipe
from training.tasks import Prompt
from training.trainer.batching import Batch, make_batch
from training.waiting import Switchboard, Timeouts, blame


class ScoresTokens(Protocol):
    """The one thing that an evaluation needs of a trainer."""

    def logp(self, batch: Batch) -> Awaitable[Any]: ...


class Evaluator:
    """Evaluates on the same held-out prompts every time. Raises Stopped or WaitTimeout while it waits."""

    def __init__(
        self,
        recipe: Recipe,
        held_out: Sequence[Prompt],
        rollouts: Rollouts,
        trainer: ScoresTokens,
        switch: Switchboard,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
        samples: SampleKeeper | None = None,
    ) -> None:
        self._samples = samples
        self._timeout = timeouts.evaluation
        self._recipe, self._held_out, self._switch = recipe, held_out, switch
        self._rollouts, self._trainer = rollouts, trainer

    async def measure(self, step: int, *, always_compare: bool = False) -> dict[str, float]:
        """Metrics of the evaluation after `step` updates: pass rate and, on some tokens, generator against trainer.

        Where evaluation samples at another temperature than training, the two are compared on samples of their own,
        and only with `always_compare`.
        """
        evaluation, rollout = self._recipe.eval, self._recipe.rollout
        groups = await self._sample(self._held_out, evaluation.k, evaluation.temperature, f"eval/{step}")
        warn_of_failures(groups)
        metrics, compared = evaluation_metrics(groups), groups
        if evaluation.temperature != rollout.temperature:
            some = self._held_out[:PARITY_SAMPLES] if always_compare else []
            compared = await self._sample(some, 1, rollout.temperature, f"parity/{step}") if some else []
        gaps: dict[int, float] = {}
        if compared:
            found, gaps = await self._mismatch(compared)
            metrics |= found
        if self._samples is not None:
            self._samples.evaluated(groups, step, gaps)
        return metrics

    async def _sample(self, prompts: Sequence[Prompt], k: int, temperature: float, key: str) -> list[Group]:
        work = sampled(self._rollouts, prompts, k, temperature, key)
        return await self._switch.result(work, what="an evaluation", timeout=self._timeout)

    async def _mismatch(self, groups: Sequence[Group]) -> tuple[dict[str, float], dict[int, float]]:
        """Generator against trainer, with the same weights, on the same tokens: metrics, and id of a sample -> its
        mean gap."""
        some = [
            Group(groups[i].prompt, groups[i].samples[:1]) for i in sample_rows(len(groups), PARITY_SAMPLES)
        ]
        batch = make_batch(some)
        with blame("the trainer"):
            logp = await self._switch.result(
                self._trainer.logp(batch),
                what="the trainer to compare log-probabilities",
                timeout=self._timeout,
            )
        compared = (id(group.samples[0]) for group in some)
        return mismatch(batch, logp), dict(zip(compared, gaps_of_rows(batch, logp), strict=True))
