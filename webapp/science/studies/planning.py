"""From what a form asks to variants that can run: every configuration is checked before anything is stored."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

from training.recipe import Recipe, RecipeError, apply_overrides, resolve
from webapp.base.errors import InvalidInput
from webapp.identity.accounts.models import Project
from webapp.record.recipes.models import Revision
from webapp.record.recipes.places import check_model_place
from webapp.record.recipes.selectors import find_revision
from webapp.record.recipes.services import parse_config
from webapp.record.runs.bounds import check_budget
from webapp.record.runs.launch_set import MAX_RUNS
from webapp.science.studies.axes import Change, change_of

MAX_MODEL = 200  # characters
SAYS_NOTHING = ("name", "title", "description")  # fields of a recipe that train nothing


@dataclass(frozen=True)
class Asked:
    """What a study is to hold. `changes` are written as `webapp.science.studies.axes` reads them."""

    recipe: str
    revision: int | None
    changes: tuple[str, ...]
    seeds: tuple[int, ...]
    task: str
    model: str
    budget_hours: float


def with_defaults(
    project: Project,
    *,
    recipe: str,
    revision: int | None,
    changes: Sequence[str],
    seeds: Sequence[int],
    task: str | None,
    model: str | None,
    budget_hours: float | None,
) -> Asked:
    """The same with the base's own task, model and budget where they are None. Raises InvalidInput for no base."""
    config = find_base(project, recipe, revision).config
    return Asked(
        recipe,
        revision,
        tuple(changes),
        tuple(seeds),
        task if task is not None else config["task"]["name"],
        model if model is not None else config["model"],
        budget_hours if budget_hours is not None else config["budget"]["device_hours"],
    )


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


def plan(project: Project, asked: Asked) -> Plan:
    """Every variant, checked as a launch would check it. Nothing is stored.

    Raises InvalidInput: fields recipe, revision, task, model, seeds, budget_hours, and changes.<number of the change>
    with the axis and the reason.
    """
    base = find_base(project, asked.recipe, asked.revision)
    recipe = parse_config(base.config)
    check_seeds(asked.seeds)
    check_budget(asked.budget_hours)
    if len(asked.model) > MAX_MODEL:
        raise InvalidInput("model", f"model must have at most {MAX_MODEL} characters.")
    if not asked.changes:
        raise InvalidInput("changes", "Choose at least one change: a study compares variants with the base.")
    first = _checked(Variant(None, recipe, asked.task, asked.model), asked)
    variants = [first, *(_variant(index, recipe, asked) for index in range(len(asked.changes)))]
    _check_distinct(variants)
    count = len(variants) * len(asked.seeds)
    if count > MAX_RUNS:
        raise InvalidInput("seeds", f"A study has at most {MAX_RUNS} runs, not {count}.")
    return Plan(base, tuple(variants), asked.seeds, asked.budget_hours)


def find_base(project: Project, slug: str, number: int | None) -> Revision:
    """The revision that a study starts from. Raises InvalidInput (field recipe or revision)."""
    found = find_revision(project, slug, number)
    if found is None and number is not None and find_revision(project, slug, None):
        raise InvalidInput("revision", f"The recipe {slug} has no revision {number}.")
    if found is None:
        raise InvalidInput("recipe", f"There is no recipe {slug}.")
    return found


def check_seeds(seeds: Sequence[int]) -> None:
    """Raises InvalidInput (field seeds) without any, for one given twice, or one that is no seed."""
    if not seeds:
        raise InvalidInput("seeds", "seeds must name at least one.")
    if len(set(seeds)) < len(seeds):
        raise InvalidInput("seeds", "seeds must name each seed once.")
    if any(isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**31 for seed in seeds):
        raise InvalidInput("seeds", "seeds must be whole numbers from 0 to 2147483647.")


def _variant(index: int, base: Recipe, asked: Asked) -> Variant:
    field = f"changes.{index}"
    try:
        change = change_of(asked.changes[index], base)
    except InvalidInput as error:
        raise InvalidInput(field, error.message) from None
    where = f"{change.axis_title} ({change.token})"
    try:
        config = apply_overrides(base, change.overrides)
        task = config.task.name if "task" in change.overrides else asked.task
        variant = Variant(change, config, task, change.model or asked.model)
        return _checked(variant, asked)
    except RecipeError as error:
        reason = f"{error.field}: {error.reason}" if error.field else error.reason
        raise InvalidInput(field, f"{where} cannot run: {reason}.") from None
    except InvalidInput as error:
        raise InvalidInput(field, f"{where} cannot run: {error.message}") from None


def _checked(variant: Variant, asked: Asked) -> Variant:
    """As the launch will resolve it. Raises InvalidInput naming the field."""
    try:
        check_model_place(variant.model)
        resolve(
            variant.config,
            task=variant.task,
            model=variant.model,
            seed=asked.seeds[0],
            device_hours=asked.budget_hours,
            home=settings.HEADROOM_HOME,
        )
    except RecipeError as error:
        raise InvalidInput(error.field or "recipe", f"{error.field or 'recipe'}: {error.reason}.") from None
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
