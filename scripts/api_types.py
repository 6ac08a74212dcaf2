"""Writes headroom/api_types.py from the API's schemas: `python scripts/api_types.py [--check]`."""

import os
import subprocess
import sys
import textwrap
from datetime import datetime
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

import django  # noqa: E402

django.setup()

from ninja import Schema  # noqa: E402

from webapp.interfaces.api import curve_schemas, prediction_schemas, schemas, studies  # noqa: E402
from webapp.record.runs.models import State  # noqa: E402

FILE = ROOT / "headroom" / "api_types.py"
HEAD = '''"""What `headroom.Api` gives, as types: the JSON of the HTTP API; times are ISO 8601.

Written by scripts/api_types.py from the schemas of the server.
"""

from typing import Any, Literal, TypedDict

'''
GIVEN = (
    schemas.RecordOut, schemas.RunDetail, curve_schemas.CurveOut, curve_schemas.SeriesOut,
    curve_schemas.SampledColumnsOut, curve_schemas.ColumnsOut, curve_schemas.FitOut, curve_schemas.GroupOut,
    prediction_schemas.PredictionDetail, studies.StudyDetail, schemas.RecipeOut,
)  # fmt: skip
NAMED = {schemas.Axis: "Axis", State: "State"}
WIDTH = 110


def written() -> str:
    """The module as it should be."""
    choices = [f"{name} = {_choice(kind)}\n" for kind, name in NAMED.items()]
    classes: dict[type[Schema], str] = {}
    for shape in GIVEN:
        _add(shape, classes)
    text = "\n\n".join((HEAD + "".join(choices), *classes.values()))
    made = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(FILE), "-"],
        input=text, capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    return made.stdout


def _add(shape: type[Schema], classes: dict[type[Schema], str]) -> None:
    """The class of a schema, after those that it needs."""
    if shape in classes:
        return
    base: Any = shape.__base__
    extends = base if base.model_fields else None
    if extends is not None:
        _add(extends, classes)
    inherited = set(extends.model_fields) if extends is not None else set()
    lines = [
        f"class {_name(shape)}({_name(extends) if extends else 'TypedDict'}):",
        f'    """{_said(shape)}"""',
        "",
    ]
    for field, info in shape.model_fields.items():
        if field not in inherited:
            lines += _field(field, _kind(info.annotation, classes), info.description or "")
    classes[shape] = "\n".join(lines) + "\n"


def _said(shape: type[Schema]) -> str:
    said = " ".join((shape.__dict__.get("__doc__") or "").split())
    if not said:
        raise SystemExit(f"{shape.__name__} has no docstring")
    return said.replace("null", "None")


def _field(name: str, kind: str, description: str) -> list[str]:
    line = f"    {name}: {kind}"
    said = description.strip().replace("null", "None").replace("`", "").removesuffix(".")
    if not said:
        return [line]
    if len(whole := f"{line}  # {said}") <= WIDTH:
        return [whole]
    return [*textwrap.wrap(said, WIDTH, initial_indent="    # ", subsequent_indent="    # "), line]


def _name(shape: type[Schema]) -> str:
    return shape.__name__.removesuffix("Out")


def _choice(kind: Any) -> str:
    values = get_args(kind) or [each.value for each in kind]
    return f"Literal[{', '.join(repr(value) for value in values)}]"


def _kind(kind: Any, classes: dict[type[Schema], str]) -> str:
    """What a value is once it came as JSON."""
    if kind in NAMED:
        return NAMED[kind]
    origin, inner = get_origin(kind), [each for each in get_args(kind) if each is not Ellipsis]
    if origin is Literal:
        return _choice(kind)
    if origin in (Union, UnionType):
        return " | ".join(_kind(each, classes) for each in inner)
    if origin in (list, tuple):
        return f"list[{_kind(inner[0], classes)}]"
    if origin is dict:
        return f"dict[str, {_kind(inner[1], classes)}]"
    if isinstance(kind, type) and issubclass(kind, Schema):
        _add(kind, classes)
        return _name(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _choice(kind)
    return {datetime: "str", NoneType: "None", Any: "Any"}.get(kind) or kind.__name__


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(int(FILE.read_text() != written()))
    FILE.write_text(written())
