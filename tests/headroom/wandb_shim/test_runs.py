"""`wandb.init` and what a script does with the run that it gives."""

import argparse
import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import headroom.wandb_shim as wandb
from tests.headroom.fake_server import FakeServer
from tests.headroom.wandb_shim.conftest import logged, records, said

Described = Callable[[], dict[str, Any]]


def test_a_script_of_wandb_runs_unchanged(online: FakeServer, described: Described) -> None:
    run = wandb.init(project="math", name="grpo", config={"lr": 0.1}, tags=["First Try"], group="seeds")
    wandb.config.update({"batch": 8})
    for step in range(3):
        wandb.log({"reward": step / 2, "actor": {"entropy": 0.5}})
    wandb.run.summary["best"] = 1.0
    wandb.finish()

    assert run.config.batch == 8 and run.config["lr"] == 0.1
    (made,) = [body for path, body in online.notices if path == "runs"]
    assert (made["name"], made["task"], made["config"]["lr"]) == ("grpo", "math", 0.1)
    kept = {"id": run.id, "tags": ["First Try"], "group": "seeds"}
    assert made["config"]["wandb"] == kept
    assert [record["metrics"] for record in online.records.values()] == [
        {"reward": step / 2, "actor.entropy": 0.5} for step in range(3)
    ]
    assert described() == {
        "tags": ["first-try"],
        "config": {"batch": 8, "wandb": kept | {"summary": {"best": 1.0}}},
    }
    assert online.notices[-1] == ("finish", {"attempt": 1, "state": "succeeded", "message": ""})
    assert wandb.run is None and run.url == f"{online.url}/runs/made1"


def test_steps_follow_wandb_and_late_ones_are_kept() -> None:
    wandb.init()
    wandb.log({"a": 1})
    wandb.log({"b": 2}, commit=False)
    wandb.log({"c": 3})
    wandb.log({"d": 4}, step=10)
    wandb.log({"e": 5})
    wandb.log({"late": 6}, step=2)

    assert said() == [
        (0, {"a": 1}),
        (1, {"b": 2}),
        (1, {"c": 3}),
        (10, {"d": 4}),
        (10, {"e": 5}),
        (2, {"late": 6}),
    ]


def test_what_is_no_number_is_named_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    wandb.init()
    table = wandb.Table(columns=["prompt"])
    table.add_data("1+1=")
    wandb.log({"samples": table, "note": "x", "reward": 0.5, "loss": float("nan")})
    wandb.log({"samples": wandb.Image("x.png"), "reward": 0.6})

    wandb.log({"samples": wandb.Image("x.png"), "note": "y"})

    assert said() == [(0, {"samples.rows": 1, "reward": 0.5, "loss": None}), (1, {"reward": 0.6})]
    assert caplog.text.count("'samples' (Image) is no number") == 1
    assert caplog.text.count("'note' (str) is no number") == 1
    assert "'loss' is nan, no finite number: recorded as null" in caplog.text


def test_compute_is_the_runs_compute() -> None:
    wandb.init()
    wandb.log({"eval/pass_rate": 0.4, "compute/device_hours": 2.5, "compute/tokens": 100})

    (record,) = records()
    assert record["compute"] == {"device_hours": 2.5, "flops": None, "tokens": 100}
    assert record["metrics"] == {"eval/pass_rate": 0.4}


def test_a_known_id_goes_on_after_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_RUN_ID", "abc/1")
    wandb.init()
    wandb.log({"a": 1})
    wandb.finish(exit_code=1)

    wandb.init(resume="allow")
    wandb.log({"a": 2})

    assert said() == [(0, {"a": 1}), (1, {"a": 2})]
    assert [path.name for path in Path().rglob("*.jsonl")] == ["abc-1.jsonl"]


def test_disabled_writes_nothing() -> None:
    with wandb.init(mode="disabled") as run:
        run.log({"a": 1})
        wandb.log({"a": 2})

    assert list(Path().rglob("*")) == []


def test_before_init_it_says_so() -> None:
    with pytest.raises(RuntimeError, match=r"call wandb.init\(\) first"):
        wandb.log({"a": 1})
    with pytest.raises(RuntimeError, match=r"call wandb.init\(\) first"):
        wandb.config.lr = 0.1
    with pytest.raises(AttributeError, match="has no 'wings'"):
        wandb.wings  # noqa: B018
    with pytest.raises(ValueError, match="mode must be online, offline or disabled"):
        wandb.init(mode="on")


def test_log_never_raises(caplog) -> None:
    wandb.init()
    wandb.log({"a": 1}, step="three")  # type: ignore[arg-type]
    wandb.log(None)  # type: ignore[arg-type]

    assert "could not be recorded" in caplog.text and records() == []


def test_what_changes_after_init_is_sent(online: FakeServer, described: Described) -> None:
    run = wandb.init(config={"lr": 0.1, "kept": 1}, notes="first")
    run.name = "renamed"
    run.tags = (*run.tags, "Paper")
    run.notes = "second"
    run.config.lr = 0.2
    run.config["path"] = Path("a/b")
    run.config |= {"more": [1, 2]}
    run.config.setdefaults({"lr": 0.3, "late": True})
    wandb.config.update(argparse.Namespace(seed=3), allow_val_change=True)
    run.summary.update({"best": 0.5})
    run.summary.best_step = 7
    run.finish()

    told = described()
    assert (told["name"], told["tags"]) == ("renamed", ["paper"])
    ours = told["config"].pop("wandb")
    assert told["config"] == {"lr": 0.2, "path": "a/b", "more": [1, 2], "late": True, "seed": 3}
    assert ours == {
        "id": run.id,
        "notes": "second",
        "tags": ["Paper"],
        "summary": {"best": 0.5, "best_step": 7},
    }


def test_a_long_name_and_odd_tags_do_not_keep_a_run_from_being_made(
    online: FakeServer, described: Described
) -> None:
    run = wandb.init(name="n" * 200 + "\n", tags=["ä", "two words!", "x" * 60, *(f"t{i}" for i in range(30))])
    run.finish()

    (made,) = [body for path, body in online.notices if path == "runs"]
    assert made["name"] == "n" * 120
    assert described()["tags"][:2] == ["two-words", "x" * 40] and len(described()["tags"]) == 20
    assert len(made["config"]["wandb"]["tags"]) == 33


@pytest.mark.parametrize(
    "config",
    [
        {"lr": 0.1, "seed": 3},
        argparse.Namespace(lr=0.1, seed=3),
        SimpleNamespace(lr=0.1, seed=3),
        "config.yaml",
        Path("plain.yaml"),
        "config.json",
    ],
)
def test_a_config_of_any_form_is_taken(config: Any) -> None:
    Path("config.yaml").write_text("wandb_version: 1\nlr: {value: 0.1, desc: null}\nseed: {value: 3}\n")
    Path("plain.yaml").write_text("lr: 0.1\nseed: 3\n")
    Path("config.json").write_text('{"lr": 0.1, "seed": {"value": 3}}')

    run = wandb.init(config=config)

    assert run.config.as_dict() == {"lr": 0.1, "seed": 3}
    assert wandb.config.get("lr") == 0.1 and "wings" not in run.config and not hasattr(run.config, "wings")
    assert (list(wandb.config.keys()), dict(wandb.config.items())) == (["lr", "seed"], run.config)


@pytest.mark.parametrize("config", ["none.yaml", "list.yaml", "broken.yaml", 3])
def test_a_config_that_cannot_be_read_is_named(config: Any) -> None:
    Path("list.yaml").write_text("- 1\n")
    Path("broken.yaml").write_text("a: [1\n")

    with pytest.raises(wandb.errors.ConfigError, match=str(config) if isinstance(config, str) else "int"):
        wandb.init(config=config)
    assert wandb.run is None


def test_only_the_keys_that_are_asked_for() -> None:
    assert wandb.init(config={"a": 1, "b": 2}, config_include_keys=["a"]).config == {"a": 1}
    assert wandb.init(config={"a": 1, "b": 2}, config_exclude_keys=["a"], reinit=True).config == {"b": 2}


def test_a_copy_of_the_config_goes_to_other_processes_and_tells_nobody(described: Described) -> None:
    run = wandb.init(config={"lr": 0.1})

    for copied in (copy.deepcopy(run.config), pickle.loads(pickle.dumps(run.config)), run.config_static):
        copied.lr = 0.2
        assert copied.lr == 0.2
    assert json.loads(json.dumps(run.config)) == {"lr": 0.1}
    run.finish()
    assert "lr" not in described()["config"]


def test_what_a_run_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_TAGS", "a,b")
    monkeypatch.setenv("WANDB_PROJECT", "of the environment")
    settings = wandb.Settings(run_group="g", entity="us", project="of the settings", silent=True)
    run = wandb.init(project="math", job_type="train", notes="n", settings=settings)

    assert (run.project, run.entity, run.group, run.job_type, run.notes) == ("math", "us", "g", "train", "n")
    assert run.tags == ("a", "b") and run.path == f"us/math/{run.id}" and len(run.id) == 8
    assert (run.name, run.url, run.get_url(), run.sweep_id, run.offline) == ("math", None, None, None, True)
    assert run.settings.silent and run.settings.no_such is None
    assert (run.step, run.starting_step, run.resumed, run.disabled) == (0, 0, False, False)
    assert wandb.run_id == run.id and Path(run.dir).is_dir() and run.start_time > 0


def test_a_run_goes_on_by_its_own_id() -> None:
    first = wandb.init(project="math")
    first.log({"a": 1})
    first.finish(exit_code=1)

    again = wandb.init(id=first.id, resume="must")
    again.log({"a": 2})

    assert (again.resumed, again.starting_step) == (True, 1)
    assert said() == [(0, {"a": 1}), (1, {"a": 2})]


def test_a_resumed_run_is_the_next_attempt_after_its_last_step(
    online: FakeServer, described: Described
) -> None:
    first = wandb.init(project="math", config={"lr": 0.1, "depth": 2}, group="seeds")
    first.name = "renamed"
    first.config.batch = 8
    first.summary["best"] = 0.5
    for step in range(3):
        first.log({"a": step})
    first.finish(exit_code=1)

    again = wandb.init(id=first.id, resume="allow", config={"lr": 0.2}, notes="again")
    again.log({"a": 3})
    again.summary["last"] = 3
    again.finish()

    assert again.config == {"lr": 0.2, "depth": 2, "batch": 8} and again.name == "renamed"
    told = described()["config"]
    assert told["lr"] == 0.2 and told["wandb"] == {
        "id": first.id, "group": "seeds", "summary": {"best": 0.5, "last": 3}, "notes": "again",
    }  # fmt: skip

    starts = [
        (body["attempt"], body["resumed_from_step"]) for what, body in online.notices if what == "start"
    ]
    assert starts == [(1, None), (2, 2)] and online.steps("made1", attempt=2) == [3]
    assert online.notices[-1] == ("finish", {"attempt": 2, "state": "succeeded", "message": ""})


def test_the_last_run_of_the_folder_goes_on_until_it_has_succeeded() -> None:
    first = wandb.init(resume="auto")
    first.log({"a": 1})
    first.finish(exit_code=1)
    second = wandb.init(resume="auto")
    second.finish()
    third = wandb.init(resume=True)

    assert first.id == second.id != third.id and second.resumed and not third.resumed
    wandb.finish()
    assert not wandb.init().resumed


def test_a_second_run_beside_the_first() -> None:
    first = wandb.init()
    assert wandb.init() is first
    second = wandb.init(reinit="create_new")
    second.log({"b": 1})
    second.finish()

    assert wandb.run is first
    first.finish()
    assert wandb.run is None


def test_an_exception_ends_the_run_as_failed(online: FakeServer) -> None:
    with pytest.raises(ZeroDivisionError), wandb.init() as run:
        run.log({"a": 1 / 0})

    state = {"attempt": 1, "state": "failed", "message": "ZeroDivisionError: division by zero"}
    assert ("finish", state) in online.notices and wandb.run is None


def test_arrays_and_lists_are_recorded_by_their_spread() -> None:
    np = pytest.importorskip("numpy")
    wandb.init()
    wandb.log({"one": np.float32(0.5), "list": [1, 2, 3], "array": np.array([[0.0, 4.0], [np.nan, 2.0]])})

    assert logged()["one"] == 0.5
    assert {name: logged()[f"list.{name}"] for name in ("count", "min", "max", "mean")} == {
        "count": 3, "min": 1, "max": 3, "mean": 2.0,
    }  # fmt: skip
    assert (logged()["array.count"], logged()["array.mean"]) == (3, 2.0)
    assert logged()["array.std"] == pytest.approx(np.std([0, 4, 2]))


def test_the_metric_that_all_others_go_by_is_the_step() -> None:
    wandb.init()
    wandb.define_metric("train/global_step")
    wandb.define_metric("*", step_metric="train/global_step", step_sync=True)
    wandb.log({"before": 1})
    wandb.log({"loss": 2, "train/global_step": 10})
    wandb.log({"late": 3})
    wandb.log({"loss": 4, "train/global_step": 20})

    assert [step for step, _ in said()] == [0, 10, 10, 20]


def test_an_axis_of_some_metrics_is_named_and_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    wandb.init()
    wandb.define_metric("val/*", step_metric="epoch")
    wandb.define_metric("test/*", step_metric="epoch")
    wandb.log({"val/a": 1, "epoch": 3})
    wandb.log({"val/a": 1, "epoch": 4})

    assert [step for step, _ in said()] == [0, 1]
    assert caplog.text.count("the axis epoch") == 1


def test_the_summary_is_the_newest_value_or_what_was_asked_for() -> None:
    run = wandb.init()
    run.define_metric("acc", summary="max")
    run.define_metric("loss", summary="min")
    for acc, loss in [(0.5, 3.0), (0.9, 1.0), (0.7, 2.0)]:
        run.log({"acc": acc, "loss": loss, "lr": acc})

    assert run.summary["acc"]["max"] == run.summary.acc.max == 0.9
    assert (run.summary["loss"].min, wandb.summary["lr"], run.summary["_step"]) == (1.0, 0.7, 2)


def test_disabled_has_all_of_it_too(caplog: pytest.LogCaptureFixture) -> None:
    run = wandb.init(mode="disabled", config={"lr": 0.1})
    run.name, run.tags, run.notes, run.config.lr = "a", ("b",), "c", 0.2
    (Path(run.dir) / "model.pt").write_text("weights")
    run.log({"a": 1, "table": wandb.Table(columns=["a"], data=[[1]])})
    run.log_artifact(run.dir)
    run.summary["best"] = 1
    folder = Path(run.dir)
    run.finish()

    assert caplog.text == "" and list(Path().rglob("*")) == [] and not folder.exists()


def test_what_init_does_not_do_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    wandb.init(sync_tensorboard=True, save_code=True, monitor_gym=False, force=True)

    assert "files of TensorBoard are not read along" in caplog.text and "code is not kept" in caplog.text
    assert "gym" not in caplog.text


@pytest.mark.parametrize(
    ("name", "value", "disabled", "offline"),
    [
        ("WANDB_MODE", "dryrun", False, True),
        ("WANDB_DISABLED", "true", True, True),
        ("WANDB_MODE", "run", False, False),
    ],
)
def test_modes_of_earlier_scripts(
    name: str, value: str, disabled: bool, offline: bool, online: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    run = wandb.init()

    assert (run.disabled, run.offline) == (disabled, offline)


def test_warnings_of_one_run_have_an_end(caplog: pytest.LogCaptureFixture) -> None:
    run = wandb.init()
    for i in range(200):
        run.log({f"note {i}": "x"})

    assert caplog.text.count("left out") == 100


VERL = {"trainer": {"n_gpus_per_node": 8, "nnodes": 2}, "algorithm": {"gamma": 1.0}}
VERL_STEP = {
    "timing_s/step": 100.0, "timing_s/testing": 10.0, "perf/total_num_tokens": 1000, "critic/rewards/mean": 0.5,
}  # fmt: skip


def test_a_run_of_verl_has_its_pass_rate_and_its_compute() -> None:
    wandb.init(project="math", config=VERL)
    wandb.log({"val-core/gsm8k/reward/mean@4": 0.1}, step=0)
    for step in (1, 2):
        wandb.log(VERL_STEP | {"val-core/gsm8k/reward/mean@4": 0.2}, step=step)

    assert [metrics["eval/pass_rate"] for _, metrics in said()] == [0.1, 0.2, 0.2]
    assert logged()["train/reward"] == 0.5 and logged()["eval/k"] == 4
    hours = [record["compute"]["device_hours"] for record in records()]
    assert hours == pytest.approx([0, 16 * 90 / 3600, 2 * 16 * 90 / 3600])
    assert records()[-1]["compute"]["tokens"] == 2000


def test_names_of_trl_are_those_that_alarms_know_and_what_a_script_says_goes_before() -> None:
    wandb.init()
    wandb.log({"train/completions/clipped_ratio": 0.2, "loss/mean": 1.0, "train/loss": 2.0})
    wandb.log({"val-core/gsm8k/reward/mean@4": 0.1, "eval/pass_rate": 0.3})

    first, second = (metrics for _, metrics in said())
    assert first == {"train/truncation_rate": 0.2, "loss/mean": 1.0, "train/loss": 2.0}
    assert second["eval/pass_rate"] == 0.3
