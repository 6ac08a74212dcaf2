"""The shim and the real server: what a script says is what is stored, and what `wandb.Api` reads."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import caches

import headroom.wandb_shim as wandb
from headroom import Api
from headroom.run import Run as Client
from tests.members import member
from webapp.identity.accounts.services import create_project, create_token
from webapp.record.runs.models import Run


@pytest.fixture
def online(live_server: Any, transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """HEADROOM_URL and HEADROOM_TOKEN name it."""
    for cache in ("limits", "limits-of-this-process"):
        caches[cache].clear()
    project = create_project(slug="math", name="Math")
    token = create_token(user=member("ada", project=project), project=project, scope="write")
    monkeypatch.setenv("HEADROOM_URL", live_server.url)
    monkeypatch.setenv("HEADROOM_TOKEN", token)
    yield
    wandb.finish()


def train(seed: int, **settings: Any) -> str:
    with wandb.init(
        project="addition", config={"seed": seed}, group="seeds", tags=["Paper"], **settings
    ) as run:
        run.config.update({"lr": seed / 10, "model": {"depth": 2}})
        run.name = f"seed {seed}"
        for step in range(4):
            wandb.log({"loss": 1 / (step + 1), "seed_loss": seed})
        run.summary["best"] = 0.5 + seed
        return run.id


@pytest.mark.usefixtures("online")
def test_a_run_is_stored_with_all_that_was_said_of_it() -> None:
    run_id = train(1, notes="a try")

    (run,) = Run.objects.all()
    assert (run.name, run.task, run.state, run.tags) == ("seed 1", "addition", "succeeded", ["paper"])
    kept = {"id": run_id, "group": "seeds", "tags": ["Paper"], "notes": "a try", "summary": {"best": 1.5}}
    assert run.config == {"seed": 1, "lr": 0.1, "model": {"depth": 2}, "wandb": kept}


@pytest.mark.skipif(not hasattr(Client, "log_artifact"), reason="the client keeps no files")
@pytest.mark.usefixtures("online")
def test_files_are_kept_with_the_run() -> None:
    Path("model.pt").write_bytes(b"weights")
    with wandb.init(project="files") as run:
        run.log({"samples": wandb.Table(columns=["reward"], data=[[0.5]]), "loss": 1.0}, step=3)
        run.log_artifact("model.pt", name="model", type="model")
        (Path(run.dir) / "late.txt").write_text("at the end")

    (stored,) = Run.objects.all()
    with Api() as api:
        names = [each["path"] for each in api.get(f"runs/{stored.pk}/artifacts")["items"]]
    assert sorted(names) == [
        "late.txt",
        "media/samples_3.table.json",
        "model/artifact.json",
        "model/model.pt",
    ]


@pytest.mark.usefixtures("online")
def test_a_table_of_responses_is_samples_too() -> None:
    with wandb.init(project="files") as run:
        for step in (3, 6):
            table = wandb.Table(columns=["prompt", "completion", "score"], data=[["1+1", "2", 1.0]])
            run.log({"val/generations": table, "completions": table}, step=step)

    (stored,) = Run.objects.all()
    kept = stored.samples.order_by("kind", "step").values_list("kind", "step", "rows")
    assert list(kept) == [("eval", 3, 1), ("eval", 6, 1), ("train", 3, 1), ("train", 6, 1)]


@pytest.mark.usefixtures("online")
def test_the_api_reads_runs_as_scripts_of_wandb_do() -> None:
    ids = [train(seed) for seed in (1, 2)]
    with pytest.raises(ZeroDivisionError), wandb.init(project="other") as run:
        run.log({"loss": 1 / 0})
    api = wandb.Api()

    assert [run.name for run in api.runs("us/addition")] == ["seed 2", "seed 1"]
    assert [run.state for run in api.runs("us/other")] == ["failed"]
    found = api.run(f"us/addition/{ids[0]}")
    assert api.run(found.id).name == found.name == "seed 1"
    assert (found.state, found.tags, found.group) == ("finished", ["Paper"], "seeds")
    assert found.config == {"seed": 1, "lr": 0.1, "model": {"depth": 2}}
    assert (found.summary["best"], found.summary["loss"], found.lastHistoryStep) == (1.5, 0.25, 3)
    assert found.summary._json_dict == dict(found.summary)
    rows = found.history(pandas=False)
    assert [row["loss"] for row in rows] == [1, 0.5, 1 / 3, 0.25] and [row["_step"] for row in rows] == [
        0,
        1,
        2,
        3,
    ]
    assert next(found.scan_history(keys=["seed_loss"])) == {"seed_loss": 1}
    assert list(found.scan_history(keys=["none"])) == []


@pytest.mark.usefixtures("online")
def test_filters_of_runs() -> None:
    train(1)
    train(2)
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"config.seed": 1}, ["seed 1"]),
        ({"config.lr": {"$gt": 0.15}}, ["seed 2"]),
        ({"config.model.depth": 2, "state": "finished"}, ["seed 2", "seed 1"]),
        ({"config.model.depth.value": 3}, []),
        ({"summary_metrics.seed_loss": {"$lte": 1}}, ["seed 1"]),
        ({"display_name": {"$in": ["seed 1", "seed 2"]}}, ["seed 2", "seed 1"]),
        ({"$and": [{"group": "seeds"}, {"tags": "paper"}, {"config.seed": {"$ne": 2}}]}, ["seed 1"]),
    ]

    for filters, names in cases:
        assert [run.name for run in wandb.Api().runs("addition", filters=filters)] == names, filters


@pytest.mark.usefixtures("online")
def test_what_the_api_cannot_do_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    train(1)
    api = wandb.Api()
    for _ in range(2):
        (run,) = api.runs(filters={"config.seed": {"$regex": "1"}})
        assert (
            run.files(),
            run.logged_artifacts(),
            api.artifacts("model", "x"),
            api.artifact("x:latest").files(),
        ) == ([], [], [], [])
        run.update()
        api.no_such_thing("x")

    for words in (
        "not filtered by 'config.seed'",
        "files of runs are not listed",
        "Api.no_such_thing does nothing",
    ):
        assert caplog.text.count(words) == 1


@pytest.mark.usefixtures("online")
def test_a_run_that_is_not_there_is_an_error_of_wandbs() -> None:
    with pytest.raises(wandb.errors.CommError, match="There is no run nosuch"):
        wandb.Api().run("us/math/nosuch")


def test_the_api_without_a_server_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADROOM_URL", raising=False)
    with pytest.raises(wandb.CommError, match="HEADROOM_URL"):
        wandb.Api().runs("math")
