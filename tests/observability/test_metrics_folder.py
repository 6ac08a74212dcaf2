import os

import pytest

from observability.metrics_folder import VARIABLE, fresh, own_folder


@pytest.fixture(autouse=True)
def _variable_as_before(monkeypatch):
    monkeypatch.setenv(VARIABLE, "")


def test_a_folder_that_is_named_is_used(monkeypatch):
    monkeypatch.setenv(VARIABLE, "/named")

    assert own_folder() == "/named"


def test_without_one_a_process_makes_its_own_which_a_childs_end_leaves_alone():
    folder = own_folder()
    child = os.fork()
    if child == 0:
        import atexit

        atexit._run_exitfuncs()
        os._exit(0)
    os.waitpid(child, 0)

    assert os.path.isdir(folder) and own_folder() == folder == os.environ[VARIABLE]
    os.rmdir(folder)


def test_a_start_begins_with_nothing(tmp_path):
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "counter_1.db").touch()

    assert list(fresh(tmp_path / "metrics").iterdir()) == []
