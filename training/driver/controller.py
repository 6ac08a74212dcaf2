"""The driver: one program for synchronous and asynchronous training; the depth is a parameter.

    prompts ─► generation loop ─► group tasks ─► WorkBuffer ─► training loop ─► trainer
                   ▲  admits while the staleness bound holds        │ after every update (or every k)
                   └────────────── push of new weights ◄────────────┘

    loop or task      module          consumes   waits for                          unblocked by
    generation loop   generation      prompts    room: bound, generator, queue      pushes, finished groups
    group task        generation      a prompt   generator, verifiers               their answers
    training loop     training_loop   batches    the next batch; evaluation: the    finished groups
                                                 push, interrupted groups
    push              publisher       weights    the generator                      its answer

The training loop is the finite one. An error in any of them ends the run: the switchboard hands it to whoever waits, so
the training loop raises it, and `run` does. Generator and trainer may be here or behind Ray actors.

An evaluation in the middle. Admission is closed as the update ends; the push under way is awaited, so that the
generator holds what is evaluated; running groups are interrupted: the generator answers with what it has; the clock
stops; the evaluation and the benchmarks that are due have the generator to themselves; the clock runs, interrupted
groups are gone on with (same seeds, same positions, each token under the version that made it) and others admitted. So
the pipeline is as full after as before. Groups that are being scored go on meanwhile. What an interrupted group has is
counted with the rest, when it has finished. Where generation and training take turns, no group is running between two
steps, and none is interrupted.

How a run ends. Each wait has a timeout (`training.waiting.Timeouts`), and its error names what it waited for.

    healthy end (budget, steps, prompts)         stop (SIGTERM, SIGINT)
    1. evaluation, if one is due                 1. an update under way is finished, any other wait ends
                                                 2. the generation loop is cancelled
    2. the generation loop is cancelled          3. a push under way is awaited (transfer)
    3. a push under way is awaited (transfer)    4. as 4
    4. groups are interrupted: the generator     5. as 5
       answers with what it has (closing), the   6. as 6
       rest is cancelled (closing)
    5. verifiers end (closing)                   crash of anything
    6. a checkpoint is written (checkpoint),     1. a checkpoint under way may become complete (closing)
       with finished and partial groups;         2. loops, groups and the push are cancelled (closing)
       the one before it is awaited              3. verifiers end (closing)
                                                 4. nothing is saved, the error is raised: a resume takes the
                                                    last complete checkpoint
                                                 Ctrl-C during a stop ends it like a crash.

What a resume restores. Where generation and training take turns (synchronous, PPO-off-policy-k) it is the state right
after the last update: groups begun since then are made again with the same seeds, so a resumed run repeats the one that
was never stopped, bit for bit. Else finished groups are kept with their tokens, interrupted ones are gone on with, and
those of which nothing is known are made again: no prompt is lost and none is repeated.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from training.checkpoints import Checkpoint, CheckpointError
from training.driver.curriculum import PromptSampler
from training.driver.evaluations import Evaluations
from training.driver.generation import Generation
from training.driver.publisher import Publisher
from training.driver.samples import SampleKeeper
from training.driver.saving import Saving
from training.driver.snapshot import Attempt, RunState, Shared, from_checkpoint, to_files
from training.driver.staleness import BufferState, WorkBuffer
from training.driver.stepmetrics import ComputeMeter, StepMetrics, Usage
from training.driver.training_loop import TrainingLoop
from training.errors import last_line
from training.rollouts import Group
from training.schema import Recipe
from training.usable import usable_held_out, usable_training
from training.waiting import Interrupted, Stopped, blame, within

log = logging.getLogger("training")


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

    def __init__(self, attempt: Attempt) -> None:
        """Raises CheckpointError where what is resumed is damaged or of another recipe, ValueError where the task's
        prompts cannot be used.
        """
        self._attempt = attempt
        recipe, self._switch, self._timeouts = attempt.recipe, attempt.switch, attempt.timeouts
        self._rollouts = attempt.rollouts()
        held_out = usable_held_out(attempt.task.held_out_prompts(recipe.eval.prompts), self._rollouts)
        prompts, first = usable_training(attempt.task.training_prompts(recipe.seed), self._rollouts)
        self._sampler = PromptSampler(prompts, recipe.curriculum, recipe.seed)
        start = self._boundary = self._start()
        resumed_at = attempt.resume.step if attempt.resume else None
        self._shared = Shared(
            sampler=self._sampler,
            buffer=make_buffer(recipe, start.buffer),
            meter=ComputeMeter(devices=recipe.resources.devices, shape=attempt.shape, start=start.usage),
            step_metrics=StepMetrics(tokens=start.usage.tokens, num_lost_engines=attempt.num_lost_engines),
            samples=SampleKeeper(
                recipe, attempt.codec, attempt.reporter, attempt.run_dir / "samples", resumed_at
            ),
            reporter=attempt.reporter,
            first=first,
        )
        self._publisher = Publisher(
            trainer=attempt.trainer,
            generator=attempt.generator,
            buffer=self._shared.buffer,
            switch=attempt.switch,
            timeouts=attempt.timeouts,
        )
        self._saving = Saving(
            attempt.run_dir / "checkpoints",
            keep=recipe.checkpoint.keep,
            trainer=attempt.trainer,
            switch=attempt.switch,
            timeouts=attempt.timeouts,
            uploads=attempt.uploads,
        )
        self._generation = Generation(attempt, self._shared, self._rollouts, start)
        self._evaluations = Evaluations(attempt, self._shared, start, held_out=held_out, training=prompts)
        self._training = TrainingLoop(
            attempt,
            self._shared,
            generation=self._generation,
            publisher=self._publisher,
            evaluations=self._evaluations,
            has_trained=self._remember,
            save=self._checkpoint,
        )
        self._checkpointed_step = -1 if resumed_at is None else resumed_at

    @staticmethod
    def usage_of(checkpoint: Checkpoint | None) -> Usage:
        """Compute used up to a checkpoint."""
        return Usage(**checkpoint.driver["usage"]) if checkpoint else Usage()

    @property
    def step(self) -> int:
        """Updates made."""
        return self._shared.step

    def stop(self) -> None:
        """Finish the step, write a checkpoint, end. Safe to call from a signal handler of the loop."""
        self._switch.stop()

    async def run(self) -> Outcome:
        """Train until budget, steps or stop. Any loop's error ends the run and is raised here."""
        generation: asyncio.Task[None] | None = None
        state, reason = "cancelled", "stopped on request"
        try:
            with suppress(Stopped):
                await self._prepare()
                generation = self._switch.watch(self._generation.loop(), name="generation loop")
                reason = await self._training.loop()
                state = "succeeded"
            self._shared.meter.pause()
            await self._come_to_rest(generation)
        except BaseException as error:
            self._publisher.cancel()
            is_urgent = isinstance(error, Interrupted | asyncio.CancelledError)
            await self._saving.give_up(0 if is_urgent else self._timeouts.closing)
            raise
        finally:
            await self._close(generation)
            await self._shared.samples.close(self._timeouts.closing)
        await self._checkpoint(is_last=True)
        return Outcome(state, reason, self.step, self._shared.meter.usage(), self._evaluations.pass_rate)

    # -- start -----------------------------------------------------------------------------------------------

    def _start(self) -> RunState:
        """Where this attempt begins; loads the sampler."""
        if (resume := self._attempt.resume) is None:
            return RunState(Usage(), self._sampler.state(), BufferState())
        resume.refuse_unless_of(self._attempt.recipe)
        state = from_checkpoint(resume, self._sampler.prompt)
        self._sampler.load(state.sampler)
        return state

    async def _prepare(self) -> None:
        """Restore or measure the start: parity of generator and trainer, pass rate before the first update."""
        if self._attempt.resume:
            path = self._attempt.resume.trainer_path
            with blame("the trainer"):
                step = await self._switch.result(
                    self._attempt.trainer.load(path),
                    what=f"the trainer to load {path}",
                    timeout=self._timeouts.checkpoint,
                )
            if step != self._attempt.resume.step:
                raise CheckpointError(
                    f"{path} is of step {step}, and its folder of step {self._attempt.resume.step}"
                )
            await self._publisher.update_now(is_new=True)
        if self.step == 0:
            await self._evaluations.run(check=True)
        elif self._evaluations.is_due:
            await self._evaluations.run()

    # -- end -------------------------------------------------------------------------------------------------

    async def _come_to_rest(self, generation: asyncio.Task[None] | None) -> None:
        """Steps 2 to 4 of an end that is no crash. Raises what has failed until then."""
        await self._end(generation)
        await self._publisher.settle()
        if not self._shared.buffer.is_lockstep:
            await self._generation.interrupt(self._timeouts.closing)
        self._switch.check()

    async def _close(self, generation: asyncio.Task[None] | None) -> None:
        """Nothing of this run goes on after it; raises nothing."""
        await self._end(generation)
        await self._generation.cancel(self._timeouts.closing)
        try:
            await within(self._rollouts.aclose(), what="the verifiers to end", timeout=self._timeouts.closing)
        except Exception as error:
            log.warning("%s", last_line(error))

    async def _end(self, task: asyncio.Task[None] | None) -> None:
        if task is not None:
            task.cancel()
            await asyncio.wait({task}, timeout=self._timeouts.closing)

    # -- checkpoints -----------------------------------------------------------------------------------------

    def _remember(self) -> None:
        """Keep the state after an update, for modes in which generation and training take turns."""
        if self._shared.buffer.is_lockstep:
            self._boundary = self._now()

    def _now(self) -> RunState:
        return RunState(
            usage=self._shared.meter.usage(),
            sampler=self._sampler.state(),
            buffer=self._shared.buffer.state(),
            works=self._generation.works,
            num_refills=self._generation.num_refills,
        )

    def _state(self) -> RunState:
        """What a checkpoint written now holds."""
        state = self._boundary if self._shared.buffer.is_lockstep else self._now()
        usage = replace(state.usage, device_hours=self._shared.meter.usage().device_hours)
        known = self._evaluations
        return replace(
            state,
            usage=usage,
            pass_rate=known.pass_rate,
            evaluated_step=known.evaluated_step,
            benchmarked=dict(known.benchmarked),
        )

    async def _checkpoint(self, *, is_last: bool = False) -> None:
        """Begin one, unless there is nothing that the one before it does not hold; wait for the last one."""
        await self._saving.settle()
        has_more = is_last and not self._shared.buffer.is_lockstep
        if self.step and (self._checkpointed_step != self.step or has_more):
            of, state = self._attempt, self._state().frozen()
            self._saving.begin(self.step, partial(to_files, state, of.recipe, of.model))
            self._checkpointed_step = self.step
        if is_last:
            await self._saving.settle()


def make_buffer(recipe: Recipe, state: BufferState[Group]) -> WorkBuffer[Group]:
    """The buffer for the recipe's off-policy mode: depth k, or blocks of k updates."""
    offpolicy = recipe.offpolicy
    depth, push_every = (offpolicy.k, 1) if offpolicy.mode == "pipeline" else (offpolicy.k - 1, offpolicy.k)
    return WorkBuffer(
        prompts_per_step=recipe.rollout.prompts_per_step, depth=depth, push_every=push_every, state=state
    )
