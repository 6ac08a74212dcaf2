"""The OpenAPI document as a page for people: operations by tag, and the shapes that they share."""

import json
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
TITLES = {
    "runs": "Runs", "curves": "Curves, fits and the leaderboard", "exports": "Exports", "imports": "Imports",
    "predictions": "Predictions",
    "recipes": "Recipes", "studies": "Studies", "decisions": "Decisions", "alerts": "Alerts",
    "automation": "What happens by itself", "status": "Status",
}  # fmt: skip
QUIET = {"401", "403", "413", "500"}  # the same everywhere: said once, at the top


@dataclass(frozen=True)
class Member:
    """A parameter, or a field of a shape. `shape`: the name of the shape that it holds, where there is one."""

    name: str
    type: str
    says: str
    required: bool
    place: str = ""
    shape: str = ""
    default: str = ""


@dataclass(frozen=True)
class Example:
    content_type: str
    text: str


@dataclass(frozen=True)
class Answer:
    status: str
    says: str
    shape: str = ""
    examples: list[Example] = field(default_factory=list)


@dataclass(frozen=True)
class Operation:
    """One method of one address. `command` does it with curl."""

    key: str
    method: str
    path: str
    summary: str
    says: str
    scope: str
    parameters: list[Member]
    body: list[Member]
    body_example: str
    answers: list[Answer]
    refusals: list[Answer]
    command: str


@dataclass(frozen=True)
class Group:
    key: str
    title: str
    operations: list[Operation]


@dataclass(frozen=True)
class Shape:
    name: str
    says: str
    members: list[Member]


def groups_of(document: Json) -> list[Group]:
    """Operations by their first tag, in the order of TITLES, others last."""
    found: dict[str, list[Operation]] = {}
    for path, operations in document["paths"].items():
        for method, raw in operations.items():
            found.setdefault((raw.get("tags") or ["other"])[0], []).append(
                _operation(document, path, method, raw)
            )
    order = [*TITLES, *sorted(set(found) - set(TITLES))]
    return [Group(tag, TITLES.get(tag, tag.capitalize()), found[tag]) for tag in order if tag in found]


def shapes_of(document: Json) -> list[Shape]:
    """Every shape, by name; one without fields says what it may be."""
    shapes = document["components"]["schemas"]
    return [
        Shape(
            name,
            shape.get("description") or ("" if shape.get("properties") else type_of(shape)),
            members_of(shape),
        )
        for name, shape in sorted(shapes.items())
    ]


def members_of(shape: Json) -> list[Member]:
    """The fields of an object's schema."""
    required = set(shape.get("required", ()))
    return [
        Member(
            name,
            type_of(each),
            each.get("description", ""),
            name in required,
            shape=_shape_in(each),
            default=_default(each),
        )
        for name, each in shape.get("properties", {}).items()
    ]  # fmt: skip


def type_of(schema: Json) -> str:
    """A schema in a few words: "text", "number or null", "list of RunOut"."""
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[-1]
    if "const" in schema or "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema.get("enum", [schema.get("const")]))
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(type_of(each) for each in schema[several]))
    kind = schema.get("type")
    if kind == "array":
        parts = schema.get("prefixItems") or [schema.get("items", {})]
        return f"list of {' and '.join(dict.fromkeys(type_of(each) for each in parts))}"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"object of {type_of(inner)}" if isinstance(inner, dict) and inner else "object"
    return _WORDS.get((kind, schema.get("format")), _WORDS.get((kind, None), "anything"))


_WORDS: dict[tuple[Any, Any], str] = {
    ("string", None): "text", ("string", "date-time"): "time", ("integer", None): "whole number",
    ("number", None): "number", ("boolean", None): "true or false", ("null", None): "null",
}  # fmt: skip


def _operation(document: Json, path: str, method: str, raw: Json) -> Operation:
    body = raw.get("requestBody", {}).get("content", {}).get("application/json", {})
    answers = [_answer(str(status), each) for status, each in raw["responses"].items()]
    return Operation(
        key=raw["operationId"].removeprefix("webapp_api_"),
        method=method.upper(),
        path=path,
        summary=raw.get("summary", ""),
        says=raw.get("description", ""),
        scope=raw.get("x-scope", ""),
        parameters=[_parameter(each) for each in raw.get("parameters", ())],
        body=_body(document, body.get("schema", {})),
        body_example=_pretty(body["example"]) if "example" in body else "",
        answers=[each for each in answers if each.status[0] in "23"],
        refusals=[each for each in answers if each.status[0] not in "23" and each.status not in QUIET],
        command=_command(path, method, body.get("example")),
    )


def _parameter(raw: Json) -> Member:
    schema = raw["schema"]
    says = raw.get("description", "")
    return Member(
        raw["name"], type_of(schema), says, raw.get("required", False), raw["in"], default=_default(schema)
    )


def _body(document: Json, schema: Json) -> list[Member]:
    """The fields of what is sent; of one of several shapes, those of the first."""
    while "properties" not in schema:
        several = schema.get("oneOf") or schema.get("anyOf")
        if several:
            schema = several[0]
        elif "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
        else:
            return []
    return members_of(schema)


def _answer(status: str, raw: Json) -> Answer:
    content = raw.get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    examples = [
        Example(kind, _pretty(each["example"])) for kind, each in content.items() if "example" in each
    ]
    return Answer(status, raw.get("description", ""), _shape_in(schema), examples)


def _shape_in(schema: Json) -> str:
    """The name of the shape in a field, however deep in lists and choices."""
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[-1]
    inner = [schema.get("items"), schema.get("additionalProperties"), *schema.get("anyOf", ())]
    return next((name for each in inner if isinstance(each, dict) and (name := _shape_in(each))), "")


def _default(schema: Json) -> str:
    value = schema.get("default")
    return "" if value in (None, "", []) else json.dumps(value)


def _pretty(example: Any) -> str:
    return example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)


def _command(path: str, method: str, body: Any) -> str:
    parts = ["curl", '-H "Authorization: Bearer $HEADROOM_TOKEN"']
    if method != "get":
        parts.append(f"-X {method.upper()}")
    if body is not None:
        parts += ['-H "Content-Type: application/json"', "-d @body.json"]
    return " ".join([*parts, f'"$HEADROOM_URL{path}"'])
