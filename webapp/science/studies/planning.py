"""From what a form asks to variants that can run: every configuration is checked before anything is stored.

What a study will cost and how long it may take, said with what that is known from.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from training.recipe import Recipe, RecipeError, apply_overrides
from webapp.base.errors import InvalidInput, refuse
from webapp.identity.accounts.models import Project
from webapp.record.recipes.models import Revision
from webapp.record.recipes.services import parse_config
from webapp.record.runs.bounds import check_budget
from webapp.record.runs.launch import resolved_config, revision_of
from webapp.record.runs.launch_set import MAX_RUNS
from webapp.record.runs.pace import measured_runs, overheads_of
from webapp.science.curves import words
from webapp.science.studies.axes import Change, change_of
from webapp.science.studies.models import StudyKind

MAX_MODEL = 200  # characters
SAYS_NOTHING = ("name", "title", "description")  # fields of a recipe that train nothing
UNKNOWN = (
    "Nothing is known of how fast runs go here, since none has ended well yet: "
    "start and evaluations come on top."
)


@dataclass(frozen=True, kw_only=True)
class StudyRequest:
    """What a study is to hold. `changes` are written as `webapp.science.studies.axes` reads them; task, model and
    budget None: the base's own."""

    name: str = ""
    kind: str = StudyKind.LEAVE_ONE_OUT
    recipe: str
    revision: int | None = None
    changes: tuple[str, ...]
    seeds: tuple[int, ...]
    task: str | None = None
    model: str | None = None
    budget_hours: float | None = None


@dataclass(frozen=True)
class Base:
    """What the variants of a study differ from: a revision with the task, the model and the budget of its runs."""

    revision: Revision
    task: str
    model: str
    budget_hours: float


def base_of(project: Project, request: StudyRequest) -> Base:
    """Raises InvalidInput (recipe, revision)."""
    revision = revision_of(project, request.recipe, request.revision)
    config, hours = revision.config, request.budget_hours
    task = request.task if request.task is not None else config["task"]["name"]
    model = request.model if request.model is not None else config["model"]
    return Base(revision, task, model, hours if hours is not None else config["budget"]["device_hours"])


@dataclass(frozen=True)
class Variant:
    """The base (`change` None) or what differs from it in one thing: configuration, task and model of its runs."""

    change: Change | None
    config: Recipe
    task: str
    model: str

    @property
    def label(self) -> str:
        """Its name in tables and legends."""
        return "Base" if self.change is None else self.change.label

    @property
    def devices(self) -> int:
        """What one of its runs holds."""
        return self.config.resources.devices


@dataclass(frozen=True)
class Plan:
    """A base revision and the variants of a study, the base first."""

    base: Revision
    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]
    budget_hours: float

    @property
    def runs(self) -> int:
        """How many runs the plan launches."""
        return len(self.variants) * len(self.seeds)


def plan(project: Project, request: StudyRequest) -> Plan:
    """Every variant, checked as a launch would check it. Nothing is stored.

    Raises InvalidInput: fields recipe, revision, task, model, seeds, budget_hours, and changes.<number of the change>
    with the axis and the reason.
    """
    return plan_of(base_of(project, request), request)


def plan_of(base: Base, request: StudyRequest) -> Plan:
    """As `plan`, of a base that was looked up."""
    recipe, changes, seeds = parse_config(base.revision.config), request.changes, request.seeds
    check_seeds(seeds)
    check_budget(base.budget_hours)
    refuse(
        (len(base.model) > MAX_MODEL, "model", f"model must have at most {MAX_MODEL} characters."),
        (not changes, "changes", "Choose at least one change: a study compares variants with the base."),
    )
    check = partial(_checked, seed=seeds[0], hours=base.budget_hours)
    first = check(Variant(None, recipe, base.task, base.model))
    variants = [first, *(_variant(index, change, first, check) for index, change in enumerate(changes))]
    _check_distinct(variants)
    count = len(variants) * len(seeds)
    if count > MAX_RUNS:
        raise InvalidInput("seeds", f"A study has at most {MAX_RUNS} runs, not {count}.")
    return Plan(base.revision, tuple(variants), seeds, base.budget_hours)


def check_seeds(seeds: Sequence[int]) -> None:
    """Raises InvalidInput (field seeds) without any, for one given twice, or one that is no seed."""
    are_seeds = all(type(seed) is int and 0 <= seed < 2**31 for seed in seeds)
    refuse(
        (not seeds, "seeds", "seeds must name at least one."),
        (len(set(seeds)) < len(seeds), "seeds", "seeds must name each seed once."),
        (not are_seeds, "seeds", "seeds must be whole numbers from 0 to 2147483647."),
    )


def _variant(index: int, text: str, base: Variant, check: Callable[[Variant], Variant]) -> Variant:
    field = f"changes.{index}"
    try:
        change = change_of(text, base.config)
    except InvalidInput as error:
        raise InvalidInput(field, error.message) from None
    where = f"{change.axis_title} ({change.token})"
    try:
        config = apply_overrides(base.config, change.overrides)
        task = config.task.name if "task" in change.overrides else base.task
        return check(Variant(change, config, task, change.model or base.model))
    except RecipeError as error:
        reason = f"{error.field}: {error.reason}" if error.field else error.reason
        raise InvalidInput(field, f"{where} cannot run: {reason}.") from None
    except InvalidInput as error:
        raise InvalidInput(field, f"{where} cannot run: {error.message}") from None


def _checked(variant: Variant, *, seed: int, hours: float) -> Variant:
    """As the launch will resolve it. Raises InvalidInput naming the field."""
    resolved_config(variant.config, task=variant.task, model=variant.model, seed=seed, budget_hours=hours)
    return variant


def what_it_trains(config: Recipe) -> dict:
    """The configuration without its names."""
    return config.model_dump(mode="json", exclude=set(SAYS_NOTHING))


def _check_distinct(variants: Sequence[Variant]) -> None:
    seen: list[tuple[dict, str, str]] = []
    for index, variant in enumerate(variants):
        content = (what_it_trains(variant.config), variant.task, variant.model)
        if content in seen:
            same = "the base" if seen.index(content) == 0 else f"{variants[seen.index(content)].label}"
            assert variant.change is not None
            raise InvalidInput(
                f"changes.{index - 1}", f"{variant.change.token} changes nothing: it is the same as {same}."
            )
        seen.append(content)


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
