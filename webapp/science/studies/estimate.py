"""What a study will cost and how long it may take, said with what that is known from."""

from dataclasses import dataclass
from statistics import median

from webapp.identity.accounts.models import Project
from webapp.record.runs.pace import measured_runs, overheads_of
from webapp.science.curves import words
from webapp.science.studies.planning import Plan


@dataclass(frozen=True)
class Pace:
    """How much longer a run lasts than its training: wall hours over training hours, the median of `runs` runs."""

    stretch: float
    runs: int
    same: bool  # of the same task and model; else of any

    @property
    def sentence(self) -> str:
        """Where it comes from."""
        whose = "on the same task and model" if self.same else "on other tasks or models"
        return (
            f"Estimated from {words.count(self.runs, 'earlier run')} {whose}: a run lasts {self.stretch:.2g} times its "
            f"training, with start and evaluations."
        )


UNKNOWN = (
    "Nothing is known of how fast runs go here, since none has ended well yet: "
    "start and evaluations come on top."
)


@dataclass(frozen=True)
class Estimate:
    """runs and device-hours of a plan; `one`, `last_of_all_at_once`, `one_by_one`: wall time in hours."""

    runs: int
    variants: int
    seeds: int
    device_hours: float
    devices: tuple[int, int]  # fewest and most that a run holds
    longest: float
    one_by_one: float
    pace: Pace | None

    @property
    def sentences(self) -> list[str]:
        """What it will cost, how long it may take, and what that is known from."""
        fewest, most = self.devices
        held = words.count(most, "device") if fewest == most else f"{fewest} to {most} devices"
        return [
            f"{words.count(self.variants, 'variant')} with {words.count(self.seeds, 'seed')} each: "
            f"{words.count(self.runs, 'run')}, {words.amount(self.device_hours)} device-hours of training.",
            f"A run holds {held} for about {duration(self.longest)}: {duration(self.one_by_one)} if they come one "
            f"after the other, {duration(self.longest)} if there is room for all at once "
            f"({words.count(self.runs * most, 'device')}).",
            self.pace.sentence if self.pace else UNKNOWN,
        ]


def estimate(project: Project, plan: Plan) -> Estimate:
    """Cost and duration of a plan, with the pace of the project's earlier runs. Two or three queries."""
    first = plan.variants[0]
    pace = pace_of(project, first.task, first.model)
    stretch = pace.stretch if pace else 1.0
    devices = [variant.devices for variant in plan.variants]
    hours = [stretch * plan.budget_hours / count for count in devices]
    return Estimate(
        plan.runs,
        len(plan.variants),
        len(plan.seeds),
        plan.runs * plan.budget_hours,
        (min(devices), max(devices)),
        max(hours),
        len(plan.seeds) * sum(hours),
        pace,
    )


def pace_of(project: Project, task: str, model: str) -> Pace | None:
    """From the newest runs that ended well, of the same task and model where there are any; None without a run."""
    same = measured_runs(project, task=task, model=model)
    measured = same or measured_runs(project)
    return Pace(median(overheads_of(measured)), len(measured), bool(same)) if measured else None


def duration(hours: float) -> str:
    """A time in words: "50 s", "12 min", "3.4 h", "5.2 d"."""
    for unit, size, most in (("s", 1 / 3600, 120), ("min", 1 / 60, 120), ("h", 1.0, 72)):
        if hours / size < most:
            return f"{max(1, round(hours / size)) if size < 1 else format(hours, '.2g')} {unit}"
    return f"{hours / 24:.3g} d"
