"""`python -m headroom samples`: folders of responses come to a run."""

import gzip
import json
from pathlib import Path

import pytest

from headroom.__main__ import main
from headroom.dumps import Dumps
from tests.headroom.fake_server import FakeServer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rollouts").mkdir()
    for step in (2, 10):
        row = {"input": "1+1", "output": "2", "gts": "2", "score": 1.0, "step": step}
        (tmp_path / "rollouts" / f"{step}.jsonl").write_text(json.dumps(row) + "\n")
    return tmp_path


def send(server: FakeServer, path: Path, *more: str) -> int:
    return main(["samples", str(path), "--run", "r1", "--url", server.url, "--token", "hr_test", *more])


def test_a_folder_of_dumps(server: FakeServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "val").mkdir()
    (folder / "val" / "10.jsonl").write_text('{"input": "q", "output": "r"}\n')
    (folder / "about.json").write_text("{}")

    assert send(server, folder) == 0

    sent = {name: gzip.decompress(content) for (_, name), content in server.files.items()}
    assert sorted(sent) == ["eval/10", "train/10", "train/2"]
    assert json.loads(sent["train/2"]) == {"prompt": "1+1", "response": "2", "answer": "2", "reward": 1.0}
    said = capsys.readouterr().out
    assert "val/10.jsonl: 1 responses of eval/10" in said and "about.json: no responses" in said


def test_two_files_of_one_step_do_not_replace_each_other(
    server: FakeServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "rollouts" / "step10.jsonl").write_text('{"input": "q", "output": "r"}\n')

    assert send(server, folder, "--kind", "train") == 1
    assert "10.jsonl has train/10 already" in capsys.readouterr().out


def test_what_is_refused_or_no_folder_is_said(
    server: FakeServer, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.refuse = lambda path, body: (413, "too much")
    assert send(server, folder) == 1
    assert capsys.readouterr().out.count("not sent: ") == 2
    assert send(server, folder / "none") == 2


def test_more_than_is_kept_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    dumps, given = Dumps(tmp_path, "train"), []
    (tmp_path / "1.jsonl").write_text('{"input": "q", "output": "r"}\n' * 5000)
    run = type(
        "Run", (), {"log_samples": lambda self, step, rows, kind: given.append((step, len(rows), kind))}
    )

    dumps.log(run(), all_of_them=True)

    assert given == [(1, 4096, "train")] and "the first 4,096 responses" in caplog.text
