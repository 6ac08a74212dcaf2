"""Recipes: load, override, hash, resolve. The schema is `training.schema`; the files are in `recipes/`."""

import hashlib
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from headroom.system import gpu_bytes, machine_bytes
from training import memory, models, tasks
from training.benchmarks import make_benchmark
from training.engine_choice import EngineMissing, refuse_missing, refuse_rounded_head
from training.lessons import LESSONS
from training.misfits import misfits
from training.plain_yaml import LOADER
from training.schema import Recipe, Resources

__all__ = [
    "RECIPES",
    "Recipe",
    "RecipeError",
    "apply_overrides",
    "content_hash",
    "hash_of",
    "load_recipe",
    "parse_recipe",
    "recipe_names",
    "resolve",
]

RECIPES = Path(__file__).resolve().parent.parent / "recipes"
SIZES = Path(__file__).resolve().parent / "sizes"
ACCELERATOR_FILES = ("nvidia[0-9]*", "dxg", "kfd")  # in /dev: NVIDIA, NVIDIA under WSL, AMD


class RecipeError(ValueError):
    """A recipe that cannot be used. `field` is a dotted path, `reason` a sentence without it."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field, self.reason = field, reason


@contextmanager
def blame_field(field: str, *errors: type[Exception]) -> Iterator[None]:
    """Have these errors be a RecipeError of the field."""
    try:
        yield
    except errors as error:
        raise RecipeError(field, str(error)) from None


def recipe_names() -> list[str]:
    """Names of the committed recipes ("scalerl", "tiny/scalerl", ...), sorted, the full ones first."""
    names = [path.relative_to(RECIPES).with_suffix("").as_posix() for path in RECIPES.rglob("*.yaml")]
    return sorted(names, key=lambda name: ("/" in name, name))


def load_recipe(path_or_name: str | Path) -> Recipe:
    """Read a recipe by file path or by the name of a committed one.

    `extends: NAME` merges another recipe in first, then `size: NAME` an overlay of `training/sizes/`.
    """
    return parse_recipe(_read(_locate(str(path_or_name)), seen=()))


def parse_recipe(data: Mapping[str, Any]) -> Recipe:
    """Validate a complete configuration, e.g. a stored one. RecipeError names the first wrong field."""
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        raise _recipe_error(error) from None


def apply_overrides(recipe: Recipe, overrides: Mapping[str, Any]) -> Recipe:
    """A new recipe with dotted keys replaced: `{"optimizer.lr": 1e-4}`. Unknown keys are refused."""
    data = recipe.model_dump(mode="json")
    for key, value in overrides.items():
        *parents, leaf = key.split(".")
        target: Any = data
        for parent in parents:
            target = target.get(parent) if isinstance(target, dict) else None
        if not isinstance(target, dict) or (leaf not in target and parents[-1:] != ["options"]):
            raise RecipeError(key, "no such field")
        target[leaf] = value
    if (
        overrides.get("loss.type", recipe.loss.type) != recipe.loss.type
    ):  # clip values belong to their loss type
        of_other_type = {
            name for name in data["loss"] if name.startswith("eps_") and f"loss.{name}" not in overrides
        }
        data["loss"] = {name: value for name, value in data["loss"].items() if name not in of_other_type}
    return parse_recipe(data)


def content_hash(recipe: Recipe) -> str:
    """SHA-256 (hex) of the recipe's canonical JSON: sorted keys, no spaces."""
    return hash_of(recipe.model_dump(mode="json"))


def hash_of(config: Mapping[str, Any]) -> str:
    """As `content_hash`, of a stored configuration, which the schema of today need not know."""
    canonical = json.dumps(config, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def resolve(
    recipe: Recipe, *, task: str, model: str, seed: int, device_hours: float, home: Path | None = None
) -> Recipe:
    """The recipe that a run will train: task, model, seed and budget filled in and checked.

    Raises RecipeError with field "task", "model", "seed" or "budget_hours" where one of these is at fault.
    """
    if task not in tasks.task_names():
        raise RecipeError("task", f"no task named {task!r}; there are: {', '.join(tasks.task_names())}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**31:
        raise RecipeError("seed", "must be a whole number from 0 to 2147483647")
    if not isinstance(device_hours, int | float) or not math.isfinite(device_hours) or device_hours <= 0:
        raise RecipeError("budget_hours", "must be a number above 0")
    options = recipe.task.options if recipe.task.name == task else {}
    resolved = apply_overrides(
        recipe,
        {
            "task": {"name": task, "options": options},
            "model": model,
            "seed": seed,
            "budget.device_hours": float(device_hours),
        },
    )
    check_runnable(resolved, home)
    return resolved


def check_runnable(
    recipe: Recipe, home: Path | None = None, *, patience: float = tasks.PATIENCE_SECONDS
) -> tasks.Task:
    """The recipe's task. RecipeError (field "task", "eval.prompts", "eval.downstream", "curriculum.mode", "model", one
    of engine, precision or resources) where the task, a benchmark, their data, the model, the engine, the devices or
    their memory cannot do what is asked.

    `patience`: longest download of data, seconds. With RAY_ADDRESS another cluster trains: its engines say themselves
    what they lack.
    """
    with blame_field("task", tasks.TaskError):
        task = tasks.make_task(recipe.task.name, recipe.task.options, home, patience=patience)
    with blame_field("eval.prompts", ValueError):
        task.held_out_prompts(recipe.eval.prompts)
    for each in recipe.eval.downstream:
        with blame_field("eval.downstream", tasks.TaskError):
            make_benchmark(each.task, each.options, home, patience=patience)
    if recipe.curriculum.mode.endswith("_ramp"):
        _check_difficulties(recipe, task)
    _check_model(recipe, home)
    check_devices(recipe.resources)
    if not os.environ.get("RAY_ADDRESS"):
        with blame_field("engine.type", EngineMissing):
            refuse_missing(recipe.engine.type)
        with blame_field("precision.head_generator", ValueError):
            refuse_rounded_head(recipe)
    return task


def _check_model(recipe: Recipe, home: Path | None) -> None:
    """A model of the hub, or a tiny one, that is not here yet is fetched, and checked, when the run starts."""
    if models.is_to_be_downloaded(recipe.model, home):
        return
    rollout = recipe.rollout
    with blame_field("model", models.ModelError):
        if models.is_to_be_made(recipe.model, home):
            context = LESSONS[recipe.model].context
            models.check_context(recipe.model, context, rollout.max_sequence_tokens)
            return
        folder = models.check_model(
            recipe.model, home, min_context=rollout.max_sequence_tokens, chat_template=rollout.chat_template
        )
    with suppress(memory.Unknown):  # of another family: its start says what does not fit
        shape = memory.Shape.of(folder / "config.json")
        for misfit in misfits(on_gpus_here(recipe), shape, machine=memory_here()):
            raise RecipeError(misfit.field, misfit.sentence)


def _check_difficulties(recipe: Recipe, task: tasks.Task) -> None:
    """A ramp goes from the easiest prompts to all of them, so each must say how difficult it is."""
    prompts = task.training_prompts(recipe.seed)
    if unknown := sum(prompt.difficulty is None for prompt in prompts):
        raise RecipeError(
            "curriculum.mode",
            f"{recipe.curriculum.mode} needs the difficulty of every prompt; {unknown} of {len(prompts)} training "
            f"prompts of the task {recipe.task.name} have none",
        )


def _locate(path_or_name: str) -> Path:
    path = Path(path_or_name)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise RecipeError("", f"no recipe file {path_or_name}")
        return path
    if path_or_name not in recipe_names():
        raise RecipeError("", f"no recipe named {path_or_name!r}; there are: {', '.join(recipe_names())}")
    return RECIPES / f"{path_or_name}.yaml"


def _read(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    if path.resolve() in seen:
        raise RecipeError("extends", f"{path.name} extends itself")
    try:
        data = yaml.load(path.read_text(), Loader=LOADER)  # nosec B506  # a safe one
    except yaml.YAMLError as error:
        raise RecipeError("", f"{path} is not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(data, dict):
        raise RecipeError("", f"{path} must hold a mapping")
    base, size = data.pop("extends", None), data.pop("size", None)
    merged = _read(_locate(str(base)), (*seen, path.resolve())) if base else {}
    if size:
        merged = _merge(merged, _read_size(str(size)))
    return _merge(merged, data)


def _read_size(name: str) -> dict[str, Any]:
    """The overlay that scales any recipe to a machine, e.g. "tiny"."""
    path = SIZES / f"{name}.yaml"
    if path.parent != SIZES or not path.is_file():
        known = ", ".join(sorted(file.stem for file in SIZES.glob("*.yaml")))
        raise RecipeError("size", f"no size named {name!r}; there are: {known}")
    return yaml.load(path.read_text(), Loader=LOADER)  # nosec B506  # a safe one


def _merge(base: dict[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """A new mapping in which the overlay wins; mappings merge, everything else is replaced."""
    merged = dict(base)
    for key, value in overlay.items():
        both_mappings = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both_mappings else value
    if "type" in overlay and overlay["type"] != base.get("type"):  # clip values belong to their loss type
        merged = {key: value for key, value in merged.items() if key in overlay or not key.startswith("eps_")}
    is_renamed = overlay.get("name", base.get("name")) != base.get("name")
    if "options" in base and is_renamed:  # options belong to their task
        merged["options"] = overlay.get("options", {})
    return merged


def _recipe_error(error: ValidationError) -> RecipeError:
    first = error.errors()[0]
    reason = {"extra_forbidden": "no such field", "missing": "is missing"}.get(first["type"], first["msg"])
    return RecipeError(".".join(str(part) for part in first["loc"]), reason.removeprefix("Value error, "))


def check_devices(
    resources: Resources, devices: Path = Path("/dev"), sizes: Callable[[], Sequence[int]] = gpu_bytes
) -> None:
    """Raises RecipeError where more GPUs are asked for than this machine has, which will train.

    With RAY_ADDRESS another cluster trains, and what it has is known when the run asks for its place.
    """
    wanted = [name for name in ("generator_gpus", "trainer_gpus") if getattr(resources, name)]
    if os.environ.get("RAY_ADDRESS") or not wanted:
        return
    there = "this machine has {}, and RAY_ADDRESS names no other cluster"
    if not any(any(devices.glob(name)) for name in ACCELERATOR_FILES):
        count = getattr(resources, wanted[0])
        some = f"{count} GPU{'s' if count > 1 else ''}"
        raise RecipeError(f"resources.{wanted[0]}", f"asks for {some}; {there.format('none')}")
    if 0 < (found := len(sizes())) < resources.devices:
        asked = f"generator and trainer ask for {resources.devices} GPUs together"
        raise RecipeError(f"resources.{wanted[-1]}", f"{asked}; {there.format(found)}")


def memory_here() -> int | None:
    """Bytes of this machine's memory where it will train; None where another cluster does (RAY_ADDRESS)."""
    return None if os.environ.get("RAY_ADDRESS") else machine_bytes()


def on_gpus_here(recipe: Recipe, sizes: Callable[[], Sequence[int]] = gpu_bytes) -> Recipe:
    """Where this machine will train, with the memory of its smallest GPU, if that is smaller than the recipe says."""
    resources = recipe.resources
    if os.environ.get("RAY_ADDRESS") or not resources.generator_gpus + resources.trainer_gpus:
        return recipe
    gib = round(min(sizes(), default=sys.maxsize) / memory.GIB, 1)
    if gib >= resources.gpu_gib:
        return recipe
    return recipe.model_copy(update={"resources": resources.model_copy(update={"gpu_gib": gib})})
