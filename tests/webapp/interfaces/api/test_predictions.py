"""/api/v1/predictions"""

import csv
import io

import numpy as np
import pytest

from tests.members import member
from tests.webapp.interfaces.api.conftest import ApiClient
from tests.webapp.science.predictions.conftest import add_points, rate
from webapp.identity.accounts.services import create_token
from webapp.record.runs.models import Run
from webapp.science.predictions.judging import score_run
from webapp.science.predictions.models import Prediction


@pytest.fixture
def run(project, tracked):
    hours = np.geomspace(0.1, 8.0, 40)
    add_points(tracked, hours, rate(hours) + 0.004 * np.random.default_rng(0).standard_normal(40))
    Run.objects.filter(pk=tracked.pk).update(budget_hours=16.0)
    return tracked


@pytest.fixture
def body(run):
    return {"run": run.pk, "statement": "pass_rate", "target": 16.0, "reasons": "The curve has bent."}


@pytest.fixture
def client_of(project):
    """client_of("grace", "reviewer"): the client of a new member in this role."""

    def make(name, role, scope="write"):
        return ApiClient(
            create_token(user=member(name, project=project, role=role), project=project, scope=scope)
        )

    return make


@pytest.fixture
def made(writer, body):
    return writer.post("predictions", body).json()


def test_a_claim_is_made_once_for_a_key(writer, body, problem):
    first = writer.post("predictions", body, Idempotency_Key="k")
    again = writer.post("predictions", body, Idempotency_Key="k")
    other = writer.post("predictions", body | {"target": 17.0}, Idempotency_Key="k")

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert problem(other)[:3] == (409, "conflict", "Idempotency-Key")
    assert Prediction.objects.count() == 1


def test_what_a_claim_says(made, run):
    assert made["run"] == run.pk
    assert made["author"] == "ada"
    assert (made["life"], made["review"]) == ("open", "unreviewed")
    assert made["lo"] < made["value"] < made["hi"]
    assert made["horizon"] == pytest.approx(2.0)
    assert made["frozen"]["status"] == "ok"
    assert made["data_digest"] == Prediction.objects.get().data_digest
    assert made["outcomes"] == made["waits"] == []


def test_the_window_that_is_frozen(writer, body):
    made = writer.post("predictions", body | {"question": {"window_lo": 0.2, "cutoff": 4.0}}).json()
    assert made["cutoff"] <= 4.0 < made["known_until"]
    assert made["frozen"]["question"]["window_lo"] == 0.2


@pytest.mark.parametrize(
    ("changes", "status", "field"),
    [
        ({"target": 4.0}, 409, "target"),
        ({"target": 4.0, "question": {"cutoff": 5.0}}, 422, "target"),
        ({"target": "16"}, 422, "target"),
        ({"value": 0.6, "lo": 0.7, "hi": 0.5}, 422, "hi"),
        ({"statement": "sum"}, 422, "statement"),
        ({"statement": "passes", "rival": "nothing"}, 422, "rival"),
        ({"run": "nothing"}, 404, None),
        ({"replaces": "nothing"}, 422, "replaces"),
        ({"question": {"x": "hours"}}, 422, "question.x"),
        ({"question": {"more": 1}}, 422, "question.more"),
        ({"author": "grace"}, 422, "author"),
        ({"reasons": ""}, 422, "reasons"),
    ],
)
def test_refusals_name_the_field(writer, body, problem, changes, status, field):
    answer = problem(writer.post("predictions", body | changes))
    assert (answer[0], answer[2]) == (status, field)
    assert not Prediction.objects.exists()


def test_scopes_roles_and_run_tokens(
    reader, stranger, anonymous, client_with, client_of, body, run, made, problem
):
    path = f"predictions/{made['id']}"
    viewer = client_of("vera", "viewer", scope="read")
    for client, status in (
        (anonymous, 401),
        (reader, 403),
        (viewer, 403),
        (client_with("write", run=run), 403),
    ):
        assert problem(client.post("predictions", body))[0] == status
        assert problem(client.post(f"{path}/withdraw", {"reason": "So."}))[0] == status
        assert problem(client.post(f"{path}/reviews", {"verdict": "approved"}))[0] == status
        assert problem(client.post(f"{path}/comments", {"text": "Hi."}))[0] == status
        assert problem(client.post(f"{path}/reviewers", {"reviewers": ["ada"]}))[0] == status
    assert problem(client_with("write", run=run).get("predictions"))[0] == 403
    for address in (path, f"{path}/reviews", f"{path}/comments", f"{path}/outcomes"):
        assert problem(stranger.get(address))[0] == 404
        assert reader.get(address).status_code == viewer.get(address).status_code == 200
    assert problem(stranger.post(f"{path}/withdraw", {"reason": "So."}))[0] == 404
    assert problem(stranger.post("predictions", body))[0] == 404
    assert stranger.get("predictions").json()["items"] == []
    assert Prediction.objects.get().withdrawn_at is None


def test_reviews(writer, client_of, made, problem):
    path = f"predictions/{made['id']}/reviews"
    reviewer, launcher = client_of("grace", "reviewer"), client_of("linus", "launcher")
    assert problem(writer.post(path, {"verdict": "approved"}))[0] == 403  # an admin, but the author
    assert problem(launcher.post(path, {"verdict": "approved"}))[0] == 403
    assert problem(reviewer.post(path, {"verdict": "rejected"}))[::2] == (422, "reason")
    asked = writer.post(f"predictions/{made['id']}/reviewers", {"reviewers": ["grace"]})
    assert asked.status_code == 201 and asked.json()["review"] == "asked"
    assert (
        problem(writer.post(f"predictions/{made['id']}/reviewers", {"reviewers": ["nobody"]}))[2]
        == "reviewers"
    )
    assert (
        problem(writer.post(f"predictions/{made['id']}/reviewers", {"reviewers": ["linus"]}))[2]
        == "reviewers"
    )
    reviewer.post(path, {"verdict": "changes", "reason": "Why?"})
    answer = reviewer.post(path, {"verdict": "approved"}).json()

    assert answer["review"] == "approved"
    assert [(one["verdict"], one["counts"]) for one in answer["items"]] == [
        ("changes", False),
        ("approved", True),
    ]
    assert answer["requests"][0]["reviewer"] == "grace"
    assert writer.get(path).json() == answer


def test_comments(writer, client_of, made, problem):
    path = f"predictions/{made['id']}/comments"
    reviewer = client_of("grace", "reviewer")
    first = reviewer.post(path, {"text": "Why, @ada?", "anchor": [4.0, 0.5]}).json()
    writer.post(path, {"text": "So.", "parent": first["id"]})
    items = writer.get(path).json()["items"]

    assert [(one["text"], one["parent"]) for one in items] == [("Why, @ada?", None), ("So.", first["id"])]
    assert items[0]["anchor"] == [4.0, 0.5] and items[0]["mentions"] == ["ada"]
    for parent in (0, -1, 10**6, 2**63):
        assert problem(writer.post(path, {"text": "So.", "parent": parent}))[::2] == (422, "parent")
    assert problem(writer.post(path, {"text": "So.", "anchor": [1.0]}))[2] == "anchor"


def test_withdrawal(writer, client_of, made, problem):
    path = f"predictions/{made['id']}/withdraw"
    assert problem(client_of("grace", "reviewer").post(path, {"reason": "So."}))[0] == 403
    assert writer.post(path, {"reason": "A wrong window."}).json()["life"] == "withdrawn"
    assert problem(writer.post(path, {"reason": "Again."}))[0] == 409


def test_outcomes_and_calibration(writer, reader, made, run):
    add_points(run, [12.0, 20.0], rate([12.0, 20.0]))
    score_run(run.pk)
    (outcome,) = reader.get(f"predictions/{made['id']}/outcomes").json()["items"]
    found = reader.get("predictions/calibration", author="ada").json()

    assert outcome["primary"] and outcome["inside"]
    assert outcome["how"]["method"] == "interpolated"
    assert reader.get(f"predictions/{made['id']}").json()["life"] == "scored"
    assert (found["overall"]["n"], found["overall"]["observed"], found["counts"]["scored"]) == (1, 1.0, 1)
    assert {row["kind"] for row in found["rows"]} == {"level", "horizon", "author", "recipe", "statement"}


def test_forecasters_only_where_wanted(reader, project, made):
    assert reader.get("predictions/forecasters").json() == {"ranks": False, "items": []}


def test_lists_page_and_filter(writer, reader, body, made, problem):
    for target in (17.0, 18.0):
        writer.post("predictions", body | {"target": target})
    first = reader.get("predictions", limit=2).json()
    rest = reader.get("predictions", limit=2, cursor=first["next"]).json()

    assert [one["target"] for one in first["items"] + rest["items"]] == [18.0, 17.0, 16.0]
    assert rest["next"] is None
    assert len(reader.get("predictions", status="open").json()["items"]) == 1
    assert len(reader.get("predictions", status="projection").json()["items"]) == 2
    assert len(reader.get("predictions", author="ada", task="math").json()["items"]) == 3
    assert problem(reader.get("predictions", status="lost"))[2] == "status"
    assert problem(reader.get("predictions", author="nobody"))[2] == "author"
    assert problem(reader.get("predictions", cursor="x"))[2] == "cursor"
    assert problem(reader.get("predictions/calibration", horizon="3"))[2] == "horizon"


def test_the_list_as_a_table(writer, reader, body, run):
    writer.post("predictions", body | {"reasons": "=cmd()", "value": 0.6, "lo": 0.55, "hi": 0.65})
    add_points(run, [16.0], [0.61])
    score_run(run.pk)
    response = reader.get("predictions", format="csv")
    (row,) = csv.DictReader(io.StringIO(response.content.decode()))

    assert response["Content-Type"].startswith("text/csv")
    assert (row["life"], row["actual"], row["inside"], row["outcomes"]) == ("scored", "0.61", "True", "1")
    assert row["reasons"] == "'=cmd()"
    assert float(row["interval_score"]) == pytest.approx(0.1)
    assert row["created_at"] == reader.get("predictions").json()["items"][0]["created_at"]


def test_the_table_has_as_many_rows_as_are_asked_for(writer, reader, body):
    made = [
        writer.post("predictions", body | {"target": target}).json()["id"] for target in (16.0, 17.0, 18.0)
    ]

    def table(**query):
        rows = csv.DictReader(io.StringIO(reader.get("predictions", format="csv", **query).content.decode()))
        return [row["id"] for row in rows]

    assert table() == made[::-1]
    assert table(limit=2) == made[:0:-1]
    assert table(limit=2, cursor=reader.get("predictions", limit=2).json()["next"]) == made[:1]
