"""ETags: what is known is not sent again, and whatever changes is."""

import pytest

from webapp.interfaces.api.api import OPENED_BY, api
from webapp.record.runs import lifecycle
from webapp.science.curves import services


def asked_again(client, path, etag):
    return client._client.get(f"/api/v1/{path}", headers={"If-None-Match": etag})


@pytest.fixture
def reported(writer, tracked, record):
    """A run that evaluated."""
    rates = [0.2 + 0.4 * step / (step + 5) for step in range(1, 13)]
    records = [record(step, {"eval/pass_rate": rate}) for step, rate in enumerate(rates, 1)]
    assert writer.post(f"runs/{tracked.pk}/records", {"records": records}).status_code == 200
    services.refit(tracked.pk)
    return tracked


PATHS = [
    "runs/{id}", "runs/{id}/records", "runs/{id}/records?limit=2", "runs/{id}/curve", "runs/{id}/curve?format=csv",
    "runs/{id}/series", "runs/{id}/metrics", "runs/{id}/export?format=csv", "runs/{id}/fits", "fits", "leaderboard",
    "predictions", "curves?run={id}", "series?metric=eval/pass_rate&run={id}",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_what_is_known_is_not_sent_again_until_it_changes(reader, writer, reported, record, path):
    path = path.format(id=reported.pk)
    first = reader.get(path)

    known = asked_again(reader, path, first["ETag"])
    among = asked_again(reader, path, f'"other", {first["ETag"].removeprefix("W/")}')
    writer.post(f"runs/{reported.pk}/records", {"records": [record(13, {"eval/pass_rate": 0.5})]})
    services.refit(reported.pk)
    changed = asked_again(reader, path, first["ETag"])

    assert (first.status_code, known.status_code, known.content) == (200, 304, b"")
    assert (among.status_code, known["ETag"]) == (304, first["ETag"])
    assert first["Cache-Control"] == "private, no-cache"
    assert changed.status_code == 200
    assert changed["ETag"] != first["ETag"]


def test_a_run_is_told_anew_when_its_trainer_ended(reader, reported):
    first = reader.get(f"runs/{reported.pk}")

    lifecycle.report_finished(reported, attempt=1, state="succeeded", message="")

    assert asked_again(reader, f"runs/{reported.pk}", first["ETag"]).json()["state"] == "succeeded"


def test_one_address_has_not_the_etag_of_another(reader, reported):
    etags = [reader.get(path.format(id=reported.pk))["ETag"] for path in PATHS]

    assert len(set(etags)) == len(PATHS)


def test_an_etag_opens_nothing(reader, stranger, anonymous, reported):
    path = f"runs/{reported.pk}/curve"
    etag = reader.get(path)["ETag"]

    assert asked_again(stranger, path, etag).status_code == 404
    assert asked_again(anonymous, path, etag).status_code == 401


def test_since_gives_only_what_is_new(reader, writer, reported, record):
    path = f"runs/{reported.pk}/records"
    whole = reader.get(path, limit=500).json()
    nothing = reader.get(path, since=whole["since"]).json()

    writer.post(path, {"records": [record(13, {"a": 1.0}), record(14, {"a": 2.0})]})
    fresh = reader.get(path, since=nothing["since"]).json()

    assert (whole["next"], len(whole["items"])) == (None, 12)
    assert nothing == {"items": [], "next": None, "since": whole["since"]}
    assert [item["seq"] for item in fresh["items"]] == [13, 14]


def test_since_of_a_run_without_records(reader, writer, tracked, record):
    path = f"runs/{tracked.pk}/records"

    empty = reader.get(path).json()

    assert empty == {"items": [], "next": None, "since": None}


@pytest.mark.parametrize("since", ["x", "WyJhIl0", "W10"])
def test_a_cursor_that_nobody_gave_out(reader, tracked, problem, since):
    assert problem(reader.get(f"runs/{tracked.pk}/records", since=since))[:3] == (
        422,
        "invalid_input",
        "since",
    )


def test_cursor_and_since_together_are_refused(reader, reported, problem):
    since = reader.get(f"runs/{reported.pk}/records").json()["since"]

    response = reader.get(f"runs/{reported.pk}/records", since=since, cursor=since)

    assert problem(response)[:3] == (422, "invalid_input", "since")


# Answers that cost little: one thing by its key, or a short list of a project's settings.
CHEAP = {
    "list_recipes", "get_recipe", "list_revisions", "get_run", "list_transitions", "get_metrics", "get_fit",
    "get_prediction", "list_reviews", "list_comments", "list_outcomes", "get_decision", "list_rules", "get_rule",
    "list_channels", "get_policies", "get_retention", "get_import", "get_meaning", "list_artifacts", "get_artifact",
}  # fmt: skip


def test_every_reading_endpoint_is_limited_or_known_to_be_cheap():
    unlimited = {
        name
        for operations in api.get_openapi_schema(path_prefix="")["paths"].values()
        for method, operation in operations.items()
        if method == "get"
        and OPENED_BY[name := operation["operationId"].removeprefix("webapp_api_")].limit is None
    }

    unknown = {name for name in unlimited if not any(name.endswith(f"_{known}") for known in CHEAP)}

    assert unknown == set(), "limit it (READ_HEAVY, READ_WHOLE), or name it here"
