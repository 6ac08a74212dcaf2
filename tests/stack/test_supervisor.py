"""The supervisor as its user meets it: `manage.py up`. With the parts of others: tests/e2e/test_outside_parts.py."""

import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import pytest

from stack import supervisor
from stack.environment import ROOT
from stack.parts import ray_folder
from stack.ports import free_port
from tests.running_stack import RunningStack, alive, stack_environment
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(240)
PARTS = ("database", "broker", "worker", "beat", "ray")
WELL = {"status": "ok"} | dict.fromkeys(PARTS, "ok")


def keeper_of(running: RunningStack, name: str) -> psutil.Process:
    """The keeper of a part, found by a word of its command line."""
    children = psutil.Process(running.process.pid).children()
    (found,) = [child for child in children if any(name in word for word in child.cmdline())]
    return found


def has_successor(running: RunningStack, name: str, pid: int) -> bool:
    """Whether the part runs in another process than `pid`."""
    try:
        return any(child.pid != pid for child in keeper_of(running, name).children())
    except (ValueError, psutil.NoSuchProcess):  # between the two
        return False


def health(running: RunningStack) -> dict[str, str]:
    try:
        return httpx.get(f"{running.url}/healthz", timeout=5).json()
    except (httpx.HTTPError, ValueError) as error:
        return {"status": repr(error)}


def up(
    home: Path, *options: str, default_home: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """A `manage.py up` that is expected to end by itself."""
    return subprocess.run(
        [sys.executable, "manage.py", "up", "--home", str(home), *options],
        cwd=ROOT,
        env=stack_environment(default_home or home) | variables,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_first_password_is_said_before_anything_else_can_fail(tmp_path, monkeypatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(supervisor, "prepare_database", lambda *_: "a-password")

    supervisor.Supervisor(tmp_path, say=said.append)._prepare()
    assert said[1] == "first account: admin, password a-password"


@pytest.mark.stack
def test_whole_stack_answers_for_every_part(stack: RunningStack) -> None:
    wait_until(lambda: health(stack).get("status") == "ok", 30, "healthz")

    assert health(stack) == WELL


@pytest.mark.stack
def test_nobody_else_can_read_the_folder(stack: RunningStack) -> None:
    """Ray opens the folder that it is given to everybody, and the wheel of PostgreSQL those above its data."""
    folder = ray_folder(stack.home)

    assert (folder / "r" / "session_latest").exists()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(stack.home.stat().st_mode) & 0o066 == 0


@pytest.mark.stack
def test_first_account_can_make_a_token_and_use_it(stack: RunningStack) -> None:
    token = stack.token("read")
    answer = httpx.get(f"{stack.url}/api/v1/recipes", headers={"Authorization": f"Bearer {token}"})

    assert answer.status_code == 200, answer.text
    assert {"scalerl", "tiny-scalerl"} <= {recipe["slug"] for recipe in answer.json()["items"]}


@pytest.mark.stack
def test_second_stack_on_the_same_folder_is_refused(stack: RunningStack) -> None:
    result = up(stack.home, "--port", str(free_port()))

    assert result.returncode == 1
    assert f"Headroom is already running on {stack.home} (process {stack.process.pid})" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_taken_port_is_a_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = up(tmp_path, "--port", str(port))

    assert result.returncode == 1
    assert result.stderr.strip() == (
        f"CommandError: the web server cannot listen on 127.0.0.1:{port}: "
        "Address already in use; choose another port with --port"
    )


def test_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = up(tmp_path / "file" / "home", "--port", str(free_port()), default_home=tmp_path)

    assert result.returncode == 1
    assert "cannot be used: Not a directory" in result.stderr.strip().splitlines()[-1]


def test_parts_of_others_that_do_not_answer_are_named_before_anything_starts(tmp_path: Path) -> None:
    given = {
        "DATABASE_URL": "postgresql://u:geheim@127.0.0.1:1/x",
        "REDIS_URL": "redis://:geheim@127.0.0.1:1/0",
    }
    result = up(tmp_path, "--port", str(free_port()), "--no-ray", **given)

    assert result.returncode == 1
    database, broker = result.stderr.strip().splitlines()
    assert database.startswith("CommandError: The database 127.0.0.1:1/x does not answer: ")
    assert broker.startswith("The broker 127.0.0.1:1/0 does not answer: ")
    assert "geheim" not in result.stderr + result.stdout
    assert not (tmp_path / "services.json").exists()


def test_wrong_variables_are_sentences(tmp_path: Path) -> None:
    result = up(tmp_path, HEADROOM_HTTPS="yes", HEADROOM_RETRIES="many")

    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        "error: HEADROOM_HTTPS must be 1 (on) or 0 (off), not 'yes'.",
        "HEADROOM_RETRIES must be a whole number, not 'many'.",
    ]


@pytest.mark.stack
@pytest.mark.parametrize(
    ("name", "in_command"),
    [
        ("redis", "valkey-server"),
        pytest.param("celery", "--concurrency", marks=pytest.mark.deep),
        pytest.param("beat", "celery.beat:Scheduler", marks=pytest.mark.deep),
    ],
)
def test_dead_part_is_started_again(stack: RunningStack, name: str, in_command: str) -> None:
    (victim,) = keeper_of(stack, in_command).children()
    printed = len(stack.output)
    victim.send_signal(signal.SIGKILL)
    stack.wait_for(f"{name} ended with status 137", after=printed)
    wait_until(lambda: has_successor(stack, in_command, victim.pid), 30, f"another {name}")

    wait_until(lambda: health(stack) == WELL, 60, f"{name} works again")


@pytest.mark.stack
def test_killed_supervisor_leaves_nothing_and_the_next_one_starts(stack: RunningStack) -> None:
    children = stack.descendants()
    stack.process.kill()
    stack.process.wait()
    stack.start_again()

    assert len(children) > 20  # Ray's own among them
    assert alive(children) == []
    assert "password" not in "\n".join(stack.output)  # the account is there already


@pytest.mark.stack
def test_sigterm_stops_every_child(stack: RunningStack, request: pytest.FixtureRequest) -> None:
    children = stack.descendants()
    stack.stop()

    assert stack.process.returncode == 0
    assert len(children) > 20  # Ray's own among them
    assert alive(children) == []
    tests = request.session.items
    if any("stack" in test.fixturenames for test in tests[tests.index(request.node) + 1 :]):  # best the last
        stack.start_again()
