"""Files that a run gives away: copied beside the journal, sent by a daemon thread, then the copy is deleted.

In `NAME.artifacts/` lie, for each file, its copy and `KEY.json`, which is written last and names it. What a server that
is away did not take is sent by the next run with this journal, or by `headroom sync`.
"""

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from headroom.backoff import Backoff
from headroom.configuration import write_json
from headroom.journal import Journal
from headroom.samples import write_lines
from headroom.server import Server, ServerError
from headroom.warned import Warnings

SHARE = 0.8  # of the time that `finish` has: the end of the run must be told, too
NO_SUCH_ADDRESS = (404, 405)  # a server that keeps no files


def folder_of(journal: Path) -> Path:
    return journal.with_name(journal.name + ".artifacts")


def set_aside(folder: Path, path: Path, name: str | None) -> None:
    """Copy a file, or every file of a folder, to be sent under `name`. Raises OSError."""
    name = path.name if name is None else name
    for source in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if source == path or source.is_file():
            shown = name if source == path else f"{name}/{source.relative_to(path).as_posix()}"
            _put(folder, partial(shutil.copyfile, source), {"name": shown})


def _put(folder: Path, write: Callable[[Path], Any], about: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    key = f"{time.time_ns():020d}-{os.getpid()}"
    try:
        write(folder / key)
        write_json(about, folder / f"{key}.json")
    except Exception:
        (folder / key).unlink(missing_ok=True)
        raise


def waiting(folder: Path) -> list[Path]:
    """What is to be sent, the oldest first."""
    return sorted(folder.glob("*.json"))


def send(folder: Path, server: Server, run: str) -> Iterator[str]:
    """Send what waits; yields after each file: why it was refused for good, or nothing. Raises ServerError, OSError."""
    for about in waiting(folder):
        said, copy = json.loads(about.read_text()), about.with_suffix("")
        name, attempt = str(said["name"]), said.get("attempt")
        why = ""
        try:
            with copy.open("rb") as file:
                if attempt is None:
                    server.send_file(run, name, file)
                else:
                    server.send_samples(run, name, int(attempt), file)
        except FileNotFoundError:
            why = f"the file {name} is not kept: its copy beside the journal is gone"
        except ServerError as error:
            if not error.final and error.status not in NO_SUCH_ADDRESS:
                raise
            why = f"the file {name} is not kept by the server: {error.reason}"
        about.unlink(missing_ok=True)
        copy.unlink(missing_ok=True)
        yield why


class Uploads:
    """Sends the files of one journal's run. `server`: makes a connection; None: they wait for `headroom sync`. What is
    refused is counted with the values of the attempt that could not be stored."""

    def __init__(self, journal: Journal, attempt: int, server: Callable[[], Server] | None) -> None:
        self._journal, self._attempt, self._server = journal, attempt, server
        self._folder = folder_of(journal.path)
        self._wake, self._closing = threading.Event(), threading.Event()
        self._warn = Warnings()
        self._thread: threading.Thread | None = None
        if waiting(self._folder):
            self._start()

    def add(self, path: Path, name: str | None) -> None:
        """Take a copy; it is sent soon. Raises OSError."""
        set_aside(self._folder, path, name)
        self._start()

    def add_samples(self, rows: Iterable[Mapping[str, Any]], *, kind: str, step: int, attempt: int) -> None:
        """Write them beside the journal; they are sent soon. Raises OSError, and what `rows` raises."""
        about = {"name": f"{kind}/{step}", "attempt": attempt}
        _put(self._folder, lambda copy: write_lines(copy, rows), about)
        self._start()

    def close(self, seconds: float) -> tuple[bool, float]:
        """Wait for what is on its way: whether all is sent, and the seconds that are left for the rest."""
        if self._thread is None:
            return self._server is None or not waiting(self._folder), seconds
        began = time.monotonic()
        self._closing.set()
        self._wake.set()
        self._thread.join(SHARE * seconds)
        return not self._thread.is_alive(), max(0.0, seconds - (time.monotonic() - began))

    def _start(self) -> None:
        self._wake.set()
        if self._thread is None and self._server is not None:
            self._thread = threading.Thread(target=self._loop, name="headroom-uploads", daemon=True)
            self._thread.start()

    def _loop(self) -> None:
        assert self._server is not None
        server, backoff = self._server(), Backoff(self._closing)
        while not (self._closing.is_set() and not waiting(self._folder)):
            self._wake.wait()
            self._wake.clear()
            try:
                self._send(server)
            except Exception as error:  # whatever happens here, the training goes on
                self._warn("away", f"{error}; files wait in {self._folder}")
                backoff.pause()
                self._wake.set()
            else:
                backoff.note_success()
        server.close()

    def _send(self, server: Server) -> None:
        if (run := self._journal.load_state(None).run) is None:
            raise ServerError("the server has not made the run yet")
        for refused in send(self._folder, server, run):
            if refused:
                self._journal.leave_out(self._attempt, reason=refused, values=1)
                self._warn("refused", refused)
