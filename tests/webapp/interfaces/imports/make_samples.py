"""Writes tests/webapp/interfaces/imports/samples with the tools whose files are imported, and expected.json beside
them: what was logged, as it was told to the tools. scripts/importers.sh runs it in an environment of its own, without
Headroom.
"""

import json
import math
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).resolve().parent / "samples"
EXPECTED: dict[str, Any] = {}
CONFIG = {"lr": 1e-05, "seed": 7, "model_name": "tiny-1b", "trainer": {"nnodes": 2, "n_gpus_per_node": 4}}
BEGAN = 1_760_000_000
PORT = 18_537


def main() -> None:
    shutil.rmtree(SAMPLES, ignore_errors=True)
    SAMPLES.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = folder  # no settings of this machine's user
        for make in (wandb_runs, tensorboard, mlflow_folder, mlflow_database, mlflow_server, history):
            make(Path(folder))
    (SAMPLES / "expected.json").write_text(json.dumps(EXPECTED, indent=1) + "\n")


def logged(step: int) -> dict[str, float]:
    """Of a training that is checked at each third step."""
    values = {
        "train/reward": 0.1 * step,
        "train/completions/clipped_ratio": 0.5 / step,
        "train/num_tokens": 1000.0 * step,
    }
    if step % 3 == 0:
        values |= {"eval/rewards/accuracy/mean": 0.05 * step, "train/kl": math.nan}
    return values


def plain(values: dict[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


# --- W&B


def wandb_runs(folder: Path) -> None:
    for name in ("done", "failed", "killed"):
        run_python(f"import make_samples; make_samples.wandb_run({str(folder)!r}, {name!r})", name == "done")
    for file in sorted(folder.glob("wandb/offline-run-*/run-*.wandb")):
        target = SAMPLES / "wandb" / file.parent.name / file.name
        target.parent.mkdir(parents=True)
        shutil.copy(file, target)
    states = {"done": "succeeded", "failed": "failed", "killed": None}
    EXPECTED["wandb"] = {
        name: {
            "state": state,
            "rows": [[step, plain(logged(step))] for step in range(1, 10)],
            "config": CONFIG,
        }
        for name, state in states.items()
    }


def wandb_run(folder: str, name: str) -> None:
    import wandb

    settings = wandb.Settings(
        console="off", x_disable_meta=True, x_disable_stats=True, x_disable_machine_info=True, disable_git=True,
        save_code=False, host="machine", program="train.py", email="", username="someone",
    )  # fmt: skip
    run = wandb.init(
        project="math", name=name, id=name, config=CONFIG, mode="offline", dir=folder, settings=settings
    )
    for step in range(1, 10):
        values = logged(step)
        evaluated = {each: values.pop(each) for each in list(values) if each.startswith("eval/")}
        run.log(values, step=step)
        if evaluated:
            run.log(evaluated, step=step)
        run.log({"text": "x", "nothing": None}, step=step)
    if name == "killed":
        run.log({"text": "long" * 10_000}, step=10)
        run.log({"lost": 1.0}, step=11)
        time.sleep(3)  # W&B has written what fills a block of 32 KiB by then, and not the rest
        os.kill(os.getpid(), 9)
    run.finish(exit_code=0 if name == "done" else 3)


def run_python(code: str, check: bool) -> None:
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, check=check)


# --- TensorBoard


def tensorboard(folder: Path) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.plugins.scalar.summary_v2 import scalar_pb
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    from tensorboardX import SummaryWriter

    rows = []
    for part, steps in enumerate((range(1, 6), range(6, 10))):
        writer = SummaryWriter(str(folder / "tb" / "old" / str(part)))
        for step in steps:
            for tag, value in logged(step).items():
                writer.add_scalar(tag, value, step, walltime=BEGAN + 60 * step)
            writer.add_histogram("weights", [1.0, 2.0], step, walltime=BEGAN + 60 * step)
            rows.append([step, BEGAN + 60 * step, plain(logged(step))])
        writer.close()
        keep_events(folder / "tb" / "old" / str(part), "old", part)
    new = EventFileWriter(str(folder / "tb" / "new"))
    for step in range(1, 10):
        for tag, value in logged(step).items():
            new.add_event(Event(wall_time=BEGAN + 60 * step, step=step, summary=scalar_pb(tag, value)))
    new.close()
    keep_events(folder / "tb" / "new", "new", 0)
    EXPECTED["tensorboard"] = {"old": rows, "new": rows}


def keep_events(made: Path, run: str, part: int) -> None:
    """Their names hold this machine's."""
    (file,) = made.iterdir()
    target = SAMPLES / "tensorboard" / run / f"events.out.tfevents.{BEGAN + part}.machine.1.0"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, target)


# --- MLflow


def mlflow_folder(folder: Path) -> None:
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    store = folder / "mlruns"
    EXPECTED["mlflow"] = mlflow_log(store.as_uri())
    shutil.copytree(store, SAMPLES / "mlruns")
    for meta in SAMPLES.glob("mlruns/**/meta.yaml"):
        meta.write_text(meta.read_text().replace(str(folder), ""))
    for tag in SAMPLES.glob("mlruns/*/*/tags/mlflow.[su]*"):
        tag.unlink()
    for empty in SAMPLES.glob("mlruns/**/artifacts"):
        shutil.rmtree(empty)


def mlflow_database(folder: Path) -> None:
    """What it has by default, without the dozens of tables that nothing reads."""
    EXPECTED["mlflow-database"] = mlflow_log(f"sqlite:///{folder}/store.db")
    kept = ("experiments", "runs", "metrics", "params", "tags")
    with sqlite3.connect(folder / "store.db", isolation_level=None) as store:
        for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            if name not in kept:
                store.execute(f'DROP TABLE "{name}"')
        store.execute("UPDATE runs SET artifact_uri = NULL, user_id = NULL, source_name = NULL")
        store.execute("UPDATE experiments SET artifact_location = NULL")
        store.execute("DELETE FROM tags WHERE key <> 'mlflow.runName'")
        store.execute("VACUUM")
    shutil.copy(folder / "store.db", SAMPLES / "mlflow.db")


def mlflow_log(address: str) -> dict[str, Any]:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param

    client = MlflowClient(tracking_uri=address)
    experiment = client.create_experiment("math")
    found = {}
    for name, status, last in (
        ("done", "FINISHED", 10),
        ("stopped", "KILLED", 4),
        ("going on", "RUNNING", 3),
    ):
        run = client.create_run(experiment, run_name=name, start_time=BEGAN * 1000)
        params = {
            "lr": 1e-05,
            "seed": 7,
            "model_name": "tiny-1b",
            "trainer/nnodes": 2,
            "trainer/n_gpus_per_node": 4,
        }
        client.log_batch(run.info.run_id, params=[Param(key, str(value)) for key, value in params.items()])
        rows = []
        for step in range(1, last):
            moment = (BEGAN + 60 * step) * 1000
            values = logged(step) | {"val-core/gsm8k/acc/mean_at_4": 0.02 * step}
            client.log_batch(
                run.info.run_id, [Metric(key, value, moment, step) for key, value in values.items()]
            )
            rows.append([step, moment / 1000, plain(values)])
        client.set_terminated(run.info.run_id, status, end_time=(BEGAN + 60 * last) * 1000)
        if status == "RUNNING":
            client.update_run(run.info.run_id, status="RUNNING")
        found[name] = {"status": status, "rows": rows, "params": params}
    deleted = client.create_run(experiment, run_name="deleted")
    client.log_metric(deleted.info.run_id, "x", 1.0)
    client.delete_run(deleted.info.run_id)
    return found


def mlflow_server(folder: Path) -> None:
    """What a server answers to the requests of a reader, word by word; pages of 4 points."""
    command = [
        sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(PORT), "--workers", "1",
        "--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", str(folder / "artifacts"),
    ]  # fmt: skip
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            address = f"http://127.0.0.1:{PORT}"
            wait_for(f"{address}/health")
            EXPECTED["mlflow-server"] = mlflow_log(address)
            answers = {"experiments/search": ask(address, "experiments/search", {"max_results": 1000})}
            answers["runs/search"], histories = ask_runs(address, answers["experiments/search"])
            (SAMPLES / "mlflow_server.json").write_text(json.dumps(answers | histories, indent=1) + "\n")
        finally:
            server.terminate()


def ask_runs(address: str, experiments: Any) -> tuple[Any, dict[str, Any]]:
    ids = [each["experiment_id"] for each in experiments["experiments"]]
    runs = ask(
        address, "runs/search", {"experiment_ids": ids, "max_results": 200, "run_view_type": "ACTIVE_ONLY"}
    )
    histories = {}
    for run in runs["runs"]:
        run["info"].pop("artifact_uri", None), run["info"].pop("user_id", None)
        run["data"]["tags"] = [tag for tag in run["data"]["tags"] if tag["key"] == "mlflow.runName"]
        for metric in run["data"]["metrics"]:
            token = ""
            while True:
                path = f"metrics/get-history?run_id={run['info']['run_id']}&metric_key={metric['key']}&max_results=4"
                answer = ask(address, f"{path}&page_token={token}" if token else path)
                histories[f"{run['info']['run_id']} {metric['key']} {token}"] = answer
                token = answer.get("next_page_token", "")
                if not token:
                    break
    for experiment in experiments["experiments"]:
        experiment.pop("artifact_location", None)
    return runs, histories


def ask(address: str, path: str, body: dict[str, Any] | None = None) -> Any:
    request = urllib.request.Request(
        f"{address}/api/2.0/mlflow/{path.replace('@', '%40')}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def wait_for(url: str) -> None:
    for _ in range(120):
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            time.sleep(1)
    raise TimeoutError(url)


# --- W&B's history as pandas writes it


def history(folder: Path) -> None:
    import pandas

    rows = [
        {"_step": step, "_timestamp": BEGAN + 60.5 * step, "_runtime": 60.5 * step, **logged(step)}
        for step in range(1, 10)
    ]
    frame = pandas.DataFrame(rows)
    frame.to_csv(SAMPLES / "history.csv", index=False)
    frame.to_csv(SAMPLES / "history_with_index.csv")
    frame.to_parquet(SAMPLES / "history.parquet", compression="zstd")
    EXPECTED["history"] = [
        [
            step,
            BEGAN + 60.5 * step,
            {name: value for name, value in logged(step).items() if math.isfinite(value)},
        ]
        for step in range(1, 10)
    ]


if __name__ == "__main__":
    main()
