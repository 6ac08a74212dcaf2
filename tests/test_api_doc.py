"""The commands of docs/api.md, as they stand there, against a real server."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs_server import read_server  # noqa: F401 (fixture)

TEXT = (Path(__file__).resolve().parent.parent / "docs" / "api.md").read_text()
BLOCKS = re.findall(r"^```(sh|python)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_there_are_commands_of_both_kinds():
    assert {kind for kind, _ in BLOCKS} == {"sh", "python"}
    assert len(BLOCKS) >= 9


@pytest.mark.parametrize("command", [text for kind, text in BLOCKS if kind == "sh"])
def test_a_command_does_what_the_page_says(read_server, tmp_path, command):  # noqa: F811
    if shutil.which("curl") is None:
        pytest.skip("no curl on the PATH")

    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", command], cwd=tmp_path, env=dict(os.environ) | read_server,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr + done.stdout


def test_the_python_of_the_page_runs_in_its_order(read_server, tmp_path, monkeypatch, capsys):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    names = {"RUN": read_server["RUN"]}

    for kind, text in BLOCKS:
        if kind == "python":
            exec(compile(text, "docs/api.md", "exec"), names)

    assert capsys.readouterr().out.splitlines() == ["CISPO running 41", "GRPO running 41"]
    assert (tmp_path / "curves.parquet").stat().st_size > 1000
    header = (tmp_path / "records.csv").read_text().splitlines()[0]
    assert header.endswith("eval/pass_rate,train/reward,about")
    assert names["fresh"] == []
