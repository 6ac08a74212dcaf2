"""/api/v1/runs/{id}/artifacts: uploads as they come, downloads that no browser runs."""

import hashlib
import io

import pytest

PAGE = b"<html><script>alert(1)</script></html>"


def put(client, run, path, content, **headers):
    return client._client.put(
        f"/api/v1/runs/{run.pk}/artifacts/{path}",
        content,
        content_type="application/octet-stream",
        headers=headers,
    )


def test_a_file_comes_back_byte_by_byte(writer, reader, tracked):
    digest = hashlib.sha256(PAGE).hexdigest()

    made = put(writer, tracked, "media/5/page.html", PAGE)

    assert made.status_code == 201
    assert made.json() | {"created_at": None} == {
        "path": "media/5/page.html", "size": len(PAGE), "sha256": digest, "created_at": None,
    }  # fmt: skip
    assert reader.get(f"runs/{tracked.pk}/artifacts").json() == {"items": [made.json()], "next": None}
    found = reader.get(f"runs/{tracked.pk}/artifacts/media/5/page.html")
    assert b"".join(found.streaming_content) == PAGE
    assert (
        found["Content-Type"] == "application/octet-stream" and found["X-Content-Type-Options"] == "nosniff"
    )
    assert found["Content-Disposition"] == 'attachment; filename="page.html"'
    assert (found["ETag"], found["Content-Length"]) == (f'"{digest}"', str(len(PAGE)))


def test_a_name_cannot_break_out_of_the_headers(writer, reader, tracked):
    assert put(writer, tracked, "a%22; filename=evil.html; x=%22%C3%A4", b"1").status_code == 201

    found = reader.get(f"runs/{tracked.pk}/artifacts/a%22; filename=evil.html; x=%22%C3%A4")

    assert found["Content-Disposition"].startswith("attachment; filename*=utf-8''a%22")


def test_many_files_are_paged(writer, reader, tracked):
    for number in range(5):
        put(writer, tracked, f"f{number}", b"x")

    first = reader.get(f"runs/{tracked.pk}/artifacts", limit=3).json()
    rest = reader.get(f"runs/{tracked.pk}/artifacts", limit=3, cursor=first["next"]).json()

    assert [item["path"] for item in first["items"] + rest["items"]] == [f"f{number}" for number in range(5)]


def test_refusals_name_the_limit(writer, tracked, problem, settings):
    settings.ARTIFACT_MAX_BYTES, settings.ARTIFACT_PROJECT_BYTES = 10, 15

    assert problem(put(writer, tracked, "a", b"x" * 11)) == (
        413, "too_large", "path",
        "a is too large: a file of a run has at most 10 bytes (HEADROOM_ARTIFACT_MAX_BYTES).",
    )  # fmt: skip
    assert put(writer, tracked, "a", b"x" * 10).status_code == 201
    status, code, field, message = problem(put(writer, tracked, "b", b"x" * 10))
    assert (status, code, field) == (
        413,
        "too_large",
        "path",
    ) and "HEADROOM_ARTIFACT_PROJECT_BYTES" in message


@pytest.mark.parametrize("path", ["../a", "a/%2E%2E/b", "a%1Bb", "a//b", "a%5Cb"])
def test_hostile_names_are_refused(writer, tracked, problem, path):
    assert problem(put(writer, tracked, path, b"x"))[:3] == (422, "invalid_input", "path")


def test_a_body_that_breaks_off_is_not_kept(writer, tracked, problem):
    answer = writer._client.generic(
        "PUT",
        f"/api/v1/runs/{tracked.pk}/artifacts/a",
        b"12345",
        content_type="text/plain",
        CONTENT_LENGTH="9",
        **{"wsgi.input": io.BytesIO(b"12345")},
    )

    assert answer.status_code == 400 and not tracked.artifacts.exists()


def test_a_file_is_deleted(writer, reader, tracked, problem):
    put(writer, tracked, "a/b", b"x")

    assert writer.request("DELETE", f"runs/{tracked.pk}/artifacts/a").status_code == 204
    assert reader.get(f"runs/{tracked.pk}/artifacts").json()["items"] == []
    assert problem(writer.request("DELETE", f"runs/{tracked.pk}/artifacts/a"))[0] == 404
    assert problem(reader.get(f"runs/{tracked.pk}/artifacts/a/b"))[0] == 404


def test_a_run_sends_files_with_its_own_token(client_with, tracked):
    assert put(client_with("", run=tracked), tracked, "a", b"x").status_code == 201
