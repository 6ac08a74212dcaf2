"""Evaluations of a run: held-out pass rate, how far generator and trainer agree on the same weights, and benchmarks."""

import logging
import time
from collections.abc import Sequence

from observability import tracing
from training.driver.benchmarks import Benchmarks
from training.driver.parity import PARITY_SAMPLES, check_parity, gaps_of_rows, mismatch, sample_rows
from training.driver.snapshot import Attempt, RunState, Shared
from training.driver.stepmetrics import span_metrics
from training.evaluation import evaluation_metrics, sampled
from training.rollouts import Group, warn_of_failures
from training.tasks import Prompt
from training.trainer.batching import make_batch
from training.waiting import blame

log = logging.getLogger("training")


class Evaluations:
    """Of the weights that generator and trainer hold, on the same held-out prompts every time. Raises Stopped or
    WaitTimeout while it waits."""

    def __init__(
        self,
        attempt: Attempt,
        shared: Shared,
        start: RunState,
        *,
        held_out: Sequence[Prompt],
        training: Sequence[Prompt],
    ) -> None:
        """Rollouts are its own: training's are interrupted meanwhile. Raises what `Benchmarks` does."""
        self._attempt, self._shared, self._held_out = attempt, shared, held_out
        self._rollouts = attempt.rollouts()
        self._benchmarks = Benchmarks(attempt, training)
        self.pass_rate, self.evaluated_step = start.pass_rate, start.evaluated_step  # of the last one
        self.benchmarked = dict(start.benchmarked)

    @property
    def is_due(self) -> bool:
        """Whether something of the weights of this step is still to be measured, and it is its turn."""
        step = self._shared.step
        is_open = self.evaluated_step != step or bool(self._benchmarks.due(step, self.benchmarked))
        return is_open and step % self._attempt.recipe.eval.every_steps == 0

    @property
    def is_complete(self) -> bool:
        """Whether all that can be measured of these weights has been."""
        step = self._shared.step
        return self.evaluated_step == step and not self._benchmarks.missing(step, self.benchmarked)

    async def run(self, *, check: bool = False, is_last: bool = False) -> None:
        """Measure and record what is open of these weights, each at once: the held-out pass rate, and the benchmarks
        that are due; of the last weights, all. With `check`, refuse to start on a wrong ratio."""
        step = self._shared.step
        if self.evaluated_step != step:
            await self._evaluate(step, check)
        wanted = self._benchmarks.missing if is_last else self._benchmarks.due
        for name in wanted(step, self.benchmarked):
            with tracing.span("benchmark", task=name, step=step):
                self._shared.log(await self._benchmarks.measure(name, step))
            self.benchmarked[name] = step

    async def _evaluate(self, step: int, check: bool) -> None:
        began = time.time()
        with tracing.span("evaluate", step=step):
            metrics = await self._measure(step, always_compare=check)
        metrics |= span_metrics({"evaluate": (began, time.time())}, time.time())
        self.pass_rate, self.evaluated_step = metrics["eval/pass_rate"], step
        self._shared.log(metrics)
        log.info(
            "step %d  pass rate %.3f ± %.3f  %.4f device-hours",
            step,
            metrics["eval/pass_rate"],
            metrics["eval/pass_rate_stderr"],
            self._shared.meter.usage().device_hours,
        )
        if check:
            check_parity(metrics)

    async def _measure(self, step: int, *, always_compare: bool) -> dict[str, float]:
        """Pass rate and, on some tokens, generator against trainer.

        Where evaluation samples at another temperature than training, the two are compared on samples of their own,
        and only with `always_compare`.
        """
        evaluation, rollout = self._attempt.recipe.eval, self._attempt.recipe.rollout
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
        self._shared.samples.evaluated(groups, step, gaps)
        return metrics

    async def _sample(self, prompts: Sequence[Prompt], k: int, temperature: float, key: str) -> list[Group]:
        work = sampled(self._rollouts, prompts, k, temperature, key)
        timeout = self._attempt.timeouts.evaluation
        return await self._attempt.switch.result(work, what="an evaluation", timeout=timeout)

    async def _mismatch(self, groups: Sequence[Group]) -> tuple[dict[str, float], dict[int, float]]:
        """Generator against trainer, with the same weights, on the same tokens: metrics, and id of a sample -> its
        mean gap."""
        some = [
            Group(groups[i].prompt, groups[i].samples[:1]) for i in sample_rows(len(groups), PARITY_SAMPLES)
        ]
        batch = make_batch(some)
        with blame("the trainer"):
            logp = await self._attempt.switch.result(
                self._attempt.trainer.logp(batch),
                what="the trainer to compare log-probabilities",
                timeout=self._attempt.timeouts.evaluation,
            )
        compared = (id(group.samples[0]) for group in some)
        return mismatch(batch, logp), dict(zip(compared, gaps_of_rows(batch, logp), strict=True))
