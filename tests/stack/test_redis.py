import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from stack.parts import redis_answers, redis_command, redis_url
from stack.ports import free_port
from tests.waiting import wait_until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    port = free_port()
    with subprocess.Popen(redis_command(tmp_path / "a folder", port), stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: redis_answers(redis_url(port)))
        yield process, port
        process.terminate()


def test_password_is_needed_and_not_on_the_command_line(
    server: tuple[subprocess.Popen[bytes], int], tmp_path: Path
) -> None:
    process, port = server
    with pytest.raises(redis.AuthenticationError):
        redis.Redis(port=port).ping()

    password = redis_url(port).split(":")[2].split("@")[0]
    assert password not in Path(f"/proc/{process.pid}/cmdline").read_text()
    assert stat.S_IMODE(os.stat(tmp_path / "a folder" / "valkey.conf").st_mode) == 0o600


def test_data_outlive_a_stop(server: tuple[subprocess.Popen[bytes], int], tmp_path: Path) -> None:
    process, port = server
    redis.Redis.from_url(redis_url(port)).lpush("queue", "hint")
    process.terminate()
    process.wait(10)
    with subprocess.Popen(redis_command(tmp_path / "a folder", port), stdout=subprocess.DEVNULL) as again:
        wait_until(lambda: redis_answers(redis_url(port)))
        kept = redis.Redis.from_url(redis_url(port)).lrange("queue", 0, -1)
        again.terminate()

    assert kept == [b"hint"]


def test_absent_server_does_not_answer() -> None:
    assert not redis_answers(redis_url(free_port()))
