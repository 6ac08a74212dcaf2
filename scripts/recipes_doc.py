"""Writes the tables of docs/recipes.md from recipes/ and the schema: `python scripts/recipes_doc.py [--check]`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from doc_tables import main, table  # noqa: E402

from training.recipe import load_recipe, recipe_names  # noqa: E402
from training.schema import Recipe  # noqa: E402


def method_table() -> str:
    """What each full recipe chooses on each axis of the paper."""
    header = [
        "recipe", "off-policy", "loss", "aggregation", "advantage", "zero variance", "curriculum", "length",
        "FP32 head", "batch",
    ]  # fmt: skip
    names = [name for name in recipe_names() if "/" not in name]
    order = sorted(names, key=lambda name: (name != "scalerl", name.startswith("scalerl-"), name))
    return table(header, (method_row(load_recipe(name)) for name in order))


def method_row(recipe: Recipe) -> list[str]:
    """One recipe, in the words of the schema."""
    rollout, precision = recipe.rollout, recipe.precision
    heads = {"generator": precision.head_generator, "trainer": precision.head_trainer}
    fp32 = [side for side, dtype in heads.items() if dtype == "float32"]
    estimator = "GAE, " if recipe.uses_critic else ""
    return [
        f"`{recipe.name}`",
        f"{recipe.offpolicy.mode}-{recipe.offpolicy.k}",
        loss_words(recipe),
        recipe.loss.aggregation,
        f"{estimator}{recipe.advantage.norm}",
        recipe.filter.zero_variance,
        recipe.curriculum.mode,
        recipe.length.mode,
        "both" if len(fp32) == 2 else (fp32[0] if fp32 else "none"),
        f"{rollout.prompts_per_step} x {rollout.generations_per_prompt}",
    ]


def loss_words(recipe: Recipe) -> str:
    """Type with its clip range."""
    loss = recipe.loss
    if loss.eps_max is not None:
        return f"{loss.type} {loss.eps_max:g}"
    return f"{loss.type} {loss.eps_low:g}/{loss.eps_high:g}" if loss.eps_low is not None else loss.type


def field_table() -> str:
    """Every field of the schema."""
    rows = ([f"`{path}`", kind(field), default(field), text(field)] for path, field in fields(Recipe))
    return table(["field", "values", "default", "meaning"], rows)


def fields(section: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Dotted path and field of every leaf."""
    for name, field in section.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from fields(inner, f"{prefix}{name}.")
        else:
            yield prefix + name, field


def kind(field: FieldInfo) -> str:
    """Allowed values, in short."""
    annotation: Any = field.annotation
    parts = [part for part in getattr(annotation, "__args__", ()) if part is not type(None)]
    while parts and hasattr(parts[0], "__args__") and not isinstance(parts[0], type):
        parts = list(parts[0].__args__)
    if parts and all(isinstance(part, str) for part in parts):
        return ", ".join(parts)
    name = getattr(parts[0] if parts else annotation, "__name__", str(annotation))
    return {
        "int": "whole number",
        "float": "number",
        "str": "text",
        "bool": "yes or no",
        "Downstream": "list",
    }.get(name, name)


def default(field: FieldInfo) -> str:
    """As YAML would have it; "required" without one."""
    if field.is_required():
        return "required"
    value = field.default_factory() if field.default_factory else field.default  # type: ignore[call-arg]
    if value is None:
        return "open"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if value in ("", {}, ()):
        return "empty"
    plain = list(value) if isinstance(value, tuple) else value
    return f"`{plain:g}`" if isinstance(plain, float) else f"`{plain}`"


def text(field: FieldInfo) -> str:
    """The help text, safe in a table."""
    return (field.description or "").replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(ROOT / "docs" / "recipes.md", {"method": method_table, "fields": field_table}))
