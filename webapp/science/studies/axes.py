"""What a study can change: the choices that the leave-one-out set takes back, named axes, any setting by its path.

A change is written `axis=value`: `loss=dapo`, `batch=512`, `optimizer.lr=1e-6`. The alternatives of the committed
leave-one-out recipes are read from those recipes, at the base's own size, so that they cannot drift apart.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from training.recipe import Recipe, load_recipe, recipe_names
from webapp.base.errors import InvalidInput
from webapp.base.formats import Unreadable, load_yaml
from webapp.record.recipes.selectors import parameters_of

BASE_NAME = "scalerl"
MAX_TOKEN = 100  # characters of one change
Overrides = dict[str, Any]
NOT_A_CHANGE = {
    "name": "a name trains nothing",
    "title": "a title trains nothing",
    "description": "a description trains nothing",
    "seed": "seeds are given for all runs of a study",
    "budget": "the budget is the same for all runs of a study",
    "task": "the task is the same for all runs of a study; mixture=… changes what it is mixed of",
}


@dataclass(frozen=True)
class Change:
    """One difference from the base. `overrides`: dotted path -> value; `model`: of the runs, where that is the axis.

    `recipe` names the committed recipe that makes this change, where there is one.
    """

    axis: str
    axis_title: str
    value: str
    label: str
    sentence: str
    overrides: Overrides = field(default_factory=dict)
    number: float | None = None
    model: str | None = None
    recipe: str = ""

    @property
    def token(self) -> str:
        """As a request writes it."""
        return f"{self.axis}={self.value}"


@dataclass(frozen=True)
class Alternative:
    """Another value of a choice; its overrides are those of the committed recipe where it names one."""

    value: str
    label: str
    overrides: Overrides = field(default_factory=dict)
    recipe: str = ""


@dataclass(frozen=True)
class Choice:
    """A choice of the base that can be taken back, and for what."""

    key: str
    title: str
    sentence: str
    alternatives: tuple[Alternative, ...]


CHOICES = {
    choice.key: choice
    for choice in (
        Choice("loss", "Policy loss", "How far one step may move the probability of a token.", (
            Alternative("dapo", "DAPO loss", recipe="loo-dapo"),
            Alternative("gspo", "GSPO loss", {"loss.type": "gspo"}),
            Alternative("grpo", "GRPO loss", {"loss.type": "grpo"}),
        )),
        Choice("off-policy", "Off-policy mode", "How old the weights may be that made a sample.", (
            Alternative("ppo-8", "PPO-off-policy-8", recipe="loo-8op"),
            Alternative("ppo-1", "PPO-off-policy-1", {"offpolicy.mode": "ppo", "offpolicy.k": 1}),
            Alternative("pipeline-4", "PipelineRL-4", {"offpolicy.mode": "pipeline", "offpolicy.k": 4}),
        )),
        Choice("head", "Precision of the head", "In which precision generator and trainer compute their logits.", (
            Alternative("bfloat16", "no FP32 head", recipe="loo-fp32"),
            Alternative("trainer", "FP32 head on the trainer only", {"precision.head_generator": "bfloat16"}),
            Alternative("generator", "FP32 head on the generator only", {"precision.head_trainer": "bfloat16"}),
        )),
        Choice("average", "Average of the loss", "Over what the loss of a batch is averaged.", (
            Alternative("sample", "sample average", recipe="loo-savg"),
            Alternative("token", "token average", {"loss.aggregation": "token"}),
        )),
        Choice("advantage", "Advantage norm", "By whose standard deviation an advantage is divided.", (
            Alternative("prompt", "prompt-level advantage norm", recipe="loo-plan"),
            Alternative("none", "no advantage norm", {"advantage.norm": "none"}),
        )),
        Choice("length", "Length control", "What happens to thinking that becomes too long.", (
            Alternative("penalty", "length penalty", recipe="loo-lp"),
            Alternative("none", "no length control", {"length.mode": "none"}),
        )),
        Choice("zero-variance", "Zero-variance prompts", "What happens to prompts whose samples all score the same.", (
            Alternative("keep", "zero-variance prompts kept", recipe="loo-batch"),
            Alternative("refill", "zero-variance prompts replaced", {"filter.zero_variance": "refill"}),
        )),
        Choice("curriculum", "Curriculum", "Whether prompts that are solved already come again.", (
            Alternative("uniform", "no curriculum", recipe="loo-npr"),
        )),
    )
}  # fmt: skip


class ChangeError(ValueError):
    """A value that an axis cannot have; its text follows "axis=value: "."""


def number_in(text: str) -> float | None:
    """The number that a text is; None for words, truth values, and what is not finite."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


STATED_SIZE = re.compile(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)([kmbt])(?![A-Za-z0-9])", re.IGNORECASE)
POWERS = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


def stated_size(name: str) -> float | None:
    """The parameters that a name states: 7e9 of "Qwen2.5-7B"; of several (all and the active ones) the first."""
    found = STATED_SIZE.search(name)
    return float(found[1]) * POWERS[found[2].lower()] if found else None


def model_size(model: str) -> float | None:
    """Parameters of a model: counted where it is on this machine, else as its name states them."""
    return parameters_of(model) or stated_size(model)


@dataclass(frozen=True)
class NamedAxis:
    """An axis that moves several settings together. `overrides(base, text)` raises ChangeError; `number(text)`: where a
    value stands among the others, None on an axis of words."""

    key: str
    title: str
    unit: str
    help: str
    overrides: Callable[[Recipe, str], Overrides]
    of_base: Callable[[Recipe], float | None]
    number: Callable[[str], float | None] = number_in


def change_of(token: str, base: Recipe) -> Change:
    """The change that `axis=value` asks of this base. Raises InvalidInput (field changes) naming axis and reason."""
    if len(token) > MAX_TOKEN or not token.isprintable():
        raise InvalidInput("changes", f"A change has at most {MAX_TOKEN} characters, all of them printable.")
    axis, sign, value = (part.strip() for part in token.partition("="))
    if not (sign and axis and value):
        raise InvalidInput("changes", f"{token.strip()!r} is no change: write setting=value.")
    try:
        if axis in CHOICES:
            return _taken_back(CHOICES[axis], value, base)
        if axis in NAMED_AXES:
            return _on_named_axis(NAMED_AXES[axis], value, base)
        return _setting(axis, value)
    except ChangeError as error:
        raise InvalidInput("changes", f"{axis}={value}: {error}.") from None


def _taken_back(choice: Choice, value: str, base: Recipe) -> Change:
    found = next((one for one in choice.alternatives if one.value == value), None)
    if found is None:
        known = ", ".join(one.value for one in choice.alternatives)
        raise ChangeError(f"{choice.title.lower()} can be {known}")
    overrides = committed_overrides(found.recipe, size_of(base)) if found.recipe else found.overrides
    return Change(
        choice.key, choice.title, value, found.label, choice.sentence, dict(overrides), recipe=found.recipe
    )


def size_of(base: Recipe) -> str:
    """The size that a recipe's name states: "tiny" of "tiny/scalerl", else ""."""
    size, sign, _ = base.name.rpartition("/")
    return size if sign and f"{size}/{BASE_NAME}" in recipe_names() else ""


@lru_cache(maxsize=64)
def committed_overrides(recipe: str, size: str) -> Mapping[str, Any]:
    """Dotted path -> value of all that a committed leave-one-out recipe changes in ScaleRL of the same size."""
    prefix = f"{size}/" if size else ""
    before, after = (
        _flat(load_recipe(f"{prefix}{name}").model_dump(mode="json")) for name in (BASE_NAME, recipe)
    )
    names = ("name", "title", "description")
    changed = {path: value for path, value in after.items() if before.get(path) != value}
    return {path: value for path, value in changed.items() if path not in names and value is not None}


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, dict) and value and name != "options":
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def setting_paths(base: Recipe) -> list[str]:
    """Every setting that can be changed by its path, in the order of the schema."""
    paths = _flat(base.model_dump(mode="json"))
    return [path for path in paths if path.split(".")[0] not in {*NOT_A_CHANGE, "model"}]


def _setting(path: str, text: str) -> Change:
    top = path.split(".")[0]
    if top in NOT_A_CHANGE and not path.startswith("task.options."):
        raise ChangeError(NOT_A_CHANGE[top])
    try:
        value = load_yaml(text)
    except Unreadable as error:
        raise ChangeError(f"the value {error}") from None
    return Change(
        path, path, text, f"{path} {text}", f"The setting {path} alone.", {path: value}, number_in(text)
    )


def base_number(axis: str, base: Recipe) -> float | None:
    """Where the base stands on a numeric axis; None on others."""
    if axis in NAMED_AXES:
        return NAMED_AXES[axis].of_base(base)
    value = _flat(base.model_dump(mode="json")).get(axis)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def base_value(axis: str, base: Recipe) -> str:
    """What the base has on this axis, in words; empty where one word does not say it."""
    if axis == "model":
        return base.model
    if (number := base_number(axis, base)) is not None:
        return f"{number:g}"
    value = _flat(base.model_dump(mode="json")).get(axis)
    return "" if value is None else str(value)


# --- named axes -----------------------------------------------------------------------------------------------


def _on_named_axis(axis: NamedAxis, text: str, base: Recipe) -> Change:
    overrides = axis.overrides(base, text)
    label = f"{axis.title.lower()} {text}" if axis.key != "model" else text
    model = text if axis.key == "model" else None
    return Change(axis.key, axis.title, text, label, axis.help, overrides, axis.number(text), model)


def _whole(text: str) -> int:
    number = number_in(text)
    if number is None or number != int(number) or not 1 <= number < 2**31:
        raise ChangeError("must be a whole number above 0")
    return int(number)


def _batch(base: Recipe, text: str) -> Overrides:
    generations = base.rollout.generations_per_prompt
    prompts, rest = divmod(_whole(text), generations)
    if rest or not prompts:
        raise ChangeError(f"must be a multiple of {generations}, the generations of one prompt")
    return _prompts(base, prompts)


def _prompts(base: Recipe, prompts: int) -> Overrides:
    """Another number of prompts; what is in flight keeps its proportion, and so its staleness."""
    rollout = base.rollout
    scaled = lambda count: max(1, round(count * prompts / rollout.prompts_per_step))
    found: Overrides = {
        "rollout.prompts_per_step": prompts,
        "rollout.max_in_flight_prompts": scaled(rollout.max_in_flight_prompts),
    }
    if rollout.max_untrained_prompts is not None:
        found["rollout.max_untrained_prompts"] = max(prompts, scaled(rollout.max_untrained_prompts))
    return found


def _generations(base: Recipe, text: str) -> Overrides:
    generations = _whole(text)
    batch = base.rollout.prompts_per_step * base.rollout.generations_per_prompt
    prompts = max(1, round(batch / generations))
    return _prompts(base, prompts) | {"rollout.generations_per_prompt": generations}


def _length(base: Recipe, text: str) -> Overrides:
    """Room for thinking alone grows; what is measured in its tokens grows in proportion, and so does the memory."""
    total, rollout, length = _whole(text), base.rollout, base.length
    thinking = total - rollout.max_prompt_tokens - rollout.max_answer_tokens
    if thinking < 1:
        least = rollout.max_prompt_tokens + rollout.max_answer_tokens
        raise ChangeError(f"must be above {least}, the tokens of prompt and answer")
    scaled = lambda tokens: max(1, int(tokens * thinking / rollout.max_thinking_tokens))
    found: Overrides = {
        "rollout.max_thinking_tokens": thinking,
        "trainer.micro_batch_tokens": max(base.trainer.micro_batch_tokens, total),
    }
    if (memory := base.engine.kv_cache_mib) is not None:
        found["engine.kv_cache_mib"] = max(memory, math.ceil(memory * total / rollout.max_sequence_tokens))
    if length.mode == "interruption":
        found |= {
            "length.interrupt_low": scaled(length.interrupt_low),
            "length.interrupt_high": scaled(length.interrupt_high),
        }
    if length.mode == "penalty":
        found |= {
            "length.penalty_max_tokens": scaled(length.penalty_max_tokens),
            "length.penalty_cache_tokens": scaled(length.penalty_cache_tokens),
        }
    return found


def _mixture(base: Recipe, text: str) -> Overrides:
    """`math:1+code:3`: parts with their weights; options of a part are those that the base has for it."""
    own = {base.task.name: {"task": base.task.name, "options": base.task.options}}
    if base.task.name == "mixture":
        parts = base.task.options.get("parts", [])
        own = {part.get("name") or part["task"]: dict(part) for part in parts}
    found = []
    for piece in text.split("+"):
        name, _, weight = (part.strip() for part in piece.partition(":"))
        number = number_in(weight or "1")
        if not name or number is None or number <= 0:
            raise ChangeError("write the parts as task:weight+task:weight, weights above 0")
        found.append(own.get(name, {"task": name, "options": {}}) | {"weight": number})
    return {"task": {"name": "mixture", "options": {"parts": found}}}


NAMED_AXES = {
    axis.key: axis
    for axis in (
        NamedAxis(
            "batch", "Batch", "samples", "Prompts times generations of one update; generations stay.", _batch,
            lambda base: base.rollout.prompts_per_step * base.rollout.generations_per_prompt,
        ),
        NamedAxis(
            "context", "Sequence length", "tokens",
            "Prompt, thinking and answer together; the room for thinking takes the difference.", _length,
            lambda base: base.rollout.max_sequence_tokens,
        ),
        NamedAxis(
            "generations", "Generations per prompt", "generations",
            "The size of a group; the number of prompts changes so that the batch stays as near as it can.",
            _generations, lambda base: base.rollout.generations_per_prompt,
        ),
        NamedAxis(
            "model", "Model", "parameters", "Names of models, e.g. of several sizes.", lambda base, text: {},
            lambda base: model_size(base.model), model_size,
        ),
        NamedAxis(
            "mixture", "Task mixture", "", "Parts with their weights, such as math:1+code:3.", _mixture,
            lambda base: None, lambda text: None,
        ),
    )
}  # fmt: skip
