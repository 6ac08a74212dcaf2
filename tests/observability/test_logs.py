import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from observability import context, logs

ROOT = Path(__file__).resolve().parents[2]


def line(text="done", *arguments, **more):
    return logging.LogRecord("webapp.x", logging.INFO, "x.py", 1, text, arguments, more.pop("exc_info", None))


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["/opt/.venv/bin/gunicorn", "webapp.wsgi"], "web"),
        (["/opt/.venv/bin/celery", "-A", "worker.app", "worker", "--concurrency", "2"], "worker"),
        (["/opt/.venv/bin/celery", "--quiet", "-A", "worker.app", "beat"], "beat"),
        (["/x/site-packages/celery/__main__.py", "-A", "worker.app", "worker"], "worker"),
        (["/opt/training/training/__main__.py", "run", "r.yaml"], "driver"),
        (["/opt/training/manage.py", "up", "--port", "1"], "supervisor"),
        (["manage.py", "runserver"], "web"),
        (["manage.py", "migrate"], "manage"),
        ([], "manage"),
    ],
)
def test_the_part_is_known_from_the_command_line(arguments, part):
    assert logs.part_of(arguments) == part


def test_a_json_line_holds_the_ids_and_the_fields_of_the_call():
    record = line("run %s", "abc")
    record.fields = {"status": 200}

    with context.bound(request_id="click-001", run="abc"):
        said = json.loads(logs.JsonFormatter("web").format(record))

    assert said.pop("time").endswith("Z") and said.pop("pid") == os.getpid()
    assert said == {
        "level": "INFO", "part": "web", "logger": "webapp.x", "message": "run abc", "request_id": "click-001",
        "run": "abc", "status": 200,
    }  # fmt: skip


def test_an_exception_and_a_line_break_stay_on_one_line():
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        text = logs.JsonFormatter("web").format(line("went\nwrong", exc_info=sys.exc_info()))

    assert "\n" not in text
    assert json.loads(text)["exception"].endswith("ValueError: first\nsecond")


def test_a_line_of_text_ends_with_the_ids():
    with context.bound(request_id="click-001", run="abc", task="not shown"):
        assert (
            logs.TextFormatter().format(line()).endswith("INFO webapp.x done [request_id=click-001 run=abc]")
        )
    assert logs.TextFormatter().format(line()).endswith("INFO webapp.x done")


@pytest.mark.parametrize(("asked", "kind"), [("json", logs.JsonFormatter), ("", logs.TextFormatter)])
def test_the_variable_chooses_the_form(monkeypatch, asked, kind):
    monkeypatch.setenv(logs.VARIABLE, asked)

    assert type(logs.formatter()) is kind


def test_the_supervisor_speaks_in_the_same_form(monkeypatch, capsys):
    logs.say("web ended", part="supervisor")
    monkeypatch.setenv(logs.VARIABLE, "json")
    logs.say("web ended", part="supervisor")

    plain, as_json = capsys.readouterr().out.splitlines()
    assert plain == "web ended"
    assert json.loads(as_json)["part"] == "supervisor" and json.loads(as_json)["message"] == "web ended"


def test_a_file_of_lines_that_cannot_be_written_costs_nothing_but_its_lines(tmp_path, capsys):
    gone = logs.LinesFile(tmp_path / "no" / "folder" / "lines.jsonl")
    small = logs.LinesFile(tmp_path / "lines.jsonl", most_bytes=1)
    for handler in (gone, small):
        for _ in range(3):
            handler.handle(line())
        handler.close()

    assert len((tmp_path / "lines.jsonl").read_text().splitlines()) == 1
    assert (tmp_path / "lines.jsonl").stat().st_mode & 0o777 == 0o600
    assert capsys.readouterr().err == ""


def test_a_driver_writes_its_lines_beside_what_its_page_shows(tmp_path):
    """The whole way of a job: its environment, `python -m training run`, the file."""
    run_dir = tmp_path / "run"
    variables = os.environ | {
        "HEADROOM_LOG_FORMAT": "json", "HEADROOM_RUN": "abc", "HEADROOM_ATTEMPT": "2",
        "HEADROOM_REQUEST_ID": "click-001",
    }  # fmt: skip
    run_dir.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "training", "run", "gone.yaml", "--run-dir", str(run_dir)],
        cwd=ROOT, env=variables, capture_output=True, text=True, timeout=120,
    )  # fmt: skip

    assert done.returncode == 1 and done.stderr.strip() == "error: no recipe file gone.yaml"
    (said,) = [json.loads(text) for text in (run_dir / "attempt-2.jsonl").read_text().splitlines()]
    assert said["message"] == "no recipe file gone.yaml" and said["part"] == "driver"
    assert (said["run"], said["attempt"], said["request_id"]) == ("abc", "2", "click-001")
