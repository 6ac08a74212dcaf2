"""Every name that scripts use of wandb 0.31 is there, and what it is called with raises nothing."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headroom.wandb_shim as wandb

NAMES: dict[str, str] = {
    "wandb": (
        "AlertLevel Api Artifact ArtifactTTL Audio Classes CommError Config Error EvalTable Graph Histogram Html Image "
        "JoinedTable Molecule Object3D Plotly Run Settings Table UsageError Video agent alert apis attach "
        "box3d config controller data_types define_metric ensure_configured errors finish init join jupyter "
        "link_model log log_artifact log_model login mark_preempting pin_config_keys plot plot_table require "
        "restore run run_id save sdk setup summary sweep teardown termerror termlog termsetup termwarn "
        "unwatch use_artifact use_model util visualize watch __version__"
    ),
    "wandb.run": (
        "alert config config_static define_metric dir disabled display entity finish finish_artifact get_url "
        "get_project_url get_sweep_url group id job_type link_artifact link_model log log_artifact log_code "
        "log_model mark_preempting name notes offline path pin_config_keys project project_name project_url "
        "restore resumed save settings start_time starting_step status step summary sweep_id sweep_url "
        "sync_dir tags to_html unwatch upsert_artifact url use_artifact use_model watch write_logs"
    ),
    "wandb.config": "as_dict get items keys merge_locked persist setdefaults update update_locked",
    "wandb.summary": "get items keys update",
    "wandb.Artifact": (
        "add add_dir add_file add_reference checkout delete digest download file file_count files finalize "
        "get get_added_local_path_name get_entry get_path id is_draft link logged_by manifest new_draft "
        "new_file qualified_name remove save size source_name unlink used_by verify wait"
    ),
    "wandb.Artifact('a', 'b')": "aliases created_at description metadata name state tags ttl type version",
    "wandb.Table()": (
        "MAX_ARTIFACT_ROWS MAX_ROWS add_column add_computed_columns add_data add_row cast columns data "
        "get_column get_dataframe get_index iterrows set_fk set_pk"
    ),
    "wandb.plot": (
        "CustomChart Visualize bar confusion_matrix custom_chart histogram line line_series plot_table "
        "pr_curve roc_curve scatter visualize"
    ),
    "wandb.Api()": (
        "artifact artifacts create_project default_entity flush project projects reports run runs settings "
        "sweep team user users viewer"
    ),
    "wandb.errors": "AuthenticationError CommError ConfigError Error UnsupportedError UsageError",
    "wandb.util": ("generate_id get_module make_artifact_name_safe"),
    "wandb.sdk": "Artifact Config Settings Summary data_types lib wandb_config wandb_run wandb_settings wandb_summary",
    "wandb.data_types": "Audio Graph Histogram Html Image Molecule Object3D Plotly Table Video",
}
CALLS: dict[str, Callable[[], Any]] = {
    "alert": lambda: wandb.alert(title="t", text="x", level=wandb.AlertLevel.WARN, wait_duration=300),
    "Api": lambda: wandb.Api(timeout=30),
    "attach": lambda: wandb.attach("x"),
    "box3d": lambda: wandb.box3d(center=(0, 0, 0)),
    "controller": lambda: wandb.controller("x"),
    "display": lambda: wandb.run.display(height=420),
    "ensure_configured": lambda: wandb.ensure_configured(),
    "errors": lambda: issubclass(wandb.errors.CommError, wandb.Error),
    "Graph": lambda: wandb.log({"graph": wandb.Graph()}),
    "JoinedTable": lambda: wandb.log({"joined": wandb.JoinedTable(wandb.Table(), wandb.Table(), "id")}),
    "link_artifact": lambda: wandb.run.link_artifact(wandb.Artifact("a", "b"), "registry/a"),
    "link_model": lambda: wandb.link_model("x", registered_model_name="m"),
    "log_artifact": lambda: wandb.log_artifact(None),
    "log_code": lambda: wandb.run.log_code(".", include_fn=bool),
    "login": lambda: wandb.login(key="x", relogin=True, host="h", anonymous="must") or 1 / 0,
    "mark_preempting": lambda: wandb.mark_preempting(),
    "pin_config_keys": lambda: wandb.pin_config_keys(["a"]),
    "require": lambda: wandb.require("core"),
    "save": lambda: (wandb.save(), wandb.save("*.pt", policy="now"), wandb.save("/no/such/folder/*"), wandb.save("")),
    "setup": lambda: wandb.setup(settings=wandb.Settings(silent=True)),
    "status": lambda: wandb.run.status(),
    "termlog": lambda: (wandb.termlog("x", repeat=False), wandb.termwarn("x"), wandb.termerror("x")),
    "termsetup": lambda: wandb.termsetup(wandb.Settings(), None),
    "to_html": lambda: wandb.run.to_html() == "" or 1 / 0,
    "unwatch": lambda: wandb.unwatch(object()),
    "use_artifact": lambda: wandb.use_artifact("a/b/c:v1", type="model", aliases=["x"]).wait().download(),
    "watch": lambda: wandb.watch(object(), None, log="all", log_freq=10, log_graph=True),
    "write_logs": lambda: wandb.run.write_logs("x"),
    "log": lambda: wandb.log({(1, 2): 3, "a": object(), "b": {"c": None}, 5: 1.0}, step=3, commit=True, sync=False),
    "confusion_matrix": lambda: wandb.log({"made": wandb.plot.confusion_matrix(y_true=[0], preds=[1])}),
    "log of nothing": lambda: (wandb.log(), wandb.log(None), wandb.log([1]), wandb.log({"a": 1}, step="x")),
    "define_metric": lambda: wandb.define_metric("a", step_metric="b", hidden=True, summary="best,last"),
    "summary": lambda: (wandb.summary.update({"a": object()}), wandb.summary.setdefault("b", {})),
    "config": lambda: wandb.config.update({"a": object(), (1,): {1, 2}, "n": float("nan")}, allow_val_change=True),
}  # fmt: skip


@pytest.fixture
def started() -> wandb.Run:
    return wandb.init(project="math", config={"lr": 0.1})


@pytest.mark.parametrize("thing", NAMES)
def test_every_name_is_there(started: wandb.Run, thing: str) -> None:
    found = eval(thing, {"wandb": wandb})
    assert [name for name in NAMES[thing].split() if not hasattr(found, name)] == []


@pytest.mark.parametrize("name", CALLS)
def test_what_is_called_raises_nothing_and_warns_at_most_once_of_a_kind(
    started: wandb.Run, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    CALLS[name]()
    before = Counter(record.getMessage() for record in caplog.records if "alert:" not in record.getMessage())
    CALLS[name]()
    after = Counter(record.getMessage() for record in caplog.records if "alert:" not in record.getMessage())

    assert after == before and all(count == 1 for count in after.values())
    started.log({"still": 1})
    assert '"still":1' in next(Path("headroom-runs").glob("*.jsonl")).read_text()


def test_what_is_not_kept_is_said_of_each_run_anew(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        with wandb.init() as run:
            run.watch(object())
            run.watch(object())

    assert caplog.text.count("gradients and parameters are not watched") == 2


def test_before_init_there_is_no_run_and_all_else_is_there() -> None:
    for thing in set(NAMES) - {"wandb.run", "wandb.config", "wandb.summary"}:
        found = eval(thing, {"wandb": wandb})
        assert [name for name in NAMES[thing].split() if not hasattr(found, name)] == []
    assert (wandb.run, wandb.run_id) == (None, None)
    wandb.login()
    wandb.finish()
    wandb.teardown()
    with pytest.raises(wandb.Error, match=r"call wandb.init\(\) first"):
        wandb.config["lr"] = 0.1
    with pytest.raises(wandb.Error, match=r"call wandb.init\(\) first"):
        wandb.summary.update({"a": 1})


def test_a_config_that_was_imported_early_is_that_of_the_run() -> None:
    from headroom.wandb_shim import config, log

    wandb.init(config={"lr": 0.1})
    config.batch = 8
    config["seed"] = 3
    log({"a": 1})

    assert (config.lr, config["batch"], dict(wandb.config)) == (0.1, 8, {"lr": 0.1, "batch": 8, "seed": 3})


def test_small_helpers() -> None:
    util = wandb.util
    assert (
        len(util.generate_id()) == 8
        and len(util.generate_id(length=4)) == 4
        and util.generate_id() != util.generate_id()
    )
    assert util.make_artifact_name_safe("a b/c:1" + "x" * 200) == ("a_b_c_1" + "x" * 200)[:128]
    assert util.get_module("no.such.module") is None
    with pytest.raises(wandb.UsageError, match="install it"):
        util.get_module("no_such_module", required="install it")


def test_the_terminal_is_told_what_wandb_would_say(capsys: pytest.CaptureFixture[str]) -> None:
    wandb.termlog("one")
    wandb.termwarn("two")
    wandb.termerror("three")
    assert capsys.readouterr().err == "wandb: one\nwandb: WARNING two\nwandb: ERROR three\n"
