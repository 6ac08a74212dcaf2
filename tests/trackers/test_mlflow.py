"""MLflow's own client, pointed at Headroom by two variables."""

import hashlib
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import mlflow
import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException

from tests.trackers.conftest import Headroom

pytestmark = pytest.mark.usefixtures("mlflow_env")


def test_a_run_from_beginning_to_end(headroom: Headroom) -> None:
    mlflow.set_experiment("from mlflow")
    values = [0.1, 2 / 3, 1e-12, 12345.678]
    with mlflow.start_run(run_name="plain", tags={"team": "rl"}) as run:
        mlflow.log_params({"lr": 1e-6, "model/path": "Qwen"})
        for step, value in enumerate(values):
            mlflow.log_metrics({"loss": value, "eval/pass_rate": step / 10}, step=step)
        mlflow.set_tag("phase", "done")

    client = MlflowClient()
    found = client.get_run(run.info.run_id)
    assert found.info.status == "FINISHED" and found.info.end_time >= found.info.start_time
    assert found.data.params == {"lr": "1e-06", "model/path": "Qwen"}
    assert found.data.tags["team"] == "rl" and found.data.tags["phase"] == "done"
    assert found.data.metrics == {"loss": values[-1], "eval/pass_rate": 0.3}
    history = client.get_metric_history(run.info.run_id, "loss")
    assert [(each.step, each.value) for each in history] == list(enumerate(values))
    detail = headroom.run("plain")
    assert detail["state"] == "succeeded" and detail["config"]["lr"] == "1e-06"
    assert headroom.curve("plain") == [(0, 0.0), (1, 0.1), (2, 0.2), (3, 0.3)]


def test_experiments(headroom: Headroom) -> None:
    client = MlflowClient()
    made = client.create_experiment("of its own", tags={"a": "b"})

    with pytest.raises(MlflowException) as error:
        client.create_experiment("of its own")
    client.set_experiment_tag(made, "c", "d")
    client.rename_experiment(made, "renamed")
    client.delete_experiment(made)
    client.restore_experiment(made)

    assert error.value.error_code == "RESOURCE_ALREADY_EXISTS"
    found = client.get_experiment_by_name("renamed")
    assert found.experiment_id == made and found.tags == {"a": "b", "c": "d"}
    assert client.get_experiment_by_name("of its own") is None
    assert [each.name for each in client.search_experiments(filter_string="name = 'renamed'")] == ["renamed"]
    assert client.get_experiment("0").name == "Default"


def test_what_is_logged_in_the_background_arrives(headroom: Headroom) -> None:
    with mlflow.start_run(run_name="in the background") as run:
        mlflow.log_params({f"p{i}": i for i in range(250)}, synchronous=False)
        for step in range(300):
            mlflow.log_metrics({f"m{i}": float(step * i) for i in range(20)}, step=step, synchronous=False)
        mlflow.log_metric("one", 1.0, synchronous=False).wait()

    client = MlflowClient()
    assert len(client.get_run(run.info.run_id).data.params) == 250
    history = client.get_metric_history(run.info.run_id, "m7")
    assert sorted((each.step, each.value) for each in history) == [(step, 7.0 * step) for step in range(300)]


def test_not_a_number_and_infinity(headroom: Headroom) -> None:
    values = [1.0, math.nan, math.inf, -math.inf]
    with mlflow.start_run(run_name="not finite") as run:
        for step, value in enumerate(values):
            mlflow.log_metric("loss", value, step=step)

    history = MlflowClient().get_metric_history(run.info.run_id, "loss")

    assert [str(each.value) for each in history] == [str(value) for value in values]
    assert [record["metrics"]["loss"] for record in headroom.records("not finite")] == [1.0, None, None, None]


def test_going_on_with_a_run_by_its_id(headroom: Headroom, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow.set_experiment("resumed")
    run = mlflow.start_run(run_name="resumed")
    for step in range(1, 6):
        mlflow.log_metric("eval/pass_rate", step / 10, step=step)
    mlflow.end_run("FAILED")

    monkeypatch.setenv("MLFLOW_RUN_ID", run.info.run_id)
    with mlflow.start_run() as again:
        for step in range(4, 8):
            mlflow.log_metric("eval/pass_rate", step / 10 + 0.01, step=step)

    assert again.info.run_id == run.info.run_id
    steps = [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.41), (5, 0.51), (6, 0.61), (7, 0.71)]
    assert headroom.curve("resumed") == [(step, pytest.approx(value)) for step, value in steps]
    assert headroom.run("resumed")["state"] == "succeeded"


def test_finding_runs(headroom: Headroom) -> None:
    mlflow.set_experiment("searched")
    for number in range(3):
        with mlflow.start_run(run_name=f"searched {number}"):
            mlflow.log_param("seed", number)
            mlflow.log_metric("score", number / 2)

    found = mlflow.search_runs(
        filter_string="metrics.score > 0.1 and params.seed != '2'", order_by=["metrics.score DESC"]
    )
    pages = MlflowClient().search_runs(
        [mlflow.get_experiment_by_name("searched").experiment_id], max_results=2
    )

    assert list(found["params.seed"]) == ["1"]
    assert len(pages) == 2 and pages.token
    with pytest.raises(MlflowException, match="cannot be read"):
        mlflow.search_runs(filter_string="metrics.score > 0.1 OR params.seed = '2'")


def test_params_are_never_changed(headroom: Headroom) -> None:
    with mlflow.start_run(run_name="params"):
        mlflow.log_param("lr", 1)
        mlflow.log_param("lr", 1)
        with pytest.raises(MlflowException, match="[Cc]hanging param values is not allowed"):
            mlflow.log_param("lr", 2)


def digest(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def kept(headroom: Headroom, name: str) -> dict[str, str]:
    """Path -> digest of the files that Headroom has of a run."""
    found = headroom.get(f"runs/{headroom.run(name)['id']}/artifacts", limit=500)["items"]
    return {one["path"]: one["sha256"] for one in found}


def test_artifacts_of_every_kind_come_back_by_digest(headroom: Headroom, tmp_path: Path) -> None:
    import numpy as np
    from matplotlib.figure import Figure

    folder = tmp_path / "outputs"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "weights.bin").write_bytes(os.urandom(3_000_000))
    (folder / "empty").write_bytes(b"")
    (folder / "ä b%c+d&e.txt").write_text("odd name")
    figure = Figure()
    figure.subplots().plot([1, 2, 3])
    with mlflow.start_run(run_name="with files") as run:
        mlflow.log_artifact(str(folder / "empty"))
        mlflow.log_artifacts(str(folder), "outputs")
        mlflow.log_text("2 + 2 = 4", "samples/text.txt")
        mlflow.log_dict({"a": [1, 2]}, "config.json")
        mlflow.log_image(np.zeros((4, 4, 3), dtype=np.uint8), "image.png")
        mlflow.log_image(np.zeros((4, 4, 3), dtype=np.uint8), key="rollouts", step=5)
        mlflow.log_figure(figure, "plots/figure.png")
        for row in range(2):  # the client reads the table and writes it anew
            mlflow.log_table({"prompt": [f"p{row}"], "reward": [row]}, "table.json")

    client, run_id = MlflowClient(), run.info.run_id
    assert [(file.path, file.is_dir) for file in client.list_artifacts(run_id, "outputs")] == [
        ("outputs/deep", True), ("outputs/empty", False), ("outputs/ä b%c+d&e.txt", False),
    ]  # fmt: skip
    here = mlflow.artifacts.download_artifacts(run_id=run_id, dst_path=str(tmp_path / "back"))
    back = {str(path.relative_to(here)): digest(path) for path in Path(here).rglob("*") if path.is_file()}
    assert back == kept(headroom, "with files")
    for path in folder.rglob("*"):
        if path.is_file():
            assert back[f"outputs/{path.relative_to(folder)}"] == digest(path)
    assert {"empty", "samples/text.txt", "config.json", "image.png", "plots/figure.png", "table.json"} < set(
        back
    )
    assert sum(path.startswith("images/rollouts") for path in back) == 2
    assert list(mlflow.load_table("table.json", [run_id])["reward"]) == [0, 1]
    assert mlflow.artifacts.load_text(f"runs:/{run_id}/samples/text.txt") == "2 + 2 = 4"
    assert not list(tmp_path.glob("mlartifacts")) and not list(tmp_path.glob("mlruns"))
    assert headroom.run("with files")["state"] == "succeeded"


def test_a_model_is_logged_with_its_files_and_loaded_again(headroom: Headroom, tmp_path: Path) -> None:
    """As transformers' callback does with HF_MLFLOW_LOG_ARTIFACTS."""
    (tmp_path / "checkpoint-2").mkdir()
    (tmp_path / "checkpoint-2" / "weights").write_text("w")
    with mlflow.start_run(run_name="with a checkpoint") as run:
        made = mlflow.pyfunc.log_model(
            "checkpoint-2",
            artifacts={"model_path": str(tmp_path / "checkpoint-2")},
            python_model=mlflow.pyfunc.PythonModel(),
        )

    path = f"models/{made.model_id}/artifacts/checkpoint-2/weights"
    assert kept(headroom, "with a checkpoint")[path] == digest(tmp_path / "checkpoint-2" / "weights")
    for uri in (f"models:/{made.model_id}", f"runs:/{run.info.run_id}/checkpoint-2"):
        here = Path(mlflow.artifacts.download_artifacts(uri, dst_path=str(tmp_path / uri.partition(":")[0])))
        assert [file.read_text() for file in here.rglob("weights")] == ["w"]


def test_deleted_artifacts_are_gone(headroom: Headroom) -> None:
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    with mlflow.start_run(run_name="with fewer files") as run:
        mlflow.log_text("1", "a/1")
        mlflow.log_text("2", "b")
        get_artifact_repository(run.info.artifact_uri).delete_artifacts("a")

    assert list(kept(headroom, "with fewer files")) == ["b"]


def test_the_address_that_is_printed_leads_to_the_run(
    headroom: Headroom, capfd: pytest.CaptureFixture[str]
) -> None:
    with mlflow.start_run(run_name="looked at") as run:
        pass

    printed = capfd.readouterr().out
    assert f"{headroom.url}/#/experiments/0/runs/{run.info.run_id}" in printed


def test_data_sets_are_taken_without_an_error(headroom: Headroom) -> None:
    import numpy as np

    with mlflow.start_run(run_name="with inputs"):
        mlflow.log_input(mlflow.data.from_numpy(np.zeros(3)), context="training")

    assert headroom.run("with inputs")["state"] == "succeeded"


def test_a_token_that_is_wrong_or_may_only_read(headroom: Headroom, monkeypatch: pytest.MonkeyPatch) -> None:
    for token, word in (("hr_wrong", "unknown"), (headroom.read, "write")):
        monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", token)
        with pytest.raises(MlflowException, match=word):
            mlflow.start_run()


def test_a_client_that_is_killed_has_what_it_logged(headroom: Headroom, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import mlflow, os, signal\n"
        "run = mlflow.start_run(run_name='killed')\n"
        "for step in range(5): mlflow.log_metric('loss', step, step=step)\n"
        "print(run.info.run_id, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], env=dict(os.environ), capture_output=True, text=True, timeout=120
    )

    assert done.returncode == -9
    assert len(MlflowClient().get_metric_history(done.stdout.split()[-1], "loss")) == 5
    assert headroom.run("killed")["state"] == "running"  # until it is lost


def test_a_server_that_is_killed_while_values_arrive_loses_none_that_it_took(headroom: Headroom) -> None:
    """The client repeats what got no answer; what had arrived already is stored once."""
    client = MlflowClient()
    run = mlflow.start_run(run_name="through a crash")
    for step in range(60):
        if step == 30:
            headroom.kill()
        lines = [Metric(f"m{i}", float(step + i), 1_760_000_000_000 + step, step) for i in range(50)]
        client.log_batch(run.info.run_id, metrics=lines)
        client.log_batch(run.info.run_id, metrics=lines[::-1])
    mlflow.end_run()

    history = client.get_metric_history(run.info.run_id, "m3")
    assert [(each.step, each.value) for each in history] == [(step, step + 3.0) for step in range(60)]


@pytest.mark.timeout(600)
def test_of_a_hundred_thousand_distinct_metrics_as_many_as_the_project_allows_are_kept(
    headroom: Headroom,
) -> None:
    client = MlflowClient()
    run = mlflow.start_run(run_name="very many")
    for first in range(0, 100_000, 1000):
        lines = [Metric(f"metric/{first + i}", float(first + i), 1_760_000_000_000, 1) for i in range(1000)]
        client.log_batch(run.info.run_id, metrics=lines)
    mlflow.end_run()

    assert len(client.get_run(run.info.run_id).data.metrics) == 10_000
    (last,) = client.get_metric_history(run.info.run_id, "metric/9999")
    assert last.value == 9999.0


def test_a_batch_is_all_or_nothing(headroom: Headroom) -> None:
    client = MlflowClient()
    run = mlflow.start_run(run_name="all or nothing")
    client.log_param(run.info.run_id, "lr", "1")

    with pytest.raises(MlflowException):
        client.log_batch(
            run.info.run_id,
            metrics=[Metric("a", 1.0, 1, 1)],
            params=[Param("lr", "2")],
            tags=[RunTag("t", "v")],
        )

    found = client.get_run(run.info.run_id).data
    assert found.metrics == {} and "t" not in found.tags


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.search_traces(locations=["0"]),
        lambda client: client.get_trace("tr-" + 32 * "0"),
        lambda client: client.create_dataset("held out", experiment_id=["0"]),
        lambda client: client.search_datasets(),
        lambda client: client.create_registered_model("m"),
    ],
)
def test_what_headroom_does_not_keep_is_refused_as_mlflow_does(headroom: Headroom, ask) -> None:
    with pytest.raises(MlflowException, match="Headroom does not speak this part") as error:
        ask(MlflowClient())

    assert error.value.error_code == "ENDPOINT_NOT_FOUND"


def test_traces_of_a_run_are_samples(headroom: Headroom) -> None:
    @mlflow.trace
    def judged(response: str) -> float:
        return float(response == "2")

    @mlflow.trace
    def answered(question: str) -> dict[str, object]:
        return {"response": "2", "score": judged("2")}

    with mlflow.start_run(run_name="traced"):
        mlflow.log_metric("loss", 1.0, step=40)
        answered("1 + 1 =")
        answered("0 + 2 =")
        mlflow.flush_trace_async_logging()

    assert headroom.samples("traced") == [("train", 40, 2)]
    rows = headroom.responses("traced", "train", 40)
    # Its client sends traces side by side: they come in any order.
    assert sorted((row["prompt"], row["response"], row["reward"]) for row in rows) == [
        ("0 + 2 =", "2", 1.0), ("1 + 1 =", "2", 1.0),
    ]  # fmt: skip


def test_tables_of_responses_are_samples(headroom: Headroom, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas as pd

    counts_words = SimpleNamespace(encode=str.split)  # tiktoken would fetch its vocabulary
    monkeypatch.setitem(sys.modules, "tiktoken", SimpleNamespace(get_encoding=lambda name: counts_words))

    answers = pd.DataFrame(
        {"inputs": ["1 + 1 =", "2 + 2 ="], "outputs": ["2", "5"], "ground_truth": ["2", "4"]}
    )
    with mlflow.start_run(run_name="with tables"):
        for step in (10, 20):
            mlflow.log_metric("loss", 1 / step, step=step)
            mlflow.log_table(answers.assign(step=step), "completions.json")  # it grows
        mlflow.log_table(pd.DataFrame({"lr": [1e-6], "loss": [0.5]}), "numbers.json")
        mlflow.models.evaluate(
            data=answers, predictions="outputs", targets="ground_truth", model_type="question-answering",
        )  # fmt: skip

    assert headroom.samples("with tables") == [("eval", 20, 2), ("train", 10, 2), ("train", 20, 2)]
    (first, second) = headroom.responses("with tables", "eval", 20)
    assert (first["prompt"], first["response"], second["answer"]) == ("1 + 1 =", "2", "4")
