"""The readers of uploaded files, in a process apart with limits (`webapp.interfaces.imports.readers.child`): the same
functions.

A file that needs more memory or time than it may have ends as BadSource, and takes nothing from who asked.
"""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from django.conf import settings

from webapp.interfaces.imports.readers.rows import BadSource, FoundRun, Options, Preview, Row

LOOK_SECONDS = 5  # of CPU: for the beginning of a file, while somebody waits
# For all of it, by a worker: while it reads no other import goes on.
LEAST_READ_SECONDS, MOST_READ_SECONDS = 60, 600
BYTES_A_SECOND = 1_000_000  # that the slowest reader reads
WALL_FACTOR = 6  # how much longer the clock may run on a busy machine
MOST_RUNS = 1000
START_SECONDS = 60  # of the process that forks readers, on a busy machine
HERE = b"!"  # the first word of a child
ENVIRONMENT = {  # one thread, one heap: memory that is counted is used
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}


class Readers:
    """The process that forks readers; started when it is needed, one for each process of ours."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._pid = 0

    def open(self, request: dict[str, Any]) -> socket.socket:
        """Have a child do what is asked; the socket that it answers on. Raises OSError."""
        channel = self._ask() or self._ask()  # it goes when nobody asks for a while, and may be just going
        if channel is None:
            raise OSError("the process that reads files does not start")
        channel.sendall(json.dumps(request).encode() + b"\n")
        return channel

    def _ask(self) -> socket.socket | None:
        """The socket to a new child, which has said that it is there; None where there is none."""
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            if self._control is None or self._pid != os.getpid():
                self._control, self._pid = _start(), os.getpid()
            used = self._control
            with suppress(OSError):
                socket.send_fds(used, [b"1"], [theirs.fileno()])
        ours.settimeout(START_SECONDS)
        with suppress(OSError):  # where no byte comes in time
            if ours.recv(1) == HERE:
                ours.settimeout(None)
                return ours
        ours.close()
        with self._lock:
            if self._control is used:
                used.close()
                self._control = None
        return None


def _start() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "webapp.interfaces.imports.readers.child", str(theirs.fileno())]
    environment = os.environ | ENVIRONMENT | {"PYTHONPATH": str(settings.BASE_DIR)}
    with theirs:
        process = subprocess.Popen(
            command, env=environment, cwd=settings.BASE_DIR, pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    threading.Thread(target=process.wait, daemon=True).start()  # so that none is left as a zombie
    return ours


_readers = Readers()


@dataclass
class Conversation:
    """With one child."""

    name: str  # of the file, for errors
    channel: socket.socket
    answers: IO[str]
    asked: int = 0  # how often rows were asked for

    def ask(self, words: str) -> None:
        """Where nobody reads it, `next` says so."""
        with suppress(OSError):
            self.channel.sendall(f"{words}\n".encode())

    def next(self) -> dict[str, Any]:
        """The next answer. Raises BadSource, also where the child has come to its limits, and ValueError."""
        try:
            line = self.answers.readline()
        except (OSError, ValueError):
            line = ""
        if not line.endswith("\n"):
            raise BadSource(
                self.name, None, "It takes too much time or memory to read, or breaks its reader."
            )
        answer: dict[str, Any] = json.loads(line)
        if "bad" in answer:
            raise BadSource(*answer["bad"])
        if "wrong" in answer:
            raise ValueError(answer["wrong"])
        return answer


@contextmanager
def _conversation(path: Path, what: str, cpu_seconds: int, **more: Any) -> Iterator[Conversation]:
    request = {
        "do": what,
        "path": str(path),
        "cpu_seconds": cpu_seconds,
        "seconds": cpu_seconds * WALL_FACTOR,
        "max_bytes": settings.IMPORT_MAX_BYTES,
        **more,
    }
    channel = _readers.open(request)
    with channel, channel.makefile("r", encoding="utf-8") as answers:
        yield Conversation(path.name, channel, answers)


def guess_kind(path: Path) -> str | None:
    """As `readers.kinds.guess_kind`. Raises BadSource."""
    with _conversation(path, "guess", LOOK_SECONDS) as talk:
        return talk.next()["end"]


def preview(kind: str, path: Path, options: Options) -> Preview:
    """As `readers.kinds.preview`."""
    with _conversation(
        path, "preview", LOOK_SECONDS, kind=kind, options=options.model_dump(mode="json")
    ) as talk:
        return Preview(**talk.next()["end"])


def read_seconds(path: Path) -> int:
    """Of CPU, that reading a file or folder may take, by its size."""
    files = path.rglob("*") if path.is_dir() else (path,)
    size = sum(file.lstat().st_size for file in files)
    return min(MOST_READ_SECONDS, LEAST_READ_SECONDS + size // BYTES_A_SECOND)


def unpack(archive: Path, into: Path, *, max_bytes: int) -> None:
    """As `readers.archives.unpack`."""
    with _conversation(archive, "unpack", read_seconds(archive), into=str(into), max_bytes=max_bytes) as talk:
        talk.next()


@contextmanager
def read(kind: str, path: Path, options: Options) -> Iterator[list[FoundRun]]:
    """As `read` of the kind; of more than MOST_RUNS runs one more than that. Their rows can be read inside."""
    more = {"kind": kind, "options": options.model_dump(mode="json"), "most_runs": MOST_RUNS}
    with _conversation(path, "read", read_seconds(path), **more) as talk:
        yield [_run(talk, number, about) for number, about in enumerate(talk.next()["runs"])]


def _run(talk: Conversation, number: int, about: dict[str, Any]) -> FoundRun:
    notes = about["notes"]

    def rows() -> Iterator[Row]:
        talk.asked += 1
        ask = talk.asked
        talk.ask(f"{ask} {number}")
        while True:
            answer = talk.next()
            if answer.get("ask") != ask:  # of rows that were not wanted to their end
                continue
            for line, step, time, compute, metrics in answer.get("rows", ()):
                yield Row(line, step, datetime.fromisoformat(time) if time else None, compute, metrics)
            if "last" in answer:
                notes[:] = answer["notes"]
                if answer["last"]:
                    raise BadSource(*answer["last"])
                return

    return FoundRun(**about | {"rows": rows})
