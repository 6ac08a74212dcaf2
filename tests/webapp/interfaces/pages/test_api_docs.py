"""/api/docs: every operation and shape of the document, for whoever looks."""

import re

import pytest

from webapp.interfaces.api.api import api
from webapp.interfaces.pages.api_docs import groups_of, shapes_of, type_of


@pytest.fixture
def document(db):
    return api.get_openapi_schema()


def test_it_is_open_and_holds_to_the_policy(client, db):
    answer = client.get("/api/docs")

    assert answer.status_code == 200
    text = answer.content.decode()
    assert "unsafe" not in answer["Content-Security-Policy"].replace("style-src-attr 'unsafe-inline'", "")
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=", text)
    assert not re.search(r"(?:src|href)=\"https?:", text)


def test_it_has_every_operation_and_every_link_leads_somewhere(client, document):
    text = client.get("/api/docs").content.decode()
    known = {(one["method"], one["path"]) for group in groups_of(document) for one in group["operations"]}

    assert known == {(m.upper(), path) for path, found in document["paths"].items() for m in found}
    ids = set(re.findall(r'id="([^"]+)"', text))
    assert set(re.findall(r'href="#([^"]+)"', text)) - ids == set()
    assert len(ids) == len(re.findall(r'id="([^"]+)"', text))


def test_an_operation_says_what_it_takes_gives_and_refuses(document):
    (records,) = [
        one
        for group in groups_of(document)
        for one in group["operations"]
        if one["key"] == "runs_post_records"
    ]

    assert (records["scope"], records["method"]) == ("write", "POST")
    assert [(member["name"], member["type"]) for member in records["body"]] == [("records", "list of object")]
    assert '"device_hours"' in records["body_example"]
    assert '"accepted": 1' in records["answers"][0]["examples"][0]["text"]
    assert [refusal["status"] for refusal in records["refusals"]] == ["400", "404", "409", "414", "422"]
    assert records["command"].endswith('-d @body.json "$HEADROOM_URL/api/v1/runs/{run_id}/records"')


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "number or null"),
        ({"type": "array", "items": {"$ref": "#/components/schemas/RunOut"}}, "list of RunOut"),
        ({"enum": ["a", "b"]}, '"a" | "b"'),
        ({"type": "string", "format": "date-time"}, "time"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "object of whole number"),
        ({}, "anything"),
    ],
)
def test_types_in_words(schema, words):
    assert type_of(schema) == words


def test_shapes_name_their_fields(document):
    run = next(shape for shape in shapes_of(document) if shape["name"] == "RunOut")

    assert {"id", "state", "budget_hours"} <= {member["name"] for member in run["members"]}
