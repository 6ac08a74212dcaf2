"""MLflow: a server that answers what a real one did, and stores that are damaged or on their way."""

import json
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.webapp.interfaces.imports.readers.reading import (
    EXPECTED,
    SAMPLES,
    broken,
    ours,
    read,
    rows_of,
    runs_of,
    written,
)
from webapp.interfaces.imports.readers import mlflow_server
from webapp.interfaces.imports.readers.kinds import guess_kind
from webapp.interfaces.imports.readers.rows import BadSource, Options, ServerOptions

ANSWERS = json.loads((SAMPLES / "mlflow_server.json").read_text())


class Recorded:
    """Answers with what was recorded from a real server. `status` and `body` replace an answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.status, self.body = 200, None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str) -> Any:
        parts = urlsplit(path)
        name = parts.path.removeprefix("/api/2.0/mlflow/")
        if name != "metrics/get-history":
            return ANSWERS[name]
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        return ANSWERS[f"{query['run_id']} {query['metric_key']} {query.get('page_token', '')}"]

    def _handler(server) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                self.do_GET()

            def do_GET(self) -> None:
                server.asked.append((self.path, self.headers.get("authorization")))
                body = server.body or json.dumps(server.answer(self.path)).encode()
                self.send_response(server.status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None: ...

        return Handler


@pytest.fixture
def server(settings) -> Iterator[Recorded]:
    one = Recorded()
    settings.ALLOW_PRIVATE_HOSTS = [urlsplit(one.address).netloc]
    yield one
    one.stop()


def test_every_run_of_a_server(server: Recorded) -> None:
    runs = {run.name: run for run in read("mlflow-server", f"{server.address}/", Options(devices=8))}
    expected = EXPECTED["mlflow-server"]
    assert set(runs) == set(expected)
    assert [runs[name].state for name in ("done", "stopped", "going on")] == ["succeeded", "cancelled", None]
    for name, run in runs.items():
        rows = list(run.rows())
        assert [[row.step, row.time and row.time.timestamp()] for row in rows] == [
            [step, moment] for step, moment, _ in expected[name]["rows"]
        ]
        assert all(
            row.metrics
            == ours(values) | {"eval/pass_rate": values["val-core/gsm8k/acc/mean_at_4"], "eval/k": 4}
            for row, (_, _, values) in zip(rows, expected[name]["rows"], strict=True)
        )
    assert runs["done"].config == expected["done"]["params"] and runs["done"].task == "math"


@pytest.mark.parametrize(
    ("credentials", "header"),
    [
        ({"token": "secret"}, "Bearer secret"), ({"token": "secret", "user": "me"}, "Basic bWU6c2VjcmV0"), ({}, None)
    ],
)  # fmt: skip
def test_credentials(server: Recorded, credentials: dict[str, str], header: str | None) -> None:
    read("mlflow-server", server.address, ServerOptions(**credentials))
    assert {sent for _, sent in server.asked} == {header}


def test_experiments_are_chosen_by_name(server: Recorded) -> None:
    assert len(read("mlflow-server", server.address, Options(experiments=("math",)))) == 3
    with pytest.raises(BadSource, match="There is no experiment chess"):
        read("mlflow-server", server.address, Options(experiments=("math", "chess")))


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (401, b"{}", "lets nobody in"), (500, b"{}", "with status 500"), (302, b"", "redirect"),
        (200, b"<html>", "none of MLflow's"), (200, b"[]", "none of MLflow's"),
        (200, b'{"experiments": "x"}', "none of MLflow's"), (200, b'{"experiments": [], "next_page_token": "a"}', ""),
    ],
)  # fmt: skip
def test_other_answers(server: Recorded, status: int, body: bytes, reason: str) -> None:
    server.status, server.body = status, body
    if not reason:  # the same page for ever
        assert read("mlflow-server", server.address, Options()) == []
        return
    with pytest.raises(BadSource, match=reason) as caught:
        read("mlflow-server", server.address, Options())
    assert caught.value.file == server.address


def test_a_server_that_drips_holds_up_nobody_for_long(server: Recorded) -> None:
    slow = mlflow_server.Server(server.address, Options(), mlflow_server.CLIENT, until=time.monotonic())
    with pytest.raises(BadSource, match="too slowly"):
        slow.experiments()
    assert not server.asked


@pytest.mark.parametrize(
    "address",
    ["http://127.0.0.1:5000", "https://169.254.169.254", "https://localhost", "file:///etc", "mlflow"],
)
def test_addresses_inside_the_network_are_refused(address: str) -> None:
    with pytest.raises(BadSource):
        read("mlflow-server", address, Options())


# --- the file store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLES / "mlruns", tmp_path / "mlruns"))


def run_folder(store: Path, name: str) -> Path:
    return next(
        path.parent.parent for path in store.glob("*/*/tags/mlflow.runName") if path.read_text() == name
    )


def test_the_folder_around_the_store_is_as_good(store: Path) -> None:
    assert guess_kind(store.parent) == "mlflow" and len(runs_of("mlflow", store.parent)) == 3


def test_the_newest_step_of_a_run_that_goes_on_is_read(store: Path) -> None:
    folder = run_folder(store, "going on")
    with (folder / "metrics" / "loss").open("a") as history:
        history.write(f"{int(time.time() * 1000)} 0.5 3\n")
    run = runs_of("mlflow", store)["going on"]
    assert [row.step for row in run.rows()] == [1, 2, 3]


def test_a_broken_history_keeps_the_other_runs_in(store: Path) -> None:
    folder = run_folder(store, "done")
    with (folder / "metrics" / "train" / "reward").open("a") as history:
        history.write("1760000900000 nonsense 9\n")
    runs = runs_of("mlflow", store)
    assert len(list(runs["stopped"].rows())) == 3
    with pytest.raises(BadSource) as caught:
        list(runs["done"].rows())
    assert caught.value.file.endswith("metrics/train/reward") and caught.value.line == 10


def test_a_torn_last_line_is_left_out_and_said(store: Path) -> None:
    folder = run_folder(store, "done")
    with (folder / "metrics" / "train" / "reward").open("a") as history:
        history.write("1760000900000 0.")
    run = runs_of("mlflow", store)["done"]
    assert len(list(run.rows())) == 9 and "not whole" in run.notes[0]


def test_a_short_description_that_would_be_endless(store: Path) -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    meta = run_folder(store, "done") / "meta.yaml"
    meta.write_text(bomb + "run_id: done\nrun_name: *a59\nstatus: *a59\n")
    assert "done" in runs_of("mlflow", store)


@pytest.mark.parametrize("text", ["- a\n", "a: [", "a: !!bool x", "\xff\xfe", "x" * 300_000])
def test_a_run_that_is_not_described_keeps_the_others_in(store: Path, text: str) -> None:
    (run_folder(store, "done") / "meta.yaml").write_text(text)
    runs = read("mlflow", store, Options())
    assert len(runs) == 3
    with pytest.raises(BadSource, match="meta.yaml"):
        for run in runs:
            list(run.rows())


def test_links_are_not_followed(store: Path, tmp_path: Path) -> None:
    secret = written(tmp_path, "secret", "1760000000000 42.0 1\n")
    (run_folder(store, "done") / "metrics" / "stolen").symlink_to(secret)
    (run_folder(store, "done") / "params" / "stolen").symlink_to(secret)
    run = runs_of("mlflow", store)["done"]
    assert "stolen" not in run.config and all("stolen" not in row.metrics for row in run.rows())


def test_a_folder_without_runs(tmp_path: Path) -> None:
    assert "no run of MLflow" in broken("mlflow", tmp_path).reason
    assert "file is not a database" in broken("mlflow", written(tmp_path, "a", "x" * 5000)).reason


def test_long_histories_are_read_piece_by_piece(tmp_path: Path) -> None:
    run = tmp_path / "1" / "abc"
    written(run, "meta.yaml", "run_id: abc\nstatus: 3\n")
    written(run, "metrics/loss", "".join(f"{1760000000000 + n} {n / 7} {n}\n" for n in range(5000)))
    rows = rows_of("mlflow", tmp_path)
    assert [(row.step, row.metrics["loss"]) for row in rows] == [(n, n / 7) for n in range(5000)]


def test_experiments_of_a_store_are_chosen_by_name(store: Path) -> None:
    assert len(read("mlflow", store, Options(experiments=("math",)))) == 3
    with pytest.raises(BadSource, match="no run of MLflow"):
        read("mlflow", store, Options(experiments=("chess",)))


# --- its database


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return Path(shutil.copy(SAMPLES / "mlflow.db", tmp_path / "mlflow.db"))


def changed(database: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(database, isolation_level=None)) as store:
        for statement in statements:
            store.execute(statement)
    return database


def test_a_database_has_every_run_that_is_not_deleted(database: Path) -> None:
    runs = runs_of("mlflow", database)
    expected = EXPECTED["mlflow-database"]

    assert set(runs) == set(expected)
    assert [runs[name].state for name in ("done", "stopped", "going on")] == ["succeeded", "cancelled", None]
    for name, run in runs.items():
        assert (run.config, run.task, run.model, run.seed) == (expected[name]["params"], "math", "tiny-1b", 7)
        assert [[row.step, row.time and row.time.timestamp(), row.metrics] for row in run.rows()] == [
            [
                step,
                moment,
                ours(values) | {"eval/pass_rate": values["val-core/gsm8k/acc/mean_at_4"], "eval/k": 4},
            ]
            for step, moment, values in expected[name]["rows"]
        ]


@pytest.mark.parametrize("kind", ["folder", "database"])
def test_what_people_said_of_a_run_is_in_its_configuration(kind: str, tmp_path: Path) -> None:
    said = {"stage": "pilot", "mlflow.note.content": "Two lines\nof words.", "mlflow.user": "ada"}
    if kind == "folder":
        written(tmp_path / "1" / "abc", "meta.yaml", "run_id: abc\nstatus: 3\n")
        for name, text in (said | {"mlflow.runName": "first"}).items():
            written(tmp_path / "1" / "abc", f"tags/{name}", text)
        (run,) = runs_of("mlflow", tmp_path).values()
        assert run.name == "first"
    else:
        copy = Path(shutil.copy(SAMPLES / "mlflow.db", tmp_path / "mlflow.db"))
        with closing(sqlite3.connect(copy, isolation_level=None)) as store:
            (run_id,) = store.execute("SELECT run_uuid FROM runs WHERE name = 'done'").fetchone()
            store.executemany("INSERT INTO tags VALUES (?, ?, ?)", [(*tag, run_id) for tag in said.items()])
        run = runs_of("mlflow", copy)["done"]
        assert run.config["seed"] == 7
    assert run.config["tags"] == {"stage": "pilot"} and run.config["description"] == "Two lines\nof words."


def test_transformers_names_are_ours_as_they_are_while_it_logs(database: Path) -> None:
    changed(
        database,
        "INSERT INTO params (key, value, run_uuid) SELECT 'per_device_train_batch_size', '4', run_uuid FROM runs",
        "INSERT INTO params (key, value, run_uuid) SELECT 'gradient_accumulation_steps', '1', run_uuid FROM runs",
        "DELETE FROM params WHERE key LIKE 'trainer/%'",  # verl's
        "UPDATE metrics SET key = substr(key, 7) WHERE key LIKE 'train/%'",
    )

    row = next(runs_of("mlflow", database)["done"].rows())

    assert (
        "train/reward" in row.metrics and row.compute["tokens"] == row.metrics["train/num_tokens"] is not None
    )


def test_what_is_infinite_is_no_value(database: Path) -> None:
    run = next(run for run in runs_of("mlflow", database).values() if run.name == "done")
    metric = ("big", 1.7976931348623157e308, 1760000060000, run.key, 1, 0)
    changed(database, f"INSERT INTO metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES {metric}")
    assert next(run.rows()).metrics["big"] is None


def test_a_database_of_a_folder(database: Path) -> None:
    assert guess_kind(database.parent) == "mlflow" and len(runs_of("mlflow", database.parent)) == 3


def test_experiments_of_a_database_are_chosen_by_name(database: Path) -> None:
    assert len(read("mlflow", database, Options(experiments=("math",)))) == 3
    with pytest.raises(BadSource, match="There is no experiment chess"):
        read("mlflow", database, Options(experiments=("math", "chess")))


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (["DROP TABLE tags"], "no store of MLflow: it has no table tags"),
        (["DROP TABLE tags", "CREATE VIEW tags AS SELECT 1"], "has no table tags"),
        (["DROP TABLE tags", "CREATE TABLE tags (x)"], "cannot be read: no such column"),
        (["DELETE FROM runs"], "no run of MLflow"),
        (["PRAGMA writable_schema = ON", "UPDATE sqlite_master SET rootpage = 3"], "cannot be read"),
    ],
)
def test_databases_that_are_refused(database: Path, statements: list[str], reason: str) -> None:
    error = broken("mlflow", changed(database, *statements))
    assert error.file == "mlflow.db" and reason in error.reason


def test_points_of_a_database_that_are_none(database: Path) -> None:
    changed(database, "UPDATE metrics SET timestamp = 'soon' WHERE key = 'train/kl'")
    assert "The history of train/kl has a point that is none" in broken("mlflow", database).reason


def test_a_database_is_never_written_to(database: Path) -> None:
    before = database.read_bytes(), sorted(path.name for path in database.parent.iterdir())
    for run in runs_of("mlflow", database).values():
        list(run.rows())
    assert (database.read_bytes(), sorted(path.name for path in database.parent.iterdir())) == before
