"""Generation: prompts in, scored groups into the buffer.

    sampler ─► loop ─► one task a group: generate ─► score ─► (another prompt, if it teaches nothing) ─► WorkBuffer

The loop admits a group when there is room: the staleness bound, the groups that the generator works on, the groups that
nobody has trained on yet. Scoring takes no room in the generator, so a slow verifier never blocks other prompts.
An evaluation does not wait for running groups: `pause` interrupts them and leaves the generator to it, `open` goes on
with them where they were. Groups that are being scored then go on meanwhile.
An error in a group's task ends the run, through the switchboard.
"""

import asyncio

from training.driver.curriculum import ramp_share
from training.driver.snapshot import Attempt, RunState, Shared, Work
from training.driver.staleness import Ticket
from training.driver.stepmetrics import GroupTimes
from training.flops import Work as FlopsWork
from training.rollouts import Draft, Interrupted, Rollouts
from training.tasks import Prompt


class Generation:
    """The groups that are on their way."""

    def __init__(self, attempt: Attempt, shared: Shared, rollouts: Rollouts, start: RunState) -> None:
        """`start.works`: groups that an earlier attempt has begun; their tickets run in `shared.buffer`."""
        self._recipe, self._switch, self._rollouts = attempt.recipe, attempt.switch, rollouts
        self._sampler, self._buffer = shared.sampler, shared.buffer
        self._meter, self._step_metrics = shared.meter, shared.step_metrics
        self._works = {work.ticket.number: work for work in start.works}
        self._waiting = set(self._works)  # numbers of the groups that have begun and are to be gone on with
        self._tasks: dict[asyncio.Task[None], int] = {}
        self._generating: set[int] = set()  # numbers of the groups that the generator works on
        self._scoring: set[int] = set()
        self._replacing: dict[int, int] = {}  # number -> round, of groups that wait for another prompt
        self._is_admitting = False
        self._is_exhausted = False
        self.num_refills = start.num_refills  # since the last step
        self.times = GroupTimes()

    # -- what others see -------------------------------------------------------------------------------------

    @property
    def works(self) -> list[Work]:
        """Groups on their way, by number."""
        return [self._works[number] for number in sorted(self._works)]

    @property
    def is_drained(self) -> bool:
        """Whether every group has finished."""
        return self._buffer.num_running == 0

    @property
    def is_exhausted(self) -> bool:
        """Whether no prompt is left for a further group."""
        return self._is_exhausted

    def open(self) -> None:
        """Go on with groups that have begun, and admit others, from now on."""
        self._rollouts.go_on()
        self._is_admitting = True
        self._switch.changed()

    def close(self) -> None:
        """Hand no more groups to the generator."""
        self._is_admitting = False

    async def pause(self, timeout: float) -> None:
        """Close, and have the generator work on nothing: its groups keep what they have until `open`.

        Raises Stopped, what has failed, or, after `timeout` seconds, WaitTimeout.
        """
        self.close()
        await self._rollouts.interrupt(timeout)
        await self._switch.until(
            lambda: not self._generating, what="running groups to be interrupted", timeout=timeout
        )

    # -- the loop --------------------------------------------------------------------------------------------

    async def loop(self) -> None:
        """Consumes prompts, waits for room; has no end but cancellation."""
        while True:
            await self._switch.until(self._has_room, what="room for one more group")
            work = self._taken_up() if self._waiting else self._begin()
            if work is None:
                self._is_exhausted = True
                self._switch.changed()
                continue
            self._now_generating(work.ticket.number)
            task = self._switch.watch(self._make(work), name=f"group {work.ticket.number}")
            self._tasks[task] = work.ticket.number
            task.add_done_callback(self._tasks.pop)

    def _has_room(self) -> bool:
        if not self._is_admitting or len(self._generating) >= self._recipe.rollout.max_in_flight_prompts:
            return False
        return bool(self._waiting) or (not self._is_exhausted and self._may_begin())

    def _may_begin(self) -> bool:
        limit = self._recipe.rollout.max_untrained_prompts
        is_limited = limit is not None and self._recipe.offpolicy.mode == "pipeline"
        return self._buffer.may_start() and not (is_limited and self._buffer.num_untrained >= (limit or 0))

    def _taken_up(self) -> Work:
        """The oldest group that has begun and waits: its bound is the first to come."""
        number = min(self._waiting)
        self._waiting.remove(number)
        return self._works[number]

    def _begin(self) -> Work | None:
        """A group of the next prompt; None where there is none."""
        if (prompt := self._sampler.next(self._step)) is None:
            return None
        ticket = self._buffer.start()
        work = self._works[ticket.number] = Work(ticket, self._draft(prompt, ticket, 0))
        return work

    @property
    def _step(self) -> int:
        return self._buffer.trainer_version

    def _draft(self, prompt: Prompt, ticket: Ticket, round: int) -> Draft:
        curriculum = self._recipe.curriculum
        share = ramp_share(self._step, curriculum) if curriculum.ramp_length else 1.0
        n = self._recipe.rollout.generations_per_prompt
        return self._rollouts.draft(prompt, n, f"train/{ticket.number}/{round}", share)

    # -- one group -------------------------------------------------------------------------------------------

    async def _make(self, work: Work) -> None:
        """From its prompt to the buffer. An interrupted one stays in `works`, with what it has, and waits."""
        number, replacement = work.ticket.number, None
        try:
            await self._complete(work)
            while self._wants_other(work) and (replacement := await self._replaced(work)):
                work = replacement
                await self._complete(work)
        except Interrupted:
            self._waiting.add(number)
            return
        finally:
            self._leaves_generator(number)
        del self._works[number]
        self._buffer.finish(work.ticket, work.draft.group)
        self._switch.changed()

    async def _complete(self, work: Work) -> None:
        """Generate and score; only then is it counted."""
        number, draft = work.ticket.number, work.draft
        self.times.begins(number)
        await self._rollouts.generate([draft], self._recipe.rollout.temperature)
        self.times.generated(number)
        self._leaves_generator(number)
        self._scoring.add(number)
        try:
            await self._rollouts.score([draft])
        finally:
            self._scoring.discard(number)
        self.times.judged(number)
        response = sum(len(sample.response) for sample in draft.samples)
        self._meter.generated(response, FlopsWork.of(len(sample.tokens) for sample in draft.samples))

    def _now_generating(self, number: int) -> None:
        self._generating.add(number)
        self._step_metrics.generating(len(self._generating))

    def _leaves_generator(self, number: int) -> None:
        self._generating.discard(number)
        self._step_metrics.generating(len(self._generating))
        self._switch.changed()

    # -- dynamic sampling ------------------------------------------------------------------------------------

    def _wants_other(self, work: Work) -> bool:
        settings = self._recipe.filter
        is_dull = settings.zero_variance == "refill" and not work.draft.group.has_variance
        return is_dull and work.round < settings.max_refills

    async def _replaced(self, work: Work) -> Work | None:
        """Another prompt in place of one that teaches nothing; None where there is none.

        It takes the same ticket. That counts as old as when it was handed out, so the staleness bound holds.
        """
        number, round = work.ticket.number, work.round + 1
        if self._buffer.is_lockstep:
            await self._turn(number, round)
        if (prompt := self._sampler.next(self._step)) is None:
            return None
        group = work.draft.group
        self._sampler.record(group.prompt, sum(s.correct for s in group.samples), len(group.samples))
        self.num_refills += 1
        other = self._works[number] = Work(work.ticket, self._draft(prompt, work.ticket, round), round)
        self._now_generating(number)
        return other

    async def _turn(self, number: int, round: int) -> None:
        """Where nothing is gained by haste, prompts are handed out in an order that does not depend on timing:
        first to all groups of the block, then round by round, in each by number."""
        self._replacing[number] = round
        try:
            await self._switch.until(
                lambda: self._is_turn_of(number, round), what=f"the turn of group {number} to be replaced"
            )
        finally:
            del self._replacing[number]
        self._switch.changed()

    def _is_turn_of(self, number: int, round: int) -> bool:
        has_begun = self._is_exhausted or not self._buffer.may_start()
        rounds = {n: self._replacing.get(n, work.round) for n, work in self._works.items()}
        is_first = all(n >= number for n, waiting in self._replacing.items() if waiting == round)
        has_room = len(self._generating) < self._recipe.rollout.max_in_flight_prompts
        return has_begun and has_room and is_first and min(rounds.values()) >= round

    # -- the end ---------------------------------------------------------------------------------------------

    async def interrupt(self, timeout: float) -> None:
        """End all groups with what they have; those that do not end within `timeout` seconds are to be made again.

        Groups that are being scored have all their tokens and are scored again by the next attempt.
        """
        await self._rollouts.interrupt(timeout)
        for task, number in list(self._tasks.items()):
            if number in self._scoring or number in self._replacing:
                task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=timeout)

    async def cancel(self, timeout: float) -> None:
        """End all tasks that there still are."""
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)
