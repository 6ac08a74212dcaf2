"""Responses that a trainer writes into a folder, a file a step: verl's dumps, TRL's completions.

The adapters give their run what is new; `python -m headroom samples FOLDER --run RUN` sends all of them.
"""

import argparse
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

from headroom.beginning import token_from_environment
from headroom.importing import add_server
from headroom.run import Run
from headroom.samples import KINDS, write_lines
from headroom.server import Server, ServerError
from headroom.tables import SUFFIXES, by_step, kind_of, place_of, read
from headroom.values import MAX_STEP
from headroom.warned import log

MOST_ROWS = 4096  # of a file: a server keeps no more of a step


class Dumps:
    """Files of a folder. What lies there at first is of earlier attempts."""

    def __init__(self, folder: Path, kind: str) -> None:
        self._folder, self._kind = folder, kind
        self._seen = self._found()

    def log(self, run: Run, *, all_of_them: bool = False) -> None:
        """Give the run what is new, but for the newest file, which may be half written. Never raises."""
        try:
            found = self._found()
            new = sorted(
                (path for path in found if self._seen.get(path) != found[path]), key=lambda path: found[path]
            )
            for path in new if all_of_them else new[:-1]:
                self._seen[path] = found[path]
                for step, rows in _by_step(path).items():
                    run.log_samples(step, rows, kind=self._kind)
        except Exception as error:  # tracking never stops training
            log.warning("headroom: responses in %s are not kept: %r", self._folder, error)

    def _found(self) -> dict[Path, int]:
        """With when each was written."""
        return {path: path.stat().st_mtime_ns for path in self._folder.glob("*") if path.suffix in SUFFIXES}


def _by_step(path: Path) -> dict[int, list[dict[str, Any]]]:
    """Raises what `read` does."""
    rows = read(path)
    found = by_step(islice(rows, MOST_ROWS), place_of(path.name)[1] or 0, MAX_STEP)
    if next(rows, None) is not None:
        log.warning("headroom: of %s the first %s responses are kept", path, f"{MOST_ROWS:,}")
    return found


def add_samples(commands: Any) -> None:
    """Give the command line `samples`."""
    one = commands.add_parser(
        "samples", help="give a run the responses in a folder: verl's dumps, TRL's completions"
    )
    one.add_argument("path", type=Path, metavar="PATH", help="a folder, or one file: .jsonl, .json, .parquet")
    one.add_argument("--run", required=True, help="the run that has made them")
    one.add_argument(
        "--kind", choices=KINDS, help="of all (by default eval where a name inside PATH says val or eval)"
    )
    add_server(one)
    one.set_defaults(do=_send)


def _send(asked: argparse.Namespace) -> int:
    """0: all are sent; 1: not all. Raises ValueError for unusable arguments."""
    files = [asked.path] if asked.path.is_file() else sorted(asked.path.rglob("*"))
    files = [path for path in files if path.suffix in SUFFIXES]
    if not asked.url or not files:
        raise ValueError(
            f"no {', '.join(SUFFIXES)} in {asked.path}"
            if asked.url
            else "a server is needed: --url or HEADROOM_URL"
        )
    server = Server(asked.url, asked.token or token_from_environment())
    sent: dict[str, Path] = {}  # KIND/STEP
    failed = 0
    for path in files:
        try:
            said = _send_file(server, asked.run, path, asked.kind or kind_of(_inside(path, asked.path)), sent)
        except (ServerError, ValueError, OSError, ImportError) as error:
            said, failed = f"not sent: {error}", failed + 1
        print(f"{path}: {said}")
    return 1 if failed else 0


def _inside(path: Path, folder: Path) -> str:
    return path.name if path == folder else str(path.relative_to(folder))


def _send_file(server: Server, run: str, path: Path, kind: str, sent: dict[str, Path]) -> str:
    """What was sent of it, in words."""
    found = _by_step(path)
    for step, rows in found.items():
        name = f"{kind}/{step}"
        if sent.setdefault(name, path) != path:
            raise ValueError(f"{sent[name].name} has {name} already; send one of them with --kind")
        with tempfile.TemporaryFile() as file:
            write_lines(file, rows)
            file.seek(0)
            server.send_samples(run, name, None, file)
    count = sum(map(len, found.values()))
    return (
        f"{count:,} responses of {', '.join(f'{kind}/{step}' for step in found)}" if found else "no responses"
    )
