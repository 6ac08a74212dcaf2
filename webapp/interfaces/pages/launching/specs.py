"""The recipe's schema as the settings of a form: label, help, kind of widget, bounds, unit and default of each.

Everything is read from the JSON schema of `training.schema.Recipe`, so that a new setting has its field at once.

Settings as texts of a form and as YAML, and back, without losing anything. Pure functions.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import yaml

from training.plain_yaml import DUMPER
from training.recipe import RecipeError, parse_recipe
from training.schema import Recipe
from webapp.base.formats import Unreadable, load_yaml

InputKind = Literal["choice", "switch", "whole", "number", "text", "yaml"]
TOP = "recipe"  # the section of the settings that stand in no section
FEW_CHOICES = 4  # as many as fit beside each other

SECTION_TITLES = {
    TOP: "Name and description",
    "offpolicy": "Off-policy",
    "eval": "Evaluation",
    "optimizer": "Optimiser",
    "resources": "Devices",
    "checkpoint": "Checkpoints",
    "samples": "Samples",
    "length": "Length control",
    "filter": "Prompt filter",
}
LABELS = {
    "name": "Name in the file",
    "offpolicy.k": "Depth k",
    "loss.eps_low": "Clip below",
    "loss.eps_high": "Clip above",
    "loss.eps_max": "Cap on the ratio",
    "loss.kl_coef": "KL coefficient",
    "loss.kl_estimate": "KL estimate",
    "loss.entropy_coef": "Entropy coefficient",
    "loss.old_policy": "Old policy",
    "critic.value_coef": "Value coefficient",
    "critic.eps_value": "Value clip",
    "critic.lam": "Lambda",
    "critic.lr": "Critic's learning rate",
    "optimizer.lr": "Learning rate",
    "optimizer.min_lr_share": "Lowest share of the learning rate",
    "optimizer.eps": "Epsilon",
    "optimizer.max_grad_norm": "Gradient norm clip",
    "engine.kv_cache_mib": "KV cache",
    "engine.gpu_memory_utilization": "Share of a GPU's memory",
    "engine.kv_on_update": "KV cache when weights arrive",
    "resources.generator_gpus": "Generator GPUs",
    "resources.trainer_gpus": "Trainer GPUs",
    "resources.generator_cpus": "Generator CPU cores",
    "resources.trainer_cpus": "Trainer CPU cores",
    "resources.shared": "Take turns on the same devices",
    "eval.k": "Generations a prompt, k",
    "checkpoint.save_model": "Save the model at the end",
    "task.name": "Task",
    "task.options": "Task options",
    "budget.device_hours": "Compute budget",
}
UNITS = {
    "budget.device_hours": "device-hours",
    "budget.max_steps": "updates",
    "rollout.prompts_per_step": "prompts",
    "rollout.generations_per_prompt": "samples",
    "rollout.max_in_flight_prompts": "prompts",
    "rollout.max_untrained_prompts": "prompts",
    "filter.max_refills": "prompts",
    "length.interrupt_low": "tokens",
    "length.interrupt_high": "tokens",
    "engine.max_sequences": "sequences",
    "eval.prompts": "prompts",
    "eval.k": "samples",
    "checkpoint.keep": "checkpoints",
    "samples.groups": "prompts",
    "resources.generator_cpus": "cores",
    "resources.trainer_cpus": "cores",
    "resources.generator_gpus": "GPUs",
    "resources.trainer_gpus": "GPUs",
    "loss.epochs": "updates",
}
UNITS_BY_END = {"_tokens": "tokens", "_steps": "updates", "_mib": "MiB"}
LONG_TEXTS = frozenset({"description", "length.phrase"})


@dataclass(frozen=True)
class Spec:
    """One setting. `path` is dotted; `bounds` are words such as "above 0"; `default` is the schema's."""

    path: str
    label: str
    help: str
    kind: InputKind
    choices: tuple[str, ...] = ()
    optional: bool = False
    required: bool = False  # the schema has no default
    least: float | None = None
    greatest: float | None = None
    bounds: str = ""
    unit: str = ""
    default: Any = None

    @property
    def id(self) -> str:
        """For the ids of the page: a dot would be a class to a selector."""
        return self.path.replace(".", "-")

    @property
    def name(self) -> str:
        """Of the form's field."""
        return f"s.{self.path}"

    @property
    def is_segmented(self) -> bool:
        """Whether the choices stand beside each other rather than in a list."""
        return self.kind == "choice" and not self.optional and len(self.choices) <= FEW_CHOICES

    @property
    def is_long(self) -> bool:
        """Whether the text has room for several lines."""
        return self.path in LONG_TEXTS or self.path == "task.options"


@dataclass(frozen=True)
class SectionSpec:
    """Settings that belong together, in the schema's order."""

    key: str
    title: str
    help: str
    specs: tuple[Spec, ...]


@lru_cache(maxsize=1)
def sections() -> tuple[SectionSpec, ...]:
    """Every setting of a recipe by section, in the schema's order; those outside of any section come first."""
    schema = Recipe.model_json_schema()
    top, parts = [], []
    for name, field in schema["properties"].items():
        if (part := _definition(schema, field)) is None:
            top.append(_spec(name, field, name in schema["required"]))
            continue
        required = part.get("required", ())
        specs = [_spec(f"{name}.{leaf}", of, leaf in required) for leaf, of in part["properties"].items()]
        parts.append(
            SectionSpec(name, _title(name), part.get("description", "").split("\n")[0], tuple(specs))
        )
    return (SectionSpec(TOP, _title(TOP), "", tuple(top)), *parts)


@lru_cache(maxsize=1)
def by_path() -> dict[str, Spec]:
    """Every setting by its dotted path."""
    return {spec.path: spec for section in sections() for spec in section.specs}


def fields_of(schema: dict[str, Any]) -> list[Spec]:
    """The options of a task, out of the JSON schema of its class."""
    required = schema.get("required", ())
    return [_spec(name, field, name in required) for name, field in schema.get("properties", {}).items()]


def _definition(schema: dict[str, Any], field: dict[str, Any]) -> dict[str, Any] | None:
    """The section that a field of the recipe is; None for a plain value."""
    reference = field.get("$ref") or next(
        (part["$ref"] for part in field.get("allOf", ()) if "$ref" in part), ""
    )
    return schema["$defs"][reference.rsplit("/", 1)[-1]] if reference else None


def _title(key: str) -> str:
    return SECTION_TITLES.get(key, key.replace("_", " ").capitalize())


def _spec(path: str, field: dict[str, Any], required: bool) -> Spec:
    variants = [part for part in field.get("anyOf", ()) if part.get("type") != "null"]
    what = variants[0] if variants else field
    return Spec(
        path=path,
        label=LABELS.get(path, path.rsplit(".", 1)[-1].replace("_", " ").capitalize()),
        help=field.get("description", ""),
        kind=_kind(what),
        choices=tuple(str(choice) for choice in what.get("enum", ())),
        optional=bool(variants),
        required=required,
        least=what.get("minimum"),
        greatest=what.get("maximum"),
        bounds=_bounds(what),
        unit=UNITS.get(path) or next((unit for end, unit in UNITS_BY_END.items() if path.endswith(end)), ""),
        default=field.get("default", {} if field.get("type") == "object" else None),
    )


def _kind(what: dict[str, Any]) -> InputKind:
    if "enum" in what:
        return "choice"
    kinds: dict[str, InputKind] = {
        "boolean": "switch",
        "integer": "whole",
        "number": "number",
        "string": "text",
    }
    return kinds.get(what.get("type", ""), "yaml")


def _bounds(what: dict[str, Any]) -> str:
    least, above = what.get("minimum"), what.get("exclusiveMinimum")
    most, below = what.get("maximum"), what.get("exclusiveMaximum")
    if least is not None and (most is not None or below is not None):
        return f"{least:g} to {most:g}" if most is not None else f"{least:g} to below {below:g}"
    parts = [
        f"above {above:g}" if above is not None else "",
        f"{least:g} or more" if least is not None else "",
        f"at most {most:g}" if most is not None else "",
        f"below {below:g}" if below is not None else "",
    ]
    return ", ".join(part for part in parts if part)


Config = dict[str, Any]
WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
EXPONENT = re.compile(r"e([+-]?)0*(\d)")


def get(config: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    value: Any = config
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def put(config: Config, path: str, value: Any) -> None:
    """Set the value at a dotted path, in place; what is in the way is replaced."""
    *parents, leaf = path.split(".")
    for name in parents:
        if not isinstance(config.get(name), dict):
            config[name] = {}
        config = config[name]
    config[leaf] = value


def number_text(value: float) -> str:
    """The shortest text that reads as the same number: "5e-7", "0.95", "16000"."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e6:
        return str(int(value))
    text = repr(value).removesuffix(".0") if abs(value) < 1e16 else repr(value)
    return EXPONENT.sub(lambda found: f"e{found[1].strip('+')}{found[2]}", text)


def cut(text: str, most: int) -> str:
    """The text on one line, in at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


def to_text(spec: Spec, value: Any) -> str:
    """The value as its field shows it; what is not of the setting's kind shows as it was written."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if spec.kind == "yaml" and not isinstance(value, str):
        return _dump(value, flow=not isinstance(value, Mapping)) if value else ""
    if isinstance(value, int | float):
        return number_text(value)
    return value if isinstance(value, str) else _dump(value, flow=True)


def from_text(spec: Spec, text: str) -> Any:
    """What a field's text says. A text that is no number stays a text, and the schema will say so.

    Raises Unreadable for text that is no YAML where YAML is asked for.
    """
    if spec.kind == "text":
        return text.replace("\r\n", "\n") or (None if spec.optional else "")
    text = text.strip()
    if spec.kind == "yaml":
        return _from_yaml(spec, text)
    if not text:
        return None if spec.optional else ""
    if spec.kind == "switch":
        return text in ("true", "on")
    return _number(spec, text)


def _number(spec: Spec, text: str) -> Any:
    if spec.kind == "whole" and WHOLE.fullmatch(text):
        return int(text)
    if spec.kind not in ("whole", "number"):
        return text
    try:
        value = float(text)
    except ValueError:
        return text
    if spec.kind == "whole":
        return int(value) if math.isfinite(value) and value.is_integer() and abs(value) < 1e18 else text
    return value


def _from_yaml(spec: Spec, text: str) -> Any:
    if not text:
        return type(spec.default)() if spec.default in ({}, []) else None
    return load_yaml(text)


def parse_document(text: str) -> Config:
    """A configuration out of YAML (JSON is YAML). Raises Unreadable: "is not YAML in line 3, ...", "must be ..."."""
    value = load_yaml(text)
    if not isinstance(value, dict):
        raise Unreadable("must be a mapping of settings, such as `optimizer:` with `lr: 1e-4` below it")
    return value


def misfit(config: Config) -> str:
    """Why a form could not show this without losing something; empty where it can. Starts with the setting."""
    known = by_path()
    groups = {path.split(".")[0] for path in known if "." in path}
    for name, value in config.items():
        if name in known:
            continue
        if name not in groups:
            return f"{name}: no such setting"
        if not isinstance(value, dict):
            return f"{name}: must be a mapping of settings"
        for leaf in value:
            if f"{name}.{leaf}" not in known:
                return f"{name}.{leaf}: no such setting"
    return next(filter(None, (_unshowable(spec, config) for spec in known.values())), "")


def _unshowable(spec: Spec, config: Config) -> str:
    if (value := get(config, spec.path)) is None:
        return ""
    if spec.kind == "choice" and value not in spec.choices:
        return f"{spec.path}: must be one of {', '.join(spec.choices)}"
    if spec.kind == "switch" and not isinstance(value, bool):
        return f"{spec.path}: must be true or false"
    if spec.kind in ("whole", "number", "text") and isinstance(value, dict | list):
        return f"{spec.path}: must be a single value"
    return ""


def settled(config: Config) -> Config:
    """The configuration as a revision stores it, in the schema's order; as it is where the schema refuses it."""
    try:
        return parse_recipe(config).model_dump(mode="json")
    except RecipeError:
        return config


def document(config: Config) -> str:
    """The configuration as YAML: the schema's order, without settings that are not set. `parse_document` reads it."""
    shown: Config = {}
    for path in by_path():
        if (value := get(config, path)) is not None:
            put(shown, path, value)
    return _dump(shown, flow=False)


class _Dumper(DUMPER):
    """YAML with numbers as people write them: 5.0e-7."""


def _represent_float(dumper: Any, value: float) -> yaml.ScalarNode:
    mantissa, _, exponent = number_text(value).partition("e")
    text = mantissa if "." in mantissa else f"{mantissa}.0"
    if exponent:  # YAML 1.1 reads 5e-7 and 5.0e7 as texts
        text += f"e{exponent}" if exponent.startswith("-") else f"e+{exponent}"
    return dumper.represent_scalar("tag:yaml.org,2002:float", text)


_Dumper.add_representer(float, _represent_float)


def _dump(value: Any, *, flow: bool) -> str:
    text = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100, default_flow_style=flow
    )
    return text.removesuffix("...\n").strip("\n") if flow or not isinstance(value, dict) else text
