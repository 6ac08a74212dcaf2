"""The driver: one program for synchronous and asynchronous training; the depth is a parameter.

    prompts ─► _generation_loop ─► groups ─► WorkBuffer ─► _training_loop ─► trainer
                 ▲  admits while the staleness bound holds        │ every update (or every k)
                 └──────────────── new weights, in flight ◄───────┘

`_generation_loop` waits for room in the buffer and is unblocked by pushed weights and finished groups.
`_training_loop` is the finite one: it waits for the next batch, and ends the run by budget, steps or a stop.
An error in either ends the run and is raised by `run`. Generator and trainer may be here or behind Ray actors.
"""

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from training.accounting import ComputeMeter, Usage
from training.batching import Batch, StepResult, make_batch
from training.checkpoints import Checkpoint, write_checkpoint
from training.codec import Codec
from training.curriculum import PromptSampler, ramp_share
from training.evaluator import Evaluator
from training.flops import ModelShape, Work
from training.parity import check_parity
from training.reporting import Reporter
from training.rollouts import Generator, Group, Rollouts, warn_of_failures
from training.schema import Recipe
from training.staleness import Ticket, WorkBuffer
from training.stepmetrics import StepMetrics
from training.tasks import Prompt, Task
from training.usable import usable_held_out, usable_training
from training.waiting import Stopped, Switchboard

log = logging.getLogger("training")

GENERATION_TIMEOUT_SECONDS = 3600.0
TRAINING_TIMEOUT_SECONDS = 3600.0


class TrainerHandle(Protocol):
    """A trainer, here or behind a Ray actor. `weights` gives something that the generator accepts as payload."""

    def train_step(self, batch: Batch) -> Awaitable[StepResult]: ...
    def logp(self, batch: Batch) -> Awaitable[Any]: ...
    def weights(self) -> Any: ...
    def save(self, path: str) -> Awaitable[None]: ...
    def load(self, path: str) -> Awaitable[int]: ...


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    state: str  # succeeded or cancelled
    reason: str
    step: int
    usage: Usage
    pass_rate: float | None


class Controller:
    """One attempt of one run."""

    def __init__(
        self,
        recipe: Recipe,
        *,
        task: Task,
        codec: Codec,
        generator: Generator,
        trainer: TrainerHandle,
        reporter: Reporter,
        run_dir: Path,
        shape: ModelShape,
        resume: Checkpoint | None = None,
        switch: Switchboard | None = None,
    ) -> None:
        self._recipe, self._generator, self._trainer = recipe, generator, trainer
        self._reporter, self._run_dir, self._resume = reporter, run_dir, resume
        self._rollouts = Rollouts(recipe, task, codec, generator)
        self._switch = switch or Switchboard()
        held_out = usable_held_out(task.held_out_prompts(recipe.eval.prompts), self._rollouts)
        self._evaluator = Evaluator(recipe, held_out, self._rollouts, trainer, self._switch)
        prompts, self._first_metrics = usable_training(task.training_prompts(recipe.seed), self._rollouts)
        self._sampler = PromptSampler(prompts, recipe.curriculum, recipe.seed)
        start = self.usage_of(resume)
        self._meter = ComputeMeter(devices=recipe.resources.devices, shape=shape, start=start)
        depth, push_every = depth_and_push_interval(recipe)
        self._buffer: WorkBuffer[Group] = WorkBuffer(
            prompts_per_step=recipe.rollout.prompts_per_step,
            depth=depth,
            push_every=push_every,
            version=resume.step if resume else 0,
        )
        self._prompts: dict[int, Prompt] = {}  # of the groups that are not trained yet
        self._step_metrics = StepMetrics(tokens=start.tokens)
        self._failure: Exception | None = None
        self._is_admitting = False
        self._is_exhausted = False
        self._num_refills = 0  # since the last step
        self._push: asyncio.Task | None = None
        self._groups: set[asyncio.Task] = set()
        self._last_pass_rate: float | None = None
        self._checkpointed_step = resume.step if resume else -1

    @staticmethod
    def usage_of(checkpoint: Checkpoint | None) -> Usage:
        """Compute used up to a checkpoint."""
        return Usage(**checkpoint.driver["usage"]) if checkpoint else Usage()

    @property
    def step(self) -> int:
        """Updates made."""
        return self._buffer.trainer_version

    def stop(self) -> None:
        """Finish the step, write a checkpoint, end. Safe to call from a signal handler of the loop."""
        self._switch.stop()

    async def run(self) -> Outcome:
        """Train until budget, steps or stop. Any loop's error ends the run and is raised here."""
        state, reason = "cancelled", "stopped on request"
        try:
            await self._prepare()
            reason = await self._train_beside_generation()
            state = "succeeded"
        except Stopped:
            pass
        finally:
            self._meter.pause()
            await self._settle()
            await self._rollouts.aclose()
        await self._checkpoint()
        return Outcome(state, reason, self.step, self._meter.usage(), self._last_pass_rate)

    # -- start and end ---------------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        """Restore or measure the start: parity of generator and trainer, pass rate before the first update."""
        if self._resume:
            await self._trainer.load(self._resume.trainer_file)
            self._sampler.load(self._resume.driver["sampler"])
            self._last_pass_rate = self._resume.driver["pass_rate"]
            await self._generator.update_weights(self._trainer.weights(), self.step)
        if self.step == 0:
            await self._evaluate(check=True)

    async def _train_beside_generation(self) -> str:
        generation = asyncio.create_task(self._generation_loop(), name="generation")
        training = asyncio.create_task(self._training_loop(), name="training")
        try:
            await asyncio.wait({generation, training}, return_when=asyncio.FIRST_COMPLETED)
            if generation.done() and not training.done():
                generation.result()  # raises: this loop has no other end
            return await training
        finally:
            for task in (generation, training):
                task.cancel()
            await asyncio.gather(generation, training, return_exceptions=True)

    async def _settle(self) -> None:
        """Let the last push land and drop what is still being generated."""
        if self._push is not None:
            await asyncio.wait({self._push}, timeout=10)
        for task in self._groups:
            task.cancel()
        await asyncio.gather(*self._groups, return_exceptions=True)

    # -- generation ------------------------------------------------------------------------------------------

    async def _generation_loop(self) -> None:
        """Consumes prompts. Waits for room: the staleness bound, the in-flight limit, no evaluation under way."""
        while True:
            await self._switch.until(self._has_room, what="room for one more group")
            prompt = self._sampler.next(self.step)
            if prompt is None:
                self._is_exhausted = True
                self._switch.changed()
                continue
            ticket = self._buffer.start()
            self._prompts[ticket.number] = prompt
            self._step_metrics.generating(self._buffer.num_running)
            task = asyncio.create_task(self._generate_group(ticket, prompt))
            self._groups.add(task)
            task.add_done_callback(self._groups.discard)

    def _has_room(self) -> bool:
        self._raise_failed_group()
        rollout, buffer = self._recipe.rollout, self._buffer
        queue_limit = rollout.max_untrained_prompts if self._recipe.offpolicy.mode == "pipeline" else None
        return (
            self._is_admitting
            and not self._is_exhausted
            and buffer.num_running < rollout.max_in_flight_prompts
            and (queue_limit is None or buffer.num_untrained < queue_limit)
            and buffer.may_start()
        )

    async def _generate_group(self, ticket: Ticket, prompt: Prompt) -> None:
        try:
            group = await self._refilled(ticket, await self._group_of(prompt))
        except Exception as error:
            self._failure = error
            self._switch.changed()
            return
        self._buffer.finish(ticket, group)
        self._step_metrics.generating(self._buffer.num_running)
        self._switch.changed()

    async def _group_of(self, prompt: Prompt) -> Group:
        rollout = self._recipe.rollout
        room = ramp_share(self.step, self._recipe.curriculum) if self._recipe.curriculum.ramp_length else 1.0
        work = self._rollouts.groups(
            [prompt], rollout.generations_per_prompt, rollout.temperature, thinking_share=room
        )
        (group,) = await asyncio.wait_for(work, GENERATION_TIMEOUT_SECONDS)
        response = sum(len(sample.response) for sample in group.samples)
        self._meter.generated(response, Work.of(len(sample.tokens) for sample in group.samples))
        return group

    async def _refilled(self, ticket: Ticket, group: Group) -> Group:
        """Dynamic sampling: other prompts in place of one that teaches nothing, `max_refills` at most.

        They take the same ticket. It counts as old as when it was handed out, so the staleness bound holds.
        """
        settings = self._recipe.filter
        for _ in range(settings.max_refills if settings.zero_variance == "refill" else 0):
            prompt = None if group.has_variance else self._sampler.next(self.step)
            if prompt is None:
                break
            self._record(group)
            self._num_refills += 1
            self._prompts[ticket.number] = prompt
            group = await self._group_of(prompt)
        return group

    def _record(self, group: Group) -> None:
        """Count a group towards its prompt's history."""
        self._sampler.record(group.prompt, sum(s.correct for s in group.samples), len(group.samples))

    def _raise_failed_group(self) -> None:
        if self._failure is not None:
            raise self._failure

    # -- training --------------------------------------------------------------------------------------------

    async def _training_loop(self) -> str:
        """Consumes batches. Returns why the run is over."""
        self._meter.run()
        self._step_metrics.begin()
        self._is_admitting = True
        self._switch.changed()
        while not (reason := self._is_over()):
            if self._switch.is_stopping:
                raise Stopped
            batch = await self._next_batch()
            if batch is None:
                reason = "every training prompt is solved"
                break
            await self._train(batch)
            if self.step % self._recipe.eval.every_steps == 0:
                await self._evaluate_between_steps()
            if self.step % self._recipe.checkpoint.every_steps == 0:
                await self._checkpoint()
        if self.step % self._recipe.eval.every_steps:
            await self._evaluate_between_steps()
        return reason

    def _is_over(self) -> str:
        budget = self._recipe.budget
        if budget.max_steps is not None and self.step >= budget.max_steps:
            return f"made {self.step} steps"
        if self._meter.usage().device_hours >= budget.device_hours:
            return f"used {budget.device_hours:g} device-hours"
        return ""

    async def _next_batch(self) -> list[tuple[Ticket, Group]] | None:
        """The next batch, or None where no prompt is left to complete it."""
        with self._step_metrics.trainer_waits():
            await self._switch.until(
                self._is_batch_settled,
                what="the generator to finish the next batch",
                timeout=GENERATION_TIMEOUT_SECONDS,
            )
        return self._buffer.take() if self._buffer.is_ready() else None

    def _is_batch_settled(self) -> bool:
        """The next batch is there, or can never be: no prompts are left."""
        self._raise_failed_group()
        return self._buffer.is_ready() or (self._is_exhausted and self._is_drained())

    def _is_drained(self) -> bool:
        self._raise_failed_group()
        return self._buffer.num_running == 0

    async def _train(self, taken: list[tuple[Ticket, Group]]) -> None:
        """One update on a batch, its record, and the push of the new weights."""
        self._switch.changed()  # the batch has left the queue: room for the next groups
        groups = [group for _, group in taken]
        staleness = [self.step - ticket.version for ticket, _ in taken]
        if self._will_evaluate(self.step + 1):
            self._is_admitting = False  # the generator runs dry while the trainer works
        result = await asyncio.wait_for(
            self._trainer.train_step(make_batch(groups)), TRAINING_TIMEOUT_SECONDS
        )
        self._buffer.trained()
        self._meter.trained(result.trained_tokens, result.work, result.forward_work)
        for ticket, group in taken:
            del self._prompts[ticket.number]
            self._record(group)
        warn_of_failures(groups)
        metrics = self._step_metrics.of_step(groups, staleness, result, self._meter.usage())
        if self._recipe.filter.zero_variance == "refill":
            metrics["train/refills"], self._num_refills = float(self._num_refills), 0
        self._log(metrics)
        if self._buffer.wants_push():
            await self._push_weights()

    async def _push_weights(self) -> None:
        """Send the weights on; training goes on meanwhile, one push at a time."""
        if self._push is not None:
            await asyncio.wait_for(self._push, TRAINING_TIMEOUT_SECONDS)
        self._push = asyncio.create_task(self._push_version(self._trainer.weights(), self.step))

    async def _push_version(self, payload: Any, version: int) -> None:
        await self._generator.update_weights(payload, version)
        self._buffer.pushed(version)
        self._switch.changed()

    # -- evaluation and checkpoints --------------------------------------------------------------------------

    def _will_evaluate(self, step: int) -> bool:
        return step % self._recipe.eval.every_steps == 0

    async def _evaluate_between_steps(self) -> None:
        """Let running groups finish (that is training), stop the clock, evaluate, go on."""
        self._is_admitting = False
        await self._switch.until(
            self._is_drained,
            what="running groups to finish before an evaluation",
            timeout=GENERATION_TIMEOUT_SECONDS,
        )
        await self._bring_weights_up_to_date()
        self._meter.pause()
        self._step_metrics.pause()
        await self._evaluate()
        self._meter.run()
        self._step_metrics.resume()
        self._is_admitting = True
        self._switch.changed()

    async def _bring_weights_up_to_date(self) -> None:
        """In PPO mode a block may be under way: evaluate the newest weights, but groups still count as before."""
        if self._push is not None:
            await asyncio.wait_for(self._push, TRAINING_TIMEOUT_SECONDS)
        if self._buffer.generator_version < self.step:
            await self._generator.update_weights(self._trainer.weights(), self.step)

    async def _evaluate(self, check: bool = False) -> None:
        """Measure and record the held-out pass rate; with `check`, refuse to start on a wrong ratio."""
        metrics = await self._evaluator.measure(always_compare=check)
        self._last_pass_rate = metrics["eval/pass_rate"]
        self._log(metrics)
        log.info(
            "step %d  pass rate %.3f ± %.3f  %.4f device-hours",
            self.step,
            metrics["eval/pass_rate"],
            metrics["eval/pass_rate_stderr"],
            self._meter.usage().device_hours,
        )
        if check:
            check_parity(metrics)

    async def _checkpoint(self) -> None:
        if self._checkpointed_step == self.step or self.step == 0:
            return
        pending = [self._prompts[ticket.number] for ticket in self._buffer.untrained()]
        driver = {
            "usage": self._meter.usage().as_dict(),
            "sampler": self._sampler.state(pending),
            "pass_rate": self._last_pass_rate,
        }
        keep = self._recipe.checkpoint.keep
        await write_checkpoint(
            self._run_dir / "checkpoints", self.step, driver, self._trainer.save, keep=keep
        )
        self._checkpointed_step = self.step

    def _log(self, metrics: dict[str, float]) -> None:
        metrics, self._first_metrics = metrics | self._first_metrics, {}
        self._reporter.log(metrics, step=self.step, compute=self._meter.usage().as_dict())


def depth_and_push_interval(recipe: Recipe) -> tuple[int, int]:
    """(versions that the trainer may be ahead, updates between pushes) of the recipe's off-policy mode."""
    offpolicy = recipe.offpolicy
    return (offpolicy.k, 1) if offpolicy.mode == "pipeline" else (offpolicy.k - 1, offpolicy.k)
