"""/api/v1/studies"""

import pytest

from tests.webapp.permissions.world import trained
from webapp.record.runs.models import Run


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

    assert (study["task"], study["model"], study["budget_hours"]) == ("arithmetic", "tiny-arithmetic", 0.075)
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


def test_the_law_over_an_axis_forecasts_an_unseen_value(launcher, reader, body, problem):
    asked = body | {"changes": ["batch=128", "batch=512"], "seeds": [0], "kind": "axis"}
    path = f"studies/{launcher.post('studies', asked).json()['id']}"
    waiting = reader.get(path).json()["axis_law"]
    for run in Run.objects.all():
        trained(run, 8)

    found = reader.get(path, axis_value=1024).json()

    assert waiting["why"].startswith("0 of 3 values have a run") and waiting["curve"] == []
    law = found["axis_law"]
    assert "law" not in found["results"]
    assert [one["value"] for one in law["variants"]] == [256, 128, 512]
    assert law["forecast"]["value"] == 1024
    assert (
        law["forecast"]["ceiling"]["lo"]
        < law["forecast"]["ceiling"]["value"]
        < law["forecast"]["ceiling"]["hi"]
    )
    assert reader.get(path).json()["axis_law"]["forecast"] is None
    for odd in ("0", "-1", "nan", "inf", "x", "1e300"):
        assert problem(reader.get(path, axis_value=odd))[::2] == (422, "axis_value")


def test_a_study_of_several_axes_has_no_law(launcher, reader, body, problem):
    path = f"studies/{launcher.post('studies', body | {'seeds': [0]}).json()['id']}"

    assert reader.get(path).json()["axis_law"] is None
    assert problem(reader.get(path, axis_value=1024))[:3] == (422, "invalid_input", "axis_value")


def test_the_list_is_paged(launcher, reader, body):
    for name in ("a", "b", "c"):
        launcher.post("studies", body | {"name": name, "seeds": [0]})

    first = reader.get("studies", limit=2).json()
    second = reader.get("studies", limit=2, cursor=first["next"]).json()

    assert [item["name"] for item in first["items"] + second["items"]] == ["c", "b", "a"]


@pytest.mark.parametrize(
    "change",
    [
        "batch=1e300", "batch=-8", "batch=nan", "generations=99999999999", "generations=2.5", "context=2147483647",
        "optimizer.lr=.inf", "optimizer.lr=[1", "optimizer.betas=[1, 2]", "loss.eps_max=!!python/object:os", "=", "a=",
        "loss.type.deep=1", "optimizer=3", "mixture=a:b", "mixture=:", "mixture=nothing:1", "mixture=mixture:1",
        "task.options.x={a: 1}", "task.name=math", "model=../..", "length=penalty=3", "rollout.x.y=1", "x" * 500,
        "rollout.prompts_per_step=" + "9" * 80, "engine.type=2026-01-01",
    ],
)  # fmt: skip
def test_odd_changes_are_refused_in_words(launcher, body, problem, change):
    status, code, field, message = problem(launcher.post("studies", body | {"changes": [change]}))

    assert (status, code, field) == (422, "invalid_input", "changes.0")
    assert message
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    "change",
    [{"budget_hours": 1e300}, {"seeds": [10**40]}, {"seeds": []}, {"model": "o/" + "n" * 500}, {"name": "x" * 500},
     {"name": "a\u202eb"}, {"recipe": "x" * 500}, {"task": "x" * 500}, {"changes": ["loss=dapo"] * 300}],
)  # fmt: skip
def test_odd_values_are_refused_in_words(launcher, body, problem, change):
    status, _, field, _ = problem(launcher.post("studies", body | change))

    assert status == 422
    assert field.split(".")[0] == next(iter(change))
    assert not Run.objects.exists()
