"""The OpenAPI document as a page for people: operations by tag, and the shapes that they share.

All of it goes into `docs/api.html`, as mappings.
"""

import json
from typing import Any

Json = dict[str, Any]
TITLES = {
    "runs": "Runs", "curves": "Curves, fits and the leaderboard", "exports": "Exports", "imports": "Imports",
    "predictions": "Predictions",
    "recipes": "Recipes", "studies": "Studies", "decisions": "Decisions", "alerts": "Alerts",
    "automation": "What happens by itself", "status": "Status",
}  # fmt: skip
QUIET = {"401", "403", "413", "500"}  # the same everywhere: said once, at the top


def groups_of(document: Json) -> list[Json]:
    """{"key", "title", "operations"}: by the operations' first tag, in the order of TITLES, others last."""
    found: dict[str, list[Json]] = {}
    for path, operations in document["paths"].items():
        for method, raw in operations.items():
            found.setdefault((raw.get("tags") or ["other"])[0], []).append(
                _operation(document, path, method, raw)
            )
    order = [*TITLES, *sorted(set(found) - set(TITLES))]
    return [
        {"key": tag, "title": TITLES.get(tag, tag.capitalize()), "operations": found[tag]}
        for tag in order
        if tag in found
    ]


def shapes_of(document: Json) -> list[Json]:
    """{"name", "says", "members"} of every shape, by name; one without fields says what it may be."""
    return [
        {
            "name": name,
            "says": shape.get("description") or ("" if shape.get("properties") else type_of(shape)),
            "members": members_of(shape),
        }
        for name, shape in sorted(document["components"]["schemas"].items())
    ]


def members_of(shape: Json) -> list[Json]:
    """The fields of an object's schema."""
    required = set(shape.get("required", ()))
    return [
        _member(name, each, each.get("description", ""), name in required) | {"shape": _shape_in(each)}
        for name, each in shape.get("properties", {}).items()
    ]


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


def _operation(document: Json, path: str, method: str, raw: Json) -> Json:
    """One method of one address. `command` does it with curl."""
    body = raw.get("requestBody", {}).get("content", {}).get("application/json", {})
    answers = [_answer(str(status), each) for status, each in raw["responses"].items()]
    return {
        "key": raw["operationId"].removeprefix("webapp_api_"),
        "method": method.upper(),
        "path": path,
        "summary": raw.get("summary", ""),
        "says": raw.get("description", ""),
        "scope": raw.get("x-scope", ""),
        "parameters": [
            _member(each["name"], each["schema"], each.get("description", ""), each.get("required", False))
            | {"place": each["in"]}
            for each in raw.get("parameters", ())
        ],
        "body": _body(document, body.get("schema", {})),
        "body_example": _pretty(body["example"]) if "example" in body else "",
        "answers": [each for each in answers if each["status"][0] in "23"],
        "refusals": [
            each for each in answers if each["status"][0] not in "23" and each["status"] not in QUIET
        ],
        "command": _command(path, method, body.get("example")),
    }


def _member(name: str, schema: Json, says: str, required: bool) -> Json:
    """A parameter, or a field of a shape."""
    value = schema.get("default")
    default = "" if value in (None, "", []) else json.dumps(value)
    return {"name": name, "type": type_of(schema), "says": says, "required": required, "default": default}


def _body(document: Json, schema: Json) -> list[Json]:
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


def _answer(status: str, raw: Json) -> Json:
    content = raw.get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    examples = [
        {"content_type": kind, "text": _pretty(each["example"])}
        for kind, each in content.items()
        if "example" in each
    ]
    return {
        "status": status,
        "says": raw.get("description", ""),
        "shape": _shape_in(schema),
        "examples": examples,
    }


def _shape_in(schema: Json) -> str:
    """The name of the shape in a field, however deep in lists and choices."""
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[-1]
    inner = [schema.get("items"), schema.get("additionalProperties"), *schema.get("anyOf", ())]
    return next((name for each in inner if isinstance(each, dict) and (name := _shape_in(each))), "")


def _pretty(example: Any) -> str:
    return example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)


def _command(path: str, method: str, body: Any) -> str:
    parts = ["curl", '-H "Authorization: Bearer $HEADROOM_TOKEN"']
    if method != "get":
        parts.append(f"-X {method.upper()}")
    if body is not None:
        parts += ['-H "Content-Type: application/json"', "-d @body.json"]
    return " ".join([*parts, f'"$HEADROOM_URL{path}"'])
