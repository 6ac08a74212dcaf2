"""From a study file to its runs: each resolved, checked, and there once, however many studies it belongs to."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from training import models
from training.recipe import (
    RecipeError,
    apply_overrides,
    check_runnable,
    content_hash,
    load_recipe,
    recipe_names,
)
from training.schema import Recipe
from training.study.file import Study, Written
from training.study.text import Loc

NO_LIMIT_HOURS = 1e6  # budget.device_hours of a run that its steps end
ID_LENGTH = 16


class Place(NamedTuple):
    """Where a run stands."""

    study: str
    arm: str


@dataclass(frozen=True)
class PlannedRun:
    """A run to train. The same configuration and seed in several studies is one run."""

    recipe: Recipe
    minutes: float  # of wall clock, for one try
    places: tuple[Place, ...]

    @property
    def content_hash(self) -> str:
        """Of the configuration with its seed and budget."""
        return content_hash(self.recipe)

    @property
    def id(self) -> str:
        """Name of its folder."""
        return self.content_hash[:ID_LENGTH]

    @property
    def steps(self) -> int:
        """Its budget."""
        assert self.recipe.budget.max_steps is not None
        return self.recipe.budget.max_steps

    def __str__(self) -> str:
        first = self.places[0]
        return f"{first.study}.{first.arm} seed {self.recipe.seed} ({self.id})"


def plan(written: Written) -> list[PlannedRun]:
    """Seed by seed over all arms of all studies, so that whatever has been trained is balanced. Raises StudyFileError
    for a recipe that is not there and overrides that it does not take."""
    bases: dict[Place, Recipe] = {}
    found: list[tuple[Loc, str]] = []
    for place, study in enumerate(written.says.studies):
        for arm in study.arms:
            try:
                bases[Place(study.name, arm)] = _recipe_of(study, arm)
            except RecipeError as error:
                found.append(_located(study, place, arm, error))
        found += list(_same(study, place, bases))
    if found:
        raise written.error(list(dict.fromkeys(found)))
    runs: dict[str, PlannedRun] = {}
    for one in _in_order(written.says.studies, bases):
        known = runs.setdefault(one.id, one)
        if known is not one:
            minutes = max(known.minutes, one.minutes)
            runs[one.id] = replace(known, places=known.places + one.places, minutes=minutes)
    return list(runs.values())


def _same(study: Study, place: int, bases: dict[Place, Recipe]) -> Iterator[tuple[Loc, str]]:
    """Arms that would be the same runs: there is nothing to compare."""
    seen: dict[str, str] = {}
    for arm in study.arms:
        if Place(study.name, arm) in bases:
            first = seen.setdefault(content_hash(bases[Place(study.name, arm)]), arm)
            if first != arm:
                yield ("studies", place, "arms", arm), f"trains the same as the arm {first}"


def _recipe_of(study: Study, arm: str) -> Recipe:
    if study.recipe not in recipe_names():
        raise RecipeError("recipe", f"no committed recipe is named {study.recipe!r}")
    steps = study.budget_of(arm).steps
    budget = {"budget.max_steps": steps, "budget.device_hours": NO_LIMIT_HOURS}
    recipe = apply_overrides(load_recipe(study.recipe), study.settings | study.arms[arm].settings | budget)
    if steps < (between := recipe.eval.every_steps):
        raise RecipeError(
            "budget", f"less than the steps between evaluations, {between}: there would be no curve"
        )
    return recipe


def _located(study: Study, place: int, arm: str, error: RecipeError) -> tuple[Loc, str]:
    """The override that is at fault: the arm's, the study's, or else the arm as a whole."""
    at: Loc = ("studies", place)
    if error.field == "recipe":
        return (*at, "recipe"), error.reason
    if error.field == "budget":
        own = ("arms", arm) if study.arms[arm].budget else ()
        return (*at, *own, "budget", "steps"), error.reason
    for loc, settings in (
        ((*at, "arms", arm), study.arms[arm].settings),
        ((*at, "settings"), study.settings),
    ):
        for key in settings:
            if error.field and (error.field == key or error.field.startswith(f"{key}.")):
                return (*loc, key), (error.reason if error.field == key else str(error))
    return (*at, "arms", arm), str(error)


def _in_order(studies: Sequence[Study], bases: dict[Place, Recipe]) -> Iterator[PlannedRun]:
    most = max(len(study.seeds_of(arm)) for study in studies for arm in study.arms)
    for number in range(most):
        for study in studies:
            for arm in study.arms:
                seeds = study.seeds_of(arm)
                if number < len(seeds):
                    place = Place(study.name, arm)
                    recipe = bases[place].model_copy(update={"seed": seeds[number]})
                    yield PlannedRun(recipe, study.budget_of(arm).minutes, (place,))


def only(runs: Iterable[PlannedRun], wanted: str) -> list[PlannedRun]:
    """Those of one study, or of one arm of it: `STUDY` or `STUDY.ARM`. Raises ValueError where there is none."""
    study, _, arm = wanted.partition(".")
    all_runs = list(runs)
    found = [run for run in all_runs if any(p.study == study and arm in ("", p.arm) for p in run.places)]
    if not found:
        names = sorted({place.study for run in all_runs for place in run.places})
        raise ValueError(f"there is no {wanted!r}; there are the studies {', '.join(names)}")
    return found


def models_to_make(runs: Iterable[PlannedRun], home: Path) -> list[str]:
    """Those that `python -m training pretrain` may have to make: not here, or of its making."""
    names = dict.fromkeys(run.recipe.model for run in runs)
    return [name for name in names if "/" not in name and _is_made_here(name, home)]


def _is_made_here(name: str, home: Path) -> bool:
    try:
        return (models.find_model(name, home) / "COMPLETE.json").is_file()
    except models.ModelError:
        return True


def check_runs(written: Written, runs: Iterable[PlannedRun], home: Path, *, with_models: bool = True) -> None:
    """Whether this machine can train all of them: tasks, data, models, engines, devices. Raises StudyFileError.

    `with_models` False: models that are not here yet will be made.
    """
    found: dict[str, tuple[Loc, str]] = {}
    for run in runs:
        content: dict[str, Any] = run.recipe.model_dump(mode="json")
        key = json.dumps(content | {"seed": 0}, sort_keys=True)
        if key in found:
            continue
        try:
            check_runnable(run.recipe, home)
        except RecipeError as error:
            if with_models or error.field != "model":
                found[key] = (_loc_of(written, run), str(error))
                continue
        found[key] = ((), "")
    if problems := [(loc, reason) for loc, reason in found.values() if reason]:
        raise written.error(problems)


def _loc_of(written: Written, run: PlannedRun) -> Loc:
    names = [study.name for study in written.says.studies]
    return "studies", names.index(run.places[0].study), "arms", run.places[0].arm
