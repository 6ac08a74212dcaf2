"""What the database needs before the servers start, done in a process of its own: Django reads its settings once,
and here only now knows where the database is."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from stack.environment import ROOT

SAY_SECONDS = 60.0  # how often a long one says that it is at work
SAID = "CommandError: "


class PrepareError(RuntimeError):
    """The database could not be prepared; the message ends with what the process said."""


def prepare_database(
    username: str, log_path: Path, stopping: threading.Event, lock: int, say: Callable[[str], None]
) -> str | None:
    """Migrations, default project, shipped recipes and, on an empty database, the account `username`: returns its
    password then, else None. Raises PrepareError; also when `stopping` is set meanwhile.

    It takes as long as it must: an index of many points takes minutes, and a start that gave up would begin it anew.
    """
    command = [
        sys.executable,
        "-P",
        str(ROOT / "stack" / "keeper.py"),
        sys.executable,
        str(ROOT / "manage.py"),
    ]
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [*command, "prepare_stack", "--username", username],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            pass_fds=(lock,),
        )
    assert process.stdin is not None and process.stdout is not None
    with process.stdin, process.stdout:
        _wait(
            process, stopping, lambda: say(f"still preparing the database; {log_path} says what it waits for")
        )
        if process.returncode != 0:
            raise PrepareError(_reason(log_path))
        return json.loads(process.stdout.read().splitlines()[-1])["password"]


def _reason(log_path: Path) -> str:
    """The command's own sentence where it said one; else the end of what it wrote."""
    text = log_path.read_text(errors="replace").strip()
    last = text.splitlines()[-1] if text else ""
    if last.startswith(SAID):
        return last.removeprefix(SAID)
    return f"the database could not be prepared; {log_path} ends with:\n{text[-2000:]}"


def _wait(process: subprocess.Popen[bytes], stopping: threading.Event, say: Callable[[], None]) -> None:
    said = time.monotonic()
    while process.poll() is None:
        if stopping.wait(0.05):
            assert process.stdin is not None
            process.stdin.close()  # the keeper ends it
            process.wait()
            raise PrepareError("preparing the database: stopped")
        if time.monotonic() > said + SAY_SECONDS:
            said = time.monotonic()
            say()
