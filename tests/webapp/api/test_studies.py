"""/api/v1/studies"""

import pytest

from webapp.runs.models import Run


@pytest.fixture
def body(model_folder):
    return {"name": "What matters", "recipe": "tiny-scalerl", "changes": ["loss=dapo"], "seeds": [0, 1]}


def test_a_study_is_made_once_for_a_key(launcher, body, problem):
    first = launcher.post("studies", body, Idempotency_Key="k")
    again = launcher.post("studies", body, Idempotency_Key="k")

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert Run.objects.count() == 4
    other = launcher.post("studies", body | {"seeds": [7]}, Idempotency_Key="k")
    assert problem(other)[:3] == (409, "conflict", "Idempotency-Key")


def test_it_starts_with_the_bases_own_settings(launcher, body):
    study = launcher.post("studies", body).json()

    assert (study["task"], study["model"], study["budget_hours"]) == ("arithmetic", "tiny-arithmetic", 0.0275)
    assert [arm["label"] for arm in study["variants"]] == ["Base", "DAPO loss"]
    assert study["progress"] == "0 of 4 runs done, 4 waiting."
    assert study["results"]["headline"] == "Nothing can be told apart yet."


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"changes": ["loss=magic"]}, "changes.0"),
        ({"changes": ["optimizer.lr=-1"]}, "changes.0"),
        ({"changes": []}, "changes"),
        ({"changes": "loss=dapo"}, "changes"),
        ({"seeds": [1, 1]}, "seeds"),
        ({"seeds": [True]}, "seeds.0"),
        ({"name": ""}, "name"),
        ({"kind": "odd"}, "kind"),
        ({"recipe": "nothing"}, "recipe"),
        ({"revision": 0}, "revision"),
        ({"budget_hours": 0}, "budget_hours"),
        ({"model": "nowhere"}, "model"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_what_is_wrong_is_named(launcher, body, problem, change, field):
    status, _, blamed, _ = problem(launcher.post("studies", body | change))

    assert (status, blamed) == (422, field)
    assert not Run.objects.exists()


def test_launching_takes_the_scope_launch(reader, writer, body, problem):
    assert problem(writer.post("studies", body))[0] == 403
    assert reader.get("studies").json() == {"items": [], "next": None}


def test_reading_one_and_the_list(launcher, reader, stranger, body, problem):
    made = launcher.post("studies", body).json()

    assert [item["id"] for item in reader.get("studies").json()["items"]] == [made["id"]]
    assert reader.get(f"studies/{made['id']}").json()["runs"] == 4
    assert problem(stranger.get(f"studies/{made['id']}"))[0] == 404
    assert problem(reader.get("studies/nothing"))[0] == 404
    assert stranger.get("studies").json()["items"] == []


def test_the_list_is_paged(launcher, reader, body):
    for name in ("a", "b", "c"):
        launcher.post("studies", body | {"name": name, "seeds": [0]})

    first = reader.get("studies", limit=2).json()
    second = reader.get("studies", limit=2, cursor=first["next"]).json()

    assert [item["name"] for item in first["items"] + second["items"]] == ["c", "b", "a"]
