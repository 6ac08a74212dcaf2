"""Uploads what another tracker wrote, and follows the import until it has ended.

`python -m headroom import`: its options, and what it prints.
"""

import argparse
import json
import os
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from headroom.beginning import token_from_environment
from headroom.mlflow_store import copied, is_store
from headroom.server import Server, ServerError

ANSWER_SECONDS = 600.0  # a large file is stored before the answer comes
FIRST_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 0.2, 5.0
MOST_FAILURES = 20  # in a row, while it is followed
ENDED = frozenset({"finished", "partial", "failed"})
NEEDED = {"id", "state", "rows_read", "rows_stored", "runs_made", "runs", "notes", "broken"}
File = tuple[str, tuple[str, IO[bytes]]]
AMOUNTS = ("device_hours", "flops", "tokens")
SAID = ("name", "task", "model", "source", "timezone", "percent", "per_row", "ignore", "experiments")
TEXT: dict[str, Any] = {"default": ""}
MANY: dict[str, Any] = {"action": "append", "default": []}
OPTIONS: dict[str, dict[str, Any]] = {
    "--columns": {"metavar": "JSON", "help": 'of a table: {"step": "iteration", "pass_rate": "val_acc"}'},
    "--devices": {
        "type": float, "metavar": "N", "help": "device-hours are N x time where nothing says them",
    },
    "--pass-rate": {"metavar": "NAME", "help": "the metric that is the held-out pass rate"},
    "--percent": {
        "action": "store_true", "help": "the pass rate is in percent, from 0 to 100; it is never assumed",
    },
    "--per-row": MANY | {
        "metavar": "AMOUNT", "choices": AMOUNTS,
        "help": "device_hours, flops or tokens: the column has the amount of each row, not the total so far; repeat it",
    },
    "--ignore": MANY | {"metavar": "COLUMN", "help": "a column or metric to leave out; repeat it"},
    "--experiment": MANY | {
        "metavar": "NAME", "dest": "experiments", "help": "of MLflow: one to read; repeat it (all)",
    },
    "--name": TEXT | {"help": "of a run that nothing in the source names (the file's name)"},
    "--task": TEXT | {"help": "of runs whose source does not name theirs"},
    "--model": TEXT | {"help": "of runs whose source does not name theirs"},
    "--source": TEXT | {"help": "its name: the same again adds to the same runs (the file's name)"},
    "--timezone": TEXT | {"help": "of times without an offset, such as UTC"},
    "--resume": {"metavar": "ID", "help": "the import that a mended PATH belongs to"},
    "--address": {"help": "of a server to be read, such as https://mlflow.example"},
    "--address-token": {"help": "what opens that server (HEADROOM_IMPORT_TOKEN)"},
    "--address-user": TEXT | {"help": "with it the token is a password"},
}  # fmt: skip


Answer = Mapping[str, Any]  # of `imports/{id}`


def send(server: Server, path: str, paths: Sequence[Path], form: Mapping[str, Any] | None = None) -> Answer:
    """Upload files (a folder as an archive of it). Raises ServerError, and OSError for what cannot be read here."""
    with _opened(paths) as files:
        return _checked(server, server.ask("POST", path, data=form, files=files))


def follow(server: Server, one: Answer, tell: Callable[[Answer], None]) -> Answer:
    """Ask until it has ended, with `tell` of each change. Raises ServerError where the server stays away."""
    wait, failures = FIRST_LOOK_SECONDS, 0
    while one["state"] not in ENDED:
        time.sleep(wait)
        wait = min(LONGEST_LOOK_SECONDS, wait * 1.5)
        try:
            now, failures = _checked(server, server.ask("GET", f"imports/{one['id']}")), 0
        except ServerError as error:
            failures += 1
            if error.final or error.status in (401, 403, 404) or failures >= MOST_FAILURES:
                raise
            continue
        if now != one:
            tell(now)
        one = now
    return one


def _checked(server: Server, answer: Answer) -> Answer:
    """Raises ServerError for what no Headroom server says."""
    if not answer.keys() >= NEEDED:
        raise ServerError(f"{server.url} does not answer like a Headroom server")
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


OK, UNREACHABLE, BROKEN = 0, 1, 2


def add_import(commands: Any) -> None:
    """Add the command to an argument parser's commands."""
    one = commands.add_parser("import", help="have a server read what another tracker wrote")
    kinds = "csv, parquet, wandb, tensorboard, mlflow, ...; auto: found out from the file"
    one.add_argument("kind", metavar="KIND", help=kinds)
    one.add_argument(
        "paths", metavar="PATH", nargs="*",
        help="files, or a folder, which is packed on the way; of MLflow also postgresql://… or sqlite:///…, which "
        "is read and never written",
    )  # fmt: skip
    for name, said in OPTIONS.items():
        one.add_argument(name, **said)
    add_server(one)
    one.set_defaults(do=run_import)


def add_server(command: argparse.ArgumentParser) -> None:
    """Which server the command speaks to."""
    command.add_argument("--url", default=os.environ.get("HEADROOM_URL"), help="the server (HEADROOM_URL)")
    command.add_argument(
        "--token", help="API token (HEADROOM_TOKEN, or the file that HEADROOM_TOKEN_FILE names)"
    )


def run_import(asked: argparse.Namespace) -> int:
    """0: all of it is there; 1: the server cannot be reached; 2: it cannot be read, or not all of it."""
    if not (asked.paths or asked.address or asked.resume):
        raise ValueError("a PATH is needed after KIND (auto: found out from the file), or --address")
    if not asked.url:
        raise ValueError("a server is needed: --url or HEADROOM_URL")
    if any(map(is_store, asked.paths)):
        if asked.kind not in ("mlflow", "auto"):
            raise ValueError("a database is read as the kind mlflow")
        if len(asked.paths) > 1:
            raise ValueError("of databases one is imported at a time")
        with copied(asked.paths[0]) as copy:
            return _import(asked, [copy])
    paths = [Path(path) for path in asked.paths]
    missing = [path for path in paths if not path.exists()]
    if missing:
        raise ValueError(f"{missing[0]} does not exist")
    return _import(asked, paths)


def _import(asked: argparse.Namespace, paths: Sequence[Path]) -> int:
    server = Server(asked.url, asked.token or token_from_environment(), ANSWER_SECONDS)
    try:
        if asked.resume:
            begun = send(server, f"imports/{asked.resume}/resume", paths)
        else:
            begun = send(server, "imports", paths, _form(asked))
        print(f"import {begun['id']}: {server.url}/imports/{begun['id']}", flush=True)
        return _report(server, follow(server, begun, _tell))
    except (ServerError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return BROKEN if isinstance(error, ServerError) and error.final else UNREACHABLE
    finally:
        server.close()


def _form(asked: argparse.Namespace) -> dict[str, str]:
    kind = "" if asked.kind == "auto" else asked.kind
    form = {"kind": kind, "options": json.dumps(options_of(asked))}
    if asked.address:
        token = asked.address_token or os.environ.get("HEADROOM_IMPORT_TOKEN", "")
        form |= {"address": asked.address, "token": token, "user": asked.address_user}
    return form


def options_of(asked: argparse.Namespace) -> dict[str, Any]:
    """The options as the API takes them. Raises ValueError for columns that are no JSON object of texts."""
    columns = {}
    if asked.columns:
        try:
            columns = json.loads(asked.columns)
        except ValueError as error:
            raise ValueError(f"--columns is no JSON: {error}") from None
        if not isinstance(columns, dict):
            raise ValueError("--columns is no JSON object")
    if asked.pass_rate:
        columns["pass_rate"] = asked.pass_rate
    said = {name: getattr(asked, name) for name in SAID}
    return {"columns": columns, "devices": asked.devices} | {
        name: each for name, each in said.items() if each
    }


def _tell(one: Answer) -> None:
    if one["state"] not in ENDED and one["rows_read"]:
        print(_counted(one), flush=True)


def _counted(one: Answer) -> str:
    read = one["rows_read"]
    return f"{read:,} {'row' if read == 1 else 'rows'} read, {one['rows_stored']:,} of them new"


def _report(server: Server, one: Answer) -> int:
    for run in one["runs"]:
        print(f"{run['name']}: {server.url}/runs/{run['run']}")
    for note in one["notes"]:
        print(f"note: {note}")
    runs = one["runs_made"]
    print(f"{one['state']}: {runs:,} {'run' if runs == 1 else 'runs'}, {_counted(one)}")
    if broken := one["broken"]:
        line = "" if broken["line"] is None else f", line {broken['line']}"
        print(f"error: {broken['file']}{line}: {broken['reason']}", file=sys.stderr)
    return OK if one["state"] == "finished" else BROKEN
