"""Uploads what another tracker wrote, and follows the import until it has ended."""

import json
import os
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import httpx

from headroom.server import CONNECT_SECONDS, ServerError, reason_of
from headroom.version import USER_AGENT

ANSWER_SECONDS = 600.0  # a large file is stored before the answer comes
FIRST_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 0.2, 5.0
MOST_FAILURES = 20  # in a row, while it is followed
ENDED = frozenset({"finished", "partial", "failed"})
File = tuple[str, tuple[str, IO[bytes]]]


@dataclass(frozen=True)
class Imported:
    """An import as the server says it is. `broken`: why it is partial or failed, in a line; empty where it is not."""

    id: str
    state: str
    rows_read: int
    rows_stored: int
    runs_made: int
    broken: str = ""
    notes: tuple[str, ...] = ()
    runs: tuple[tuple[str, str], ...] = field(default=())  # (id, name)

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "Imported":
        """Raises ServerError for what no Headroom server says."""
        try:
            return cls(
                id=answer["id"],
                state=answer["state"],
                rows_read=answer["rows_read"],
                rows_stored=answer["rows_stored"],
                runs_made=answer["runs_made"],
                broken=_broken(answer["broken"]),
                notes=tuple(answer["notes"]),
                runs=tuple((run["run"], run["name"]) for run in answer["runs"]),
            )
        except (KeyError, TypeError) as error:
            raise ServerError("the server does not answer like a Headroom server") from error


def _broken(broken: Mapping[str, Any] | None) -> str:
    if broken is None:
        return ""
    line = f", line {broken['line']}" if broken["line"] is not None else ""
    return f"{broken['file']}{line}: {broken['reason']}"


class Importer:
    """Imports into a Headroom server at `url`, with a bearer token of the scope write."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url.rstrip("/").removesuffix("/api/v1")
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"HEADROOM_URL must start with http:// or https://, not {url!r}")
        self._client = httpx.Client(
            base_url=f"{self.url}/api/v1/",
            headers={"User-Agent": USER_AGENT} | ({"Authorization": f"Bearer {token}"} if token else {}),
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
        )

    def begin(
        self,
        kind: str,
        paths: Sequence[Path],
        options: Mapping[str, Any],
        server: Mapping[str, str] | None = None,
    ) -> Imported:
        """Upload files (a folder as an archive of it), or name a `server` (address, token, user) to be read.

        Raises ServerError, and OSError for what cannot be read here.
        """
        form = {"kind": kind, "options": json.dumps(dict(options)), **(server or {})}
        with _opened(paths) as files:
            return Imported.of(self._send("POST", "imports", data=form, files=files))

    def resume(self, import_id: str, paths: Sequence[Path]) -> Imported:
        """Send a mended file for a partial or failed import; none: read again what was sent. Raises as `begin`."""
        with _opened(paths) as files:
            return Imported.of(self._send("POST", f"imports/{import_id}/resume", files=files))

    def follow(self, one: Imported, tell: Callable[[Imported], None] = lambda one: None) -> Imported:
        """Ask until it has ended, with `tell` of each change. Raises ServerError where the server stays away."""
        wait, failures = FIRST_LOOK_SECONDS, 0
        while not one.has_ended:
            time.sleep(wait)
            wait = min(LONGEST_LOOK_SECONDS, wait * 1.5)
            try:
                now, failures = Imported.of(self._send("GET", f"imports/{one.id}")), 0
            except ServerError as error:
                failures += 1
                if error.final or error.status in (401, 403, 404) or failures >= MOST_FAILURES:
                    raise
                continue
            if now != one:
                tell(now)
            one = now
        return one

    def run_address(self, run_id: str) -> str:
        return f"{self.url}/runs/{run_id}"

    def close(self) -> None:
        self._client.close()

    def _send(self, method: str, path: str, **kwargs: Any) -> dict[str, Any]:
        try:
            response = self._client.request(method, path, **kwargs)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServerError(f"{self.url} cannot be reached: {error or type(error).__name__}") from error
        if not response.is_success:
            raise ServerError(reason_of(response), response.status_code)
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise ServerError(f"{self.url} does not answer like a Headroom server")
        return answer


@contextmanager
def _opened(paths: Sequence[Path]) -> Iterator[list[File]]:
    """What goes into the form. One folder goes as an archive, and so do several paths of which one is a folder."""
    with ExitStack() as stack:
        if any(path.is_dir() for path in paths):
            name = f"{paths[0].resolve().name}.tar.gz"
            yield [("files", (name, stack.enter_context(_packed(paths))))]
        else:
            yield [("files", (path.name, stack.enter_context(path.open("rb")))) for path in paths]


@contextmanager
def _packed(paths: Sequence[Path]) -> Iterator[IO[bytes]]:
    """A temporary archive; of a folder what is in it, in the order of names. Links are followed by nobody."""
    with tempfile.TemporaryFile(suffix=".tar.gz") as held:
        with tarfile.open(fileobj=held, mode="w:gz", compresslevel=3) as archive:
            for path in paths:
                for file in _files_below(path):
                    inside = (
                        file.relative_to(path)
                        if path.is_dir() and len(paths) == 1
                        else file.relative_to(path.parent)
                    )
                    archive.add(file, arcname=str(inside), recursive=False)
        held.seek(0)
        yield held


def _files_below(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = (Path(folder) / name for folder, _, names in os.walk(path) for name in names)
    return sorted(file for file in found if file.is_file() and not file.is_symlink())
