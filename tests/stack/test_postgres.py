"""The embedded server after crashes."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from stack.postgres import EmbeddedPostgres, recovered, start_postgres


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "postgres"


@pytest.fixture
def server(folder: Path) -> Iterator[EmbeddedPostgres]:
    running = start_postgres(folder)
    yield running
    running.stop()


def test_number_of_the_dead_server_may_be_another_programs_by_now(folder: Path) -> None:
    first = start_postgres(folder)
    noted = (folder / "postmaster.pid").read_text()
    first.stop()
    (folder / "postmaster.pid").write_text(noted.replace(str(first.pid), str(os.getpid()), 1))

    second = start_postgres(folder)
    with psycopg.connect(second.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert second.pid != os.getpid()
    second.stop()


def test_folders_above_the_data_stay_closed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o711)

    running = start_postgres(home / "postgres")
    running.stop()

    assert stat.S_IMODE(home.stat().st_mode) == 0o711


def test_server_that_is_not_ready_is_waited_for_while_it_lives(
    folder: Path, server: EmbeddedPostgres
) -> None:
    answers = iter([TimeoutError("ten seconds"), AssertionError("starting"), "ready"])

    def start() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert recovered(folder, start) == "ready"


def test_server_that_does_not_live_is_not_waited_for(folder: Path) -> None:
    def start() -> None:
        raise RuntimeError("no such version")

    with pytest.raises(RuntimeError, match="no such version"):
        recovered(folder, start)
