"""A day on a cluster in steps of five minutes: runs come, are handed over as decisions say, and end."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf

from tests.webapp.record.runs.admission.plain import NOW
from training.bundles import Amounts, place
from webapp.record.runs.admission.deciding import decide, in_order
from webapp.record.runs.admission.parts import (
    AtWork,
    Cluster,
    Decision,
    Holding,
    Queued,
    Room,
    Share,
    Span,
    Why,
)

STEP = timedelta(minutes=5)
STEP_HOURS = 5 / 60
MOST_STEPS = 40_000


@dataclass(frozen=True)
class Job:
    """What comes: at which step, how many steps it takes, and what is known of that before."""

    run: Queued
    comes: int
    takes: int


@dataclass
class Day:
    """`uses` of each project: device-hours of cores. `waited`: run -> steps."""

    nodes: Sequence[Amounts]
    jobs: Sequence[Job]
    weights: dict[int, float]
    step: int = 0
    working: dict[str, tuple[Job, int, Holding]] = field(default_factory=dict)
    queue: dict[str, Job] = field(default_factory=dict)
    uses: dict[int, float] = field(default_factory=dict)
    waited: dict[str, int] = field(default_factory=dict)
    promised: dict[str, float] = field(default_factory=dict)  # who was head -> hour by which it starts
    passed: int = 0

    def live(self, *, until_ended: int | None = None) -> None:
        """Until all have started, or so many steps are over."""
        coming = sorted(self.jobs, key=lambda job: job.comes)
        while (coming or self.queue) and (until_ended is None or self.step < until_ended):
            assert self.step < MOST_STEPS, f"{len(self.queue)} runs starve"
            while coming and coming[0].comes <= self.step:
                job = coming.pop(0)
                self.queue[job.run.run] = job
            self._decide()
            self._go_on()

    @property
    def hour(self) -> float:
        return self.step * STEP_HOURS

    def _decide(self) -> None:
        now = NOW + self.step * STEP
        shares = {project: Share(weight, self._used(project)) for project, weight in self.weights.items()}
        order = in_order((job.run for job in self.queue.values()), shares, now)
        decision = decide(
            order, [self._at_work(*each) for each in self.working.values()], Cluster(self.nodes), shares
        )
        self._check_promises([run.run for run in order], decision)
        for run in decision.start:
            self._start(self.queue.pop(run))

    def _check_promises(self, order: list[str], decision: Decision) -> None:
        """A head starts when it was told to, as long as nobody came before it meanwhile."""
        places = {run: place for place, run in enumerate(order)}
        for run in decision.start:
            assert self.hour <= self.promised.get(run, inf) + 1e-6, f"{run} was passed and came late"
        head = next((wait for wait in decision.waits if wait.why == Why.CLUSTER), None)
        name = head.run.run if head else ""
        before = places.get(name, 0)
        self.passed += sum(places[run] > before for run in decision.start) if head else 0
        came_before = any(places[run] < before for run in decision.start)
        self.promised = {} if came_before else {run: by for run, by in self.promised.items() if run == name}
        if head and head.starts and head.starts.most is not None:
            self.promised.setdefault(name, self.hour + head.starts.most)

    def _used(self, project: int) -> float:
        running = sum(job.run.hours for job, _, _ in self.working.values() if job.run.project == project)
        return self.uses.get(project, 0.0) + running

    def _at_work(self, job: Job, began: int, holding: Holding) -> AtWork:
        gone = (self.step - began) * STEP_HOURS
        lasts = job.run.lasts
        left = Span(max(0.0, lasts.least - gone), None if lasts.most is None else max(0.0, lasts.most - gone))
        run = job.run
        return AtWork(run.run, run.project, run.priority, run.bundles, holds=holding, left=left)

    def _start(self, job: Job) -> None:
        """On what is free indeed."""
        room = Room(self.nodes)
        for _, _, holding in self.working.values():
            room.take(holding)
        holding = place(job.run.bundles, room.free)
        assert holding is not None, f"{job.run.run} was handed over without room"
        self.working[job.run.run] = job, self.step, holding
        self.waited[job.run.run] = self.step - job.comes

    def _go_on(self) -> None:
        self.step += 1
        for run, (job, began, _) in list(self.working.items()):
            if self.step - began >= job.takes:
                del self.working[run]
                self.uses[job.run.project] = self.uses.get(job.run.project, 0.0) + job.run.hours


def job(
    name: str, project: int, bundles, *, comes: int, takes: int, slack: int | None = 0, priority: int = 1
) -> Job:
    """`slack`: steps that it may be shorter or longer than it is; None: nothing is known."""
    then = NOW + comes * STEP
    lasts = (
        Span() if slack is None else Span(max(1, takes - slack) * STEP_HOURS, (takes + slack) * STEP_HOURS)
    )
    hours = takes * STEP_HOURS * sum(bundle["CPU"] for bundle in bundles)
    run = Queued(name, project, priority, then, then, hours, bundles)
    return Job(run._replace(lasts=lasts), comes, takes)
