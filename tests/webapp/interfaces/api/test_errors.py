"""Every failure has one form, whatever part of the stack it comes from."""

import pytest

from webapp.base.bodies import MAX_BATCH_BYTES
from webapp.base.errors import MOST_LISTED


def test_no_token(anonymous, problem):
    response = anonymous.get("runs")

    assert problem(response)[:2] == (401, "unauthorized")
    assert response["WWW-Authenticate"] == "Bearer"


def test_wrong_token(anonymous, problem):
    anonymous._client.defaults["HTTP_AUTHORIZATION"] = "Bearer hr_wrong"

    assert problem(anonymous.get("runs"))[:2] == (401, "unauthorized")


@pytest.mark.parametrize("path", ["", "nothing", "runs/", "runs/x/nothing", "fits/abc"])
def test_unknown_address(reader, problem, path):
    assert problem(reader.get(path))[:2] == (404, "not_found")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_unknown_method(reader, problem, method):
    response = reader.request(method, "runs")

    assert problem(response)[:2] == (405, "method_not_allowed")
    assert response["Allow"] == "GET, POST"


@pytest.mark.parametrize(
    "body", [b"{", b"", b'{"seed": NaN}', b'{"recipe": "\\ud800"}', b'{"recipe": "a\\u0000b"}', b"\xff"]
)
def test_malformed_json(launcher, problem, body):
    status, code, field, _ = problem(launcher.post("runs", body))

    assert (status, code) in {(400, "invalid_input"), (422, "invalid_input")}
    assert status == 400 or body == b""


@pytest.mark.parametrize("body", [b"{", b"", b'{"records": NaN}', b"[]", b"null", b"\xff\xfe"])
def test_malformed_batches(writer, tracked, problem, body):
    status, code, _, message = problem(writer.post(f"runs/{tracked.pk}/records", body))

    assert status in {400, 422}
    assert code == "invalid_input"
    assert message


def test_a_body_that_is_too_large(writer, tracked, problem, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10

    assert problem(writer.post(f"runs/{tracked.pk}/records", b" " * 20))[0] == 400  # batches may be larger
    assert problem(writer.post(f"runs/{tracked.pk}/records", b" " * (MAX_BATCH_BYTES + 1)))[:2] == (
        413,
        "too_large",
    )
    assert problem(writer.post("runs", b" " * 20))[:2] == (413, "too_large")


def test_of_many_wrong_values_twenty_are_named(writer, problem):
    body = {"tracked": True} | {f"unknown{i}": 1 for i in range(50)}

    status, code, field, message = problem(writer.post("runs", body))

    assert (status, code, field) == (422, "invalid_input", "unknown0")
    assert message.startswith("unknown0 is not a known field. Wrong, too: unknown1, unknown2, ")
    assert message.endswith("unknown19 and 30 more.")


def test_more_wrong_values_than_can_be_listed_are_counted(writer, problem):
    body = {"tracked": True} | {f"unknown{i}": 1 for i in range(MOST_LISTED + 1)}

    assert problem(writer.post("runs", body))[3] == "The body holds 2,001 values that cannot be used."


def test_nul_in_query_and_address(reader, problem):
    assert problem(reader.get("runs", q="a\0b"))[:3] == (422, "invalid_input", "q")
    assert problem(reader.get("runs/a%00b"))[0] == 404


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"cursor": "%%%"}, "cursor"),
        ({"cursor": "WzEsMl0"}, "cursor"),
        ({"cursor": "WyJub3QgYSBkYXRlIiwgIngiXQ"}, "cursor"),
        ({"state": "melting"}, "state.0"),
    ],
)
def test_bad_queries_name_the_field(reader, problem, query, field):
    assert problem(reader.get("runs", **query))[:3] == (422, "invalid_input", field)


def test_a_bug_is_logged_and_its_text_stays_here(caplog):
    from webapp.interfaces.api import problems

    response = problems._of_bug(ValueError("secret"))

    assert response.status_code == 500
    assert b"secret" not in response.content
    assert "secret" in caplog.text


def test_openapi_describes_every_address_and_the_error_form(anonymous):
    schema = anonymous.get("openapi.json").json()

    assert "/api/v1/runs/{run_id}/records" in schema["paths"]
    operations = [op for path in schema["paths"].values() for op in path.values()]
    assert all("default" not in op["responses"] and "500" in op["responses"] for op in operations)
    assert all(op["security"] == [{"BearerToken": []}] for op in operations)
    assert schema["components"]["schemas"]["ErrorBody"]["required"] == ["error"]
