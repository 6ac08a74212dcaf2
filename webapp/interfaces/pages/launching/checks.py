"""What is wrong with a configuration, each problem beside its setting, and whether a run of it can begin."""

import hashlib
import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.core.cache import cache
from pydantic import ValidationError

from training.hints import Hint, hints
from training.recipe import RecipeError, check_runnable
from training.schema import Recipe
from webapp.base.errors import InvalidInput, sentence
from webapp.base.plain_yaml import strange
from webapp.interfaces.pages.launching.specs import by_path, sections
from webapp.interfaces.pages.launching.values import Config
from webapp.record.recipes.selectors import parameters_of
from webapp.record.recipes.services import check_model_place, misplaced
from webapp.record.runs.bounds import check_budget

LIVE_PATIENCE_SECONDS = 0.5  # for data of the hub, while a person types; the download goes on
CACHED_SECONDS = 15
WHOLE_NUMBER = re.compile(r"(\d+)\.0\b")
TOP = ""  # the key of problems that belong to no single setting


@dataclass
class Checked:
    """The outcome. `problems`: path -> sentences; a key may also be a section, or TOP. `recipe`: None where invalid."""

    recipe: Recipe | None = None
    problems: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    hints: list[Hint] = field(default_factory=list)
    parameters: int | None = None  # of the model; None: not known

    def add(self, path: str, message: str) -> None:
        """One more problem, as a sentence."""
        self.problems[path].append(as_sentence(message))

    @property
    def on_top(self) -> list[str]:
        """What belongs to no single setting, with the section that it is about."""
        titles = {section.key: section.title for section in sections()}
        return [
            f"{titles[key]}: {message[0].lower()}{message[1:]}" if key in titles else message
            for key, messages in self.problems.items()
            if key not in by_path()
            for message in messages
        ]


def as_sentence(text: str) -> str:
    """With a capital and a full stop; names of settings keep their small letter."""
    first = text.split(" ", 1)[0]
    is_name = "_" in first or "." in first.rstrip(".,:")
    start = text[:1] if is_name else text[:1].upper()
    return f"{start}{text[1:]}".rstrip(".") + "."


def check(config: Config, *, live: bool) -> Checked:
    """All problems of a configuration at once; where there are none, whether a run of it can begin, and hints.

    `live`: while a person types. What is slow to find out (data, model) is then remembered for some seconds.
    """
    checked = Checked()
    if problem := strange(config):
        checked.add(TOP, f"the configuration {problem}")
        return checked
    try:
        checked.recipe = Recipe.model_validate(config)
    except ValidationError as error:
        for found in error.errors():
            checked.add(path_of(found["loc"]), _words(dict(found)))
        return checked
    try:
        check_budget(checked.recipe.budget.device_hours)
    except InvalidInput as error:  # nothing more is known of a run that is never accepted
        checked.add("budget.device_hours", error.message.removeprefix("budget_hours "))
        checked.recipe = None
        return checked
    found_problem = _remembered(checked.recipe) if live else runnable_problem(checked.recipe)
    if found_problem is not None:
        checked.add(*found_problem)
    checked.parameters = parameters_of(checked.recipe.model)
    checked.hints = hints(checked.recipe, checked.parameters)
    return checked


def path_of(location: tuple[Any, ...]) -> str:
    """The setting that a place in a configuration belongs to, else its section, else TOP."""
    names = [str(part) for part in location]
    for length in range(len(names), 0, -1):
        if (path := ".".join(names[:length])) in by_path():
            return path
    return names[0] if names and names[0] in {section.key for section in sections()} else TOP


def _words(problem: dict[str, Any]) -> str:
    cause = (problem.get("ctx") or {}).get("error")
    if problem["type"] == "value_error" and cause is not None:
        return str(cause)
    unknown = problem["type"] == "extra_forbidden" or path_of(problem["loc"]) == TOP
    item = next((part for part in problem["loc"] if isinstance(part, int)), None)
    where = (
        ".".join(map(str, problem["loc"])) + " "
        if unknown
        else f"item {item + 1} "
        if item is not None
        else ""
    )
    return where + WHOLE_NUMBER.sub(r"\1", sentence(problem))


def runnable_problem(recipe: Recipe, *, patience: float | None = None) -> tuple[str, str] | None:
    """(setting, why a run could not begin), or None: task, its data, the model, this machine's engine and devices."""
    if wrong := misplaced(recipe):
        return wrong
    try:
        check_model_place(recipe.model)
        if patience is None:
            check_runnable(recipe, settings.HEADROOM_HOME)
        else:
            check_runnable(recipe, settings.HEADROOM_HOME, patience=patience)
    except RecipeError as error:
        return setting_of(error.field, error.reason), error.reason
    return None


def setting_of(field_name: str, reason: str) -> str:
    """The setting that an error of the training code is about."""
    if field_name == "task":
        return "task.options" if reason.startswith("option ") else "task.name"
    if field_name.startswith("config."):
        field_name = field_name.removeprefix("config.")
    return path_of(tuple(field_name.split("."))) if field_name else TOP


def _remembered(recipe: Recipe) -> tuple[str, str] | None:
    """As `runnable_problem`, asked once in a while for the same task, model, engine and devices."""
    rollout, curriculum = recipe.rollout, recipe.curriculum
    depends_on = (
        recipe.task.model_dump(mode="json"), recipe.model, recipe.eval.prompts, curriculum.mode,
        recipe.seed if curriculum.mode.endswith("_ramp") else 0, rollout.max_sequence_tokens, rollout.chat_template,
        recipe.resources.model_dump(mode="json"), recipe.engine.type,
    )  # fmt: skip
    digest = hashlib.sha256(json.dumps(depends_on, sort_keys=True).encode()).hexdigest()
    key = f"runnable-{digest}"
    known = cache.get(key)
    if known is None:
        known = [runnable_problem(recipe, patience=LIVE_PATIENCE_SECONDS)]
        cache.set(key, known, CACHED_SECONDS)
    return known[0]
