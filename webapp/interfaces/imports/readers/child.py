"""Where uploaded files are read: `python -m webapp.interfaces.imports.readers.child FD`, started by
`webapp.interfaces.imports.apart`.

What people upload may be made to take gigabytes or hours. This process has the readers at hand and forks for each
request on the socket FD a child with limits of its own, so that whatever a file does to its reader ends there. It goes
when the socket is closed, or when nobody has asked for IDLE_SECONDS.

A request is a socket. On it the child says "!", gets one JSON object, and answers with a JSON object a line. The last
one is {"end": ...}, {"bad": [file, line, reason]} or {"wrong": sentence}; without it the child has come to its limits.
"""

import json
import os
import resource
import signal
import socket
import sys
import traceback
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import IO, Any

from webapp.interfaces.imports.readers import kinds
from webapp.interfaces.imports.readers.archives import unpack
from webapp.interfaces.imports.readers.rows import BadSource, FoundRun, Options, Row, batched

IDLE_SECONDS = 120.0
MEMORY_BYTES = 256 * 1024**2  # more than the readers have before they begin
TOO_MUCH = f"It takes more than {MEMORY_BYTES // 1024**2} MB of memory to read."


def main(control: socket.socket) -> None:
    """Serve requests until nobody can ask any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    control.settimeout(IDLE_SECONDS)
    while True:
        try:
            word, descriptors, *_ = socket.recv_fds(control, 16, 1)
        except TimeoutError:
            return
        if not word or not descriptors:
            return
        if os.fork() == 0:
            control.close()
            try:
                _serve(socket.socket(fileno=descriptors[0]))
            except BrokenPipeError:  # who asked has gone
                pass
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(descriptors[0])


def _serve(channel: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    channel.sendall(b"!")  # it is there
    with (
        channel,
        channel.makefile("r", encoding="utf-8") as asked,
        channel.makefile("w", encoding="utf-8") as out,
    ):
        request = json.loads(asked.readline())
        limit(request["cpu_seconds"], request["seconds"], request["max_bytes"])
        try:
            _say(out, end=_done(request, asked, out))
        except BadSource as error:
            _say(out, bad=[error.file, error.line, error.reason])
        except (MemoryError, RecursionError) as error:
            reason = TOO_MUCH if isinstance(error, MemoryError) else "It is nested too deeply."
            _say(out, bad=[Path(request["path"]).name, None, reason])
        except ValueError as error:
            _say(out, wrong=str(error))


def limit(cpu_seconds: int, seconds: int, file_bytes: int) -> None:
    """What this process may take from here on: beyond the times it is killed, beyond MEMORY_BYTES it gets none, and
    no file that it writes, such as those in which SQLite sorts, becomes larger than `file_bytes`."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmData:"):
                most = int(line.split()[1]) * 1024 + MEMORY_BYTES
                resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    signal.alarm(seconds)


def _say(out: IO[str], **answer: Any) -> None:
    out.write(json.dumps(answer, default=str) + "\n")
    out.flush()


def _done(request: dict[str, Any], asked: IO[str], out: IO[str]) -> Any:
    """What is asked; its answer."""
    path, options = Path(request["path"]), Options(**request.get("options", {}))
    match request["do"]:
        case "guess":
            return kinds.guess_kind(path)
        case "preview":
            return kinds.preview(request["kind"], path, options).model_dump(mode="json")
        case "unpack":
            unpack(path, Path(request["into"]), max_bytes=request["max_bytes"])
        case "read":
            runs = kinds.KINDS[request["kind"]].read(path, options)
            _tell(runs[: request["most_runs"] + 1], asked, out)


def _tell(runs: list[FoundRun], asked: IO[str], out: IO[str]) -> None:
    """The runs first; then, for each line with a number of its own and that of a run, the rows of the run."""
    _say(out, runs=[_about(run) for run in runs])
    for line in asked:
        ask, number = map(int, line.split())
        _rows(runs[number], out, ask)


def _about(run: FoundRun) -> dict[str, Any]:
    return {each.name: getattr(run, each.name) for each in fields(run) if each.name != "rows"}


def _rows(run: FoundRun, out: IO[str], ask: int) -> None:
    """What comes before a broken place is given."""
    problem = None
    try:
        for batch in batched(run.rows()):
            _say(out, ask=ask, rows=[_plain(row) for row in batch])
    except BadSource as error:
        problem = [error.file, error.line, error.reason]
    _say(out, ask=ask, last=problem, notes=run.notes)


def _plain(row: Row) -> list[Any]:
    return [row.line, row.step, row.time and row.time.isoformat(), dict(row.compute), dict(row.metrics)]


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
