"""`python -m headroom import` against the real API, with a worker's turns beside it."""

import json
import tarfile
import threading
from pathlib import Path

import pytest
from django.db import connection

from headroom.__main__ import main
from headroom.importing import _opened, send
from headroom.server import Server, ServerError
from tests.members import member
from tests.webapp.interfaces.imports.readers.reading import SAMPLES
from tests.webapp.interfaces.imports.readers.test_trackers import event_file, scalar
from webapp.identity.accounts.services import create_project, create_token
from webapp.interfaces.imports.models import Import
from webapp.interfaces.imports.reading import take_turn
from webapp.record.runs.models import Record, Run

CSV = "iteration,val_acc,gpu_hours\n" + "".join(f"{i},0.{i},{i / 2}\n" for i in range(1, 10))


@pytest.fixture
def server(live_server, monkeypatch):
    """The environment names a server and a token; a worker takes turns until the test is over."""
    project = create_project(slug="math", name="Math")
    token = create_token(user=member("ada", project=project), project=project, scope="write")
    monkeypatch.setenv("HEADROOM_URL", live_server.url)
    monkeypatch.setenv("HEADROOM_TOKEN", token)
    done = threading.Event()
    worker = threading.Thread(target=work, args=(done,))
    worker.start()
    yield live_server
    done.set()
    worker.join()


def work(done):
    while not done.wait(0.05):
        take_turn()
    connection.close()


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "grpo.csv"
    path.write_text(CSV)
    return path


def test_a_table_is_imported_and_its_runs_are_printed(server, table, capsys):
    columns = json.dumps({"step": "iteration", "device_hours": "gpu_hours"})

    status = main(
        ["import", "csv", str(table), "--columns", columns, "--pass-rate", "val_acc", "--task", "math"]
    )

    run = Run.objects.get()
    said = capsys.readouterr()
    assert (status, said.err) == (0, "")
    assert f"grpo: {server.url}/runs/{run.pk}" in said.out
    assert "finished: 1 run, 9 rows read, 9 of them new" in said.out
    assert (run.task, run.state) == ("math", "succeeded")
    assert Record.objects.earliest("seq").metrics == {"eval/pass_rate": 0.1}


def test_again_it_stores_nothing_twice_and_what_has_grown_is_added(server, table, capsys):
    arguments = ["import", "auto", str(table), "--columns", '{"step": "iteration"}']
    assert main(arguments) == 0
    assert main(arguments) == 0
    assert "9 rows read, 0 of them new" in capsys.readouterr().out
    table.write_text(CSV + "10,0.99,5.0\n")
    assert main(arguments) == 0
    assert "10 rows read, 1 of them new" in capsys.readouterr().out
    assert Run.objects.count() == 1


def test_a_broken_file_ends_with_2_and_one_line_and_a_mended_one_goes_on(server, table, capsys):
    table.write_text(CSV.replace(",0.5,", ",half,"))
    arguments = ["import", "csv", str(table), "--columns", '{"step": "iteration", "pass_rate": "val_acc"}']

    assert main(arguments) == 2

    said = capsys.readouterr()
    assert said.err.startswith("error: grpo.csv, line 6: ") and said.err.count("\n") == 1
    assert Record.objects.count() == 4
    table.write_text(CSV)
    assert main(["import", "csv", str(table), "--resume", Import.objects.get().pk]) == 0
    assert Record.objects.count() == 9


def test_a_folder_is_packed_on_the_way(server, tmp_path, capsys):
    folder = tmp_path / "logs" / "math"
    folder.mkdir(parents=True)
    (folder / "grpo.jsonl").write_text('{"step": 1, "data": {"critic/rewards/mean": 0.5}}\n')

    assert main(["import", "verl", str(tmp_path / "logs")]) == 0
    assert Record.objects.get().metrics == {"train/reward": 0.5}


def test_an_archive_holds_what_is_below_the_folder_without_links(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "one").write_text("1")
    (tmp_path / "a" / "two").symlink_to("/etc/hostname")

    with _opened([tmp_path / "a"]) as ((field, (name, held)),), tarfile.open(fileobj=held) as archive:
        assert (field, name, archive.getnames()) == ("files", "a.tar.gz", ["b/one"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["excel", "{table}"], "kind must be one of"),
        (["csv", "{table}", "--devices", "-1"], "devices is a number above 0"),
        (["csv", "{table}", "--columns", '{"step": "epoch"}'], "there is no column epoch"),
        (["csv", "{table}", "--columns", "step"], "--columns is no JSON"),
        (["csv", "{table}", "--columns", "[]"], "--columns is no JSON object"),
        (["csv", "/no/such/file"], "does not exist"),
        (["csv"], "a PATH is needed"),
        (["csv", "{table}", "--percent"], "options.percent"),
        (["mlflow", "mysql://me:secret@db/mlflow"], "not mysql://"),
        (["csv", "postgresql://me:secret@db/mlflow"], "is read as the kind mlflow"),
        (["mlflow", "sqlite:///a.db", "sqlite:///b.db"], "one is imported at a time"),
        (["mlflow", "sqlite:////no/such/mlflow.db"], "unable to open"),
        (["mlflow-server", "--address", "http://169.254.169.254"], "https://"),
    ],
)
def test_what_cannot_be_imported_ends_with_2_and_one_line(server, table, capsys, arguments, words):
    assert main(["import", *(each.replace("{table}", str(table)) for each in arguments)]) == 2

    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
    assert not Import.objects.exists()


def test_a_server_that_is_not_there_ends_with_1(table, capsys):
    assert main(["import", "csv", str(table), "--url", "http://127.0.0.1:9", "--token", "hr_x"]) == 1
    assert "cannot be reached" in capsys.readouterr().err
    with pytest.raises(ServerError):
        send(Server("http://127.0.0.1:9", None), "imports", [table])


def test_columns_names_and_amounts_are_said_by_options(server, tmp_path, capsys):
    path = tmp_path / "grpo.csv"
    path.write_text("step,acc,note,noise,tokens,gpu_hours\n1,41.5,7,1,10,1\n2,50,8,1,5,1\n")

    status = main([
        "import", "csv", str(path), "--columns", '{"step": "step", "tokens": "tokens", "device_hours": "gpu_hours"}',
        "--pass-rate", "acc", "--percent", "--per-row", "tokens", "--per-row", "device_hours",
        "--ignore", "note", "--ignore", "noise", "--name", "GRPO, seed 1",
    ])  # fmt: skip

    said = capsys.readouterr()
    assert (status, said.err) == (0, "")
    assert Run.objects.get().name == "GRPO, seed 1"
    first, last = Record.objects.order_by("seq")
    assert (first.metrics, last.metrics) == ({"eval/pass_rate": 0.415}, {"eval/pass_rate": 0.5})
    assert last.compute == {"device_hours": 2, "flops": None, "tokens": 15}


def test_devices_that_are_said_later_lead_to_the_runs_page(server, tmp_path, capsys):
    path = tmp_path / "grpo.csv"
    path.write_text("step,elapsed,acc\n1,60,0.5\n2,120,0.6\n")
    assert main(["import", "auto", str(path)]) == 0
    assert main(["import", "auto", str(path), "--devices", "8"]) == 2

    said = capsys.readouterr()
    run = Run.objects.get()
    assert "Say other devices or another pass rate on the run's page, under Metrics" in said.err
    assert said.out.count(f"{server.url}/runs/{run.pk}") == 2


def test_a_folder_gives_its_name_to_its_run(server, tmp_path):
    folder = tmp_path / "tb"
    folder.mkdir()
    (folder / "x.tfevents.1").write_bytes(event_file([scalar(1, "a", 1)]))

    assert main(["import", "tensorboard", str(folder)]) == 0
    assert Run.objects.get().name == "tb"


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
@pytest.mark.parametrize("kind", ["mlflow", "auto"])
def test_a_store_of_mlflow_is_imported_by_file_or_uri(server, capsys, kind, form):
    store = form.format(SAMPLES / "mlflow.db")

    assert main(["import", kind, store, "--experiment", "math"]) == 0
    assert main(["import", kind, store, "--experiment", "math"]) == 0

    assert "3 runs, 14 rows read, 0 of them new" in capsys.readouterr().out
    assert set(Run.objects.values_list("name", flat=True)) == {"done", "stopped", "going on"}
