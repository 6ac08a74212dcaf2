"""The finite loop of a run: batches in, updates, pushes of weights, evaluation pauses; it says why the run is over."""

import time
from collections.abc import Awaitable, Callable, Sequence

from observability import tracing
from training.driver.control import Budget
from training.driver.evaluations import Evaluations
from training.driver.generation import Generation
from training.driver.publisher import Publisher
from training.driver.snapshot import Attempt, Shared
from training.driver.staleness import Ticket
from training.driver.stepmetrics import span_metrics
from training.rollouts import Group, warn_of_failures
from training.trainer.batching import make_batch
from training.waiting import blame

Batch = Sequence[tuple[Ticket, Group]]


class TrainingLoop:
    """Consumes batches."""

    def __init__(
        self,
        attempt: Attempt,
        shared: Shared,
        *,
        generation: Generation,
        publisher: Publisher,
        evaluations: Evaluations,
        has_trained: Callable[[], None],
        save: Callable[[], Awaitable[None]],
    ) -> None:
        """has_trained: called after each update, before its weights go out. save: writes a checkpoint."""
        self._recipe, self._trainer, self._shared = attempt.recipe, attempt.trainer, shared
        self._switch, self._timeouts = attempt.switch, attempt.timeouts
        self._buffer, self._meter, self._step_metrics = shared.buffer, shared.meter, shared.step_metrics
        self._generation, self._publisher, self._evaluations = generation, publisher, evaluations
        self._has_trained, self._save = has_trained, save
        self._budget_hours = Budget(attempt.run_dir, attempt.recipe.budget.device_hours).hours

    async def loop(self) -> str:
        """Train until budget or steps are used up, or every prompt is solved: the reason. Raises Stopped."""
        recipe = self._recipe
        self._meter.run()
        self._step_metrics.begin()
        self._generation.open()
        while not (reason := self._is_over()):
            with tracing.span("step", step=self._shared.step + 1):
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
            if self._evaluations.is_due:
                await self._evaluate_between_steps()
            if self._shared.step % recipe.checkpoint.every_steps == 0:
                await self._save()
        if not self._evaluations.is_complete:
            await self._evaluate_between_steps(is_last=True)
        return reason

    def _is_over(self) -> str:
        budget = self._recipe.budget
        if budget.max_steps is not None and self._shared.step >= budget.max_steps:
            return f"made {self._shared.step} steps"
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
        version = self._shared.step
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
            self._shared.sampler.record(group.prompt, correct, len(group.samples))
        warn_of_failures(groups)
        self._shared.samples.trained(groups, self._shared.step, result.by_sample)
        metrics = self._step_metrics.of_step(batch, version, result, self._meter.usage())
        if self._recipe.filter.zero_variance == "refill":
            metrics["train/refills"], self._generation.num_refills = float(self._generation.num_refills), 0
        self._shared.log(metrics | span_metrics(spans, time.time()))
        self._has_trained()
        if self._evaluations.is_due:
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
        await self._evaluations.run(is_last=is_last)
        self._step_metrics.resume()
        self._meter.run()
        if not self._is_over():
            self._generation.open()
