import os
import subprocess
import sys

import pytest

from observability.metrics_folder import VARIABLE, fresh, own_folder
from stack.environment import ROOT


@pytest.fixture(autouse=True)
def _variable_as_before(monkeypatch):
    monkeypatch.setenv(VARIABLE, "")


def test_a_folder_that_is_named_is_used(monkeypatch):
    monkeypatch.setenv(VARIABLE, "/named")

    assert own_folder() == "/named"


FORKS = """
import os, sys
from observability.metrics_folder import VARIABLE, own_folder
folder = own_folder()
if child := os.fork():
    os.waitpid(child, 0)
    assert os.path.isdir(folder) and own_folder() == folder == os.environ[VARIABLE]
    print(folder)
"""


def test_without_one_a_process_makes_its_own_which_its_end_removes_and_a_childs_leaves_alone():
    ended = subprocess.run([sys.executable, "-c", FORKS], cwd=ROOT, capture_output=True, text=True)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("/") and not os.path.exists(ended.stdout.strip())


def test_a_start_begins_with_nothing(tmp_path):
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "counter_1.db").touch()

    assert list(fresh(tmp_path / "metrics").iterdir()) == []
