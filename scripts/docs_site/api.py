"""The page of the REST API, written from the OpenAPI document that the server itself gives."""

from collections.abc import Iterable, Iterator

from doc_tables import table

from docs_site.words import cell, text

NOTE = (
    "Written from the OpenAPI document (`/api/v1/openapi.json` of a running server) when this site was built. "
    "A running server has the same with examples at `/api/docs`; [Reading by programs](../api.md) shows how it is\n"
    "used.\n"
)


def page() -> str:
    """Markdown. Django must have been set up."""
    from webapp.interfaces.api.api import api
    from webapp.interfaces.pages.api_docs import groups_of, shapes_of

    document = api.get_openapi_schema(path_prefix="/api/v1/")
    parts = ["# REST API\n", text(document["info"]["description"]) + "\n", NOTE]
    for group in groups_of(document):
        parts.append(f"## {group['title']}\n")
        for operation in group["operations"]:
            parts += _operation(operation)
    parts.append("## Shapes\n")
    for shape in shapes_of(document):
        parts += [f"### {shape['name']}\n"]
        parts += [text(shape["says"]) + "\n"] if shape["says"] else []
        parts += [_fields(shape["members"])] if shape["members"] else []
    return "\n".join(parts)


def _operation(operation) -> Iterator[str]:
    yield f"### {operation['method']} {operation['path']}\n"
    scope = operation["scope"]
    said = [operation["summary"].rstrip("."), f"scope `{scope}`" if scope else "no token"]
    yield f"{text('; '.join(said))}.\n"
    if operation["says"]:
        yield text(operation["says"]) + "\n"
    if operation["parameters"]:
        rows = ([f"`{each['name']}`", each["place"], *_said(each)] for each in operation["parameters"])
        yield table(["parameter", "in", "is", "default", "meaning"], rows)
    if operation["body"]:
        yield "The body:\n"
        yield _fields(operation["body"])
    answers = [*operation["answers"], *operation["refusals"]]
    rows = ([each["status"], _link(each["shape"]), cell(each["says"])] for each in answers)
    yield table(["answer", "is", "when"], rows)


def _fields(members: Iterable) -> str:
    return table(
        ["field", "is", "default", "meaning"], ([f"`{each['name']}`", *_said(each)] for each in members)
    )


def _said(member) -> list[str]:
    """Type, default and meaning."""
    kind, shape, default = cell(member["type"]), member.get("shape"), member["default"]
    said = f"`{cell(default)}`" if default else ("required" if member["required"] else "–")
    return [kind.replace(shape, _link(shape)) if shape else kind, said, cell(member["says"])]


def _link(shape: str) -> str:
    return f"[{shape}](#{shape.lower()})" if shape else "–"
