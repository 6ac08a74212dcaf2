"""The finite loop of a run: batches in, updates, pushes of weights, evaluation pauses; it says why the run is over."""

import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence

from observability import tracing
from training.driver.benchmarks import Benchmarks
from training.driver.control import Budget
from training.driver.curriculum import PromptSampler
from training.driver.evaluator import Evaluator
from training.driver.generation import Generation
from training.driver.parity import check_parity
from training.driver.publisher import Publisher
from training.driver.samples import SampleKeeper
from training.driver.snapshot import Attempt, RunState
from training.driver.staleness import Ticket, WorkBuffer
from training.driver.stepmetrics import ComputeMeter, StepMetrics, span_metrics
from training.rollouts import Group, warn_of_failures
from training.trainer.batching import make_batch
from training.waiting import blame

log = logging.getLogger("training")

Batch = Sequence[tuple[Ticket, Group]]


class TrainingLoop:
    """Consumes batches."""

    def __init__(
        self,
        attempt: Attempt,
        *,
        buffer: WorkBuffer[Group],
        sampler: PromptSampler,
        generation: Generation,
        publisher: Publisher,
        evaluator: Evaluator,
        benchmarks: Benchmarks,
        samples: SampleKeeper,
        meter: ComputeMeter,
        step_metrics: StepMetrics,
        start: RunState,
        first_metrics: dict[str, float],
        has_trained: Callable[[], None],
        save: Callable[[], Awaitable[None]],
    ) -> None:
        """first_metrics: for the first record. has_trained: called after each update, before its weights go
        out. save: writes a checkpoint."""
        self._recipe, self._trainer, self._reporter = attempt.recipe, attempt.trainer, attempt.reporter
        self._switch, self._timeouts = attempt.switch, attempt.timeouts
        self._buffer, self._sampler, self._generation = buffer, sampler, generation
        self._publisher, self._evaluator, self._samples = publisher, evaluator, samples
        self._meter, self._step_metrics = meter, step_metrics
        self._first_metrics, self._has_trained, self._save = first_metrics, has_trained, save
        self._budget_hours = Budget(attempt.run_dir, attempt.recipe.budget.device_hours).hours
        self.pass_rate, self.evaluated_step = start.pass_rate, start.evaluated_step  # of the last evaluation
        self._benchmarks, self.benchmarked = benchmarks, dict(start.benchmarked)

    @property
    def _step(self) -> int:
        return self._buffer.trainer_version

    @property
    def is_evaluation_due(self) -> bool:
        """Whether something of the weights of this step is still to be evaluated."""
        is_open = self.evaluated_step != self._step or bool(
            self._benchmarks.due(self._step, self.benchmarked)
        )
        return is_open and self._step % self._recipe.eval.every_steps == 0

    async def loop(self) -> str:
        """Train until budget or steps are used up, or every prompt is solved: the reason. Raises Stopped."""
        recipe = self._recipe
        self._meter.run()
        self._step_metrics.begin()
        self._generation.open()
        while not (reason := self._is_over()):
            with tracing.span("step", step=self._step + 1):
                with self._step_metrics.trainer_waits():
                    await self._switch.until(
                        self._is_batch_settled,
                        what="the generator to finish the next batch",
                        timeout=self._timeouts.generation,
                    )
                batch = self._buffer.take() if self._buffer.is_ready() else None
                if batch is None:
                    reason = "every training prompt is solved"
                    break
                await self._train(batch)
            if self.is_evaluation_due:
                await self._evaluate_between_steps()
            if self._step % recipe.checkpoint.every_steps == 0:
                await self._save()
        if self.evaluated_step != self._step or self._benchmarks.missing(self._step, self.benchmarked):
            await self._evaluate_between_steps(is_last=True)
        return reason

    def _is_over(self) -> str:
        budget = self._recipe.budget
        if budget.max_steps is not None and self._step >= budget.max_steps:
            return f"made {self._step} steps"
        device_hours = self._budget_hours()
        if self._meter.usage().device_hours >= device_hours:
            return f"used {device_hours:g} device-hours"
        return ""

    # -- one step --------------------------------------------------------------------------------------------

    def _is_batch_settled(self) -> bool:
        """The next batch is there, or can never be: no prompts are left."""
        generation = self._generation
        return self._buffer.is_ready() or (generation.is_exhausted and generation.is_drained)

    async def _train(self, batch: Batch) -> None:
        """One update on a batch, its record, and the push of the new weights. A stop lets it end."""
        version = self._step
        self._switch.changed()  # the batch has left the queue: room for the next groups
        groups = [group for _, group in batch]
        spans = self._generation.times.tell(ticket.number for ticket, _ in batch)
        began = time.time()
        with tracing.span("train"), blame("the trainer"):
            result = await self._switch.result(
                self._trainer.train_step(make_batch(groups, version)),
                what=f"the trainer to make step {version + 1}",
                timeout=self._timeouts.training,
                stoppable=False,
            )
        spans["update"] = began, time.time()
        if sent := self._publisher.last_sent():
            spans["weights"] = sent
        self._buffer.trained()
        self._meter.trained(result.trained_tokens, result.work, result.forward_work)
        for group in groups:
            correct = sum(sample.correct for sample in group.samples)
            self._sampler.record(group.prompt, correct, len(group.samples))
        warn_of_failures(groups)
        self._samples.trained(groups, self._step, result.by_sample)
        metrics = self._step_metrics.of_step(batch, version, result, self._meter.usage())
        if self._recipe.filter.zero_variance == "refill":
            metrics["train/refills"], self._generation.num_refills = float(self._generation.num_refills), 0
        self._log(metrics | span_metrics(spans, time.time()))
        self._has_trained()
        if self.is_evaluation_due:
            self._generation.close()  # what the new weights admit begins after it
        if self._buffer.wants_push():
            with self._step_metrics.trainer_waits():
                await self._publisher.publish()

    # -- evaluation ------------------------------------------------------------------------------------------

    async def _evaluate_between_steps(self, *, is_last: bool = False) -> None:
        """Have the generator hold the trainer's weights, interrupt running groups, stop the clock, evaluate, go on.

        Where generation and training take turns, no group is running then.
        """
        self._generation.close()
        with self._step_metrics.trainer_waits():
            await self._publisher.update_now()  # running groups go on while the weights are on their way
            await self._generation.pause(self._timeouts.generation)
        self._meter.pause()
        self._step_metrics.pause()
        await self.evaluate(is_last=is_last)
        self._step_metrics.resume()
        self._meter.run()
        if not self._is_over():
            self._generation.open()

    async def evaluate(self, *, check: bool = False, is_last: bool = False) -> None:
        """Measure and record what is open of these weights, each at once: the held-out pass rate, and the benchmarks
        that are due; of the last weights, all. With `check`, refuse to start on a wrong ratio."""
        if self.evaluated_step != self._step:
            await self._evaluate_held_out(check)
        wanted = self._benchmarks.missing if is_last else self._benchmarks.due
        for name in wanted(self._step, self.benchmarked):
            with tracing.span("benchmark", task=name, step=self._step):
                self._log(await self._benchmarks.measure(name, self._step))
            self.benchmarked[name] = self._step

    async def _evaluate_held_out(self, check: bool) -> None:
        began = time.time()
        with tracing.span("evaluate", step=self._step):
            metrics = await self._evaluator.measure(self._step, always_compare=check)
        metrics |= span_metrics({"evaluate": (began, time.time())}, time.time())
        self.pass_rate, self.evaluated_step = metrics["eval/pass_rate"], self._step
        self._log(metrics)
        log.info(
            "step %d  pass rate %.3f ± %.3f  %.4f device-hours",
            self._step,
            metrics["eval/pass_rate"],
            metrics["eval/pass_rate_stderr"],
            self._meter.usage().device_hours,
        )
        if check:
            check_parity(metrics)

    def _log(self, metrics: dict[str, float]) -> None:
        metrics, self._first_metrics = metrics | self._first_metrics, {}
        compute = self._meter.usage().as_dict()
        known = {
            name: value for name, value in metrics.items() if math.isfinite(value)
        }  # one answer has no error
        self._reporter.log(known, step=self._step, compute=compute)
