"""Settings as texts of a form and as YAML, and back, without losing anything. Pure functions."""

import math
import re
from collections.abc import Mapping
from typing import Any

import yaml

from training.recipe import RecipeError, parse_recipe
from webapp.base.plain_yaml import Unreadable, load_yaml
from webapp.interfaces.pages.launching.specs import Spec, by_path

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
    value = get(config, spec.path)
    if value is None:
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
        value = get(config, path)
        if value is not None:
            put(shown, path, value)
    return _dump(shown, flow=False)


class _Dumper(yaml.SafeDumper):
    """YAML with numbers as people write them: 5.0e-7."""


def _represent_float(dumper: yaml.SafeDumper, value: float) -> yaml.ScalarNode:
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
