"""Every failure has one form, whatever part of the stack it comes from."""

import pytest
from django.http import StreamingHttpResponse
from django.test import RequestFactory
from django.urls import path

from webapp.base.requests import MAX_BATCH_BYTES
from webapp.interfaces.api.problems import in_our_form


def test_no_token(anonymous, problem):
    response = anonymous.get("runs")

    assert problem(response)[:2] == (401, "unauthorized")
    assert response["WWW-Authenticate"] == "Bearer"


def test_wrong_token(anonymous, problem):
    anonymous._client.defaults["HTTP_AUTHORIZATION"] = "Bearer hr_wrong"

    assert problem(anonymous.get("runs"))[:2] == (401, "unauthorized")


@pytest.mark.parametrize(
    "path", ["", "nothing", "nothing/", "runs/x/nothing/", "runs/x/nothing", "fits/abc", "fits/abc/", "a%0Ab"]
)
def test_unknown_address(reader, problem, path):
    assert problem(reader.get(path))[:2] == (404, "not_found")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_unknown_method(reader, problem, method):
    response = reader.request(method, "runs")

    assert problem(response)[:2] == (405, "method_not_allowed")
    assert response["Allow"] == "GET, HEAD, OPTIONS, POST"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("runs", "GET, HEAD, OPTIONS, POST"), ("runs/x", "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("runs/x/stop", "OPTIONS, POST"), ("runs/x/stop/", "OPTIONS, POST"), ("openapi.json", "GET, HEAD, OPTIONS"),
    ],
)  # fmt: skip
def test_options_tells_the_methods_to_everybody(anonymous, path, allowed):
    response = anonymous.request("OPTIONS", path)

    assert (response.status_code, response["Allow"], response.content) == (204, allowed, b"")


@pytest.mark.parametrize(
    "path", ["runs", "runs/{run}", "runs/{run}/curve", "leaderboard", "openapi.json", "runs/x"]
)
def test_head_is_get_without_its_body(reader, tracked, path):
    path = path.format(run=tracked.pk)
    known, head = reader.get(path), reader.request("HEAD", path)

    assert (head.status_code, head.content) == (known.status_code, b"")
    told = [{name: each[name] for name in each.headers if name != "X-Request-ID"} for each in (known, head)]
    assert told[0] == told[1]


def test_head_asks_for_the_same_token(anonymous, stranger, tracked):
    assert anonymous.request("HEAD", "runs").status_code == 401
    assert stranger.request("HEAD", f"runs/{tracked.pk}").status_code == 404


def test_head_does_not_begin_a_stream():
    begun = []
    (file,) = in_our_form(
        [path("file", lambda request: StreamingHttpResponse(begun.append(each) for each in "ab"))]
    )

    response = file.callback(RequestFactory().head("/file"))

    assert (response.status_code, list(response), begun) == (200, [], [])


@pytest.mark.parametrize("path", ["runs", "runs/{run}", "runs/{run}/curve", "openapi.json"])
def test_a_slash_at_the_end_changes_nothing(reader, tracked, path):
    path = path.format(run=tracked.pk)

    assert reader.get(f"{path}/").json() == reader.get(path).json()
    assert reader.request("HEAD", f"{path}/").status_code == 200


def test_a_slash_at_the_end_keeps_query_token_and_body(reader, anonymous, writer, problem, tracked):
    assert problem(reader.get("runs/", limit=0))[:3] == (422, "invalid_input", "limit")
    assert problem(anonymous.get("runs/"))[0] == 401
    assert writer.post("runs/", {"tracked": True, "name": "with a slash"}).status_code == 201
    assert reader.get("runs/", q="with a slash").json()["items"][0]["name"] == "with a slash"


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


def test_more_wrong_values_than_can_be_listed_are_counted(writer, problem, monkeypatch):
    monkeypatch.setattr("webapp.base.errors.MOST_LISTED", 30)
    body = {"tracked": True} | {f"unknown{i}": 1 for i in range(40)}

    assert problem(writer.post("runs", body))[3] == "The body holds 40 values that cannot be used."


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


@pytest.mark.parametrize(
    ("path", "name", "hint"),
    [
        ("runs", "fitler", 'did you mean "filter"?'),
        ("fits", "Limit", 'did you mean "limit"?'),
        ("runs/{run}", "filter", "this address takes none."),
        ("runs/{run}/transitions", "cursor", "this address takes none."),
        ("compare", "zzz", "this address takes budget, by, recipe, reference, run, view, x."),
    ],
)
def test_an_unknown_query_parameter_is_named_with_the_nearest(reader, problem, tracked, path, name, hint):
    said = {"run": tracked.pk} if path == "compare" else {}
    answer = problem(reader.get(path.format(run=tracked.pk), **said, **{name: "x"}))

    assert answer == (422, "invalid_input", name, f"{name} is not a known query parameter; {hint}")


def test_no_write_is_done_with_an_unknown_query_parameter(launcher, stranger, anonymous, problem, tracked):
    path = f"runs/{tracked.pk}/cancel?forse=1"

    assert problem(launcher.post(path))[:3] == (422, "invalid_input", "forse")
    assert launcher.get(f"runs/{tracked.pk}").json()["state"] == "running"
    assert problem(stranger.post(path))[0] == 422
    assert problem(anonymous.post(path))[0] == 401


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
