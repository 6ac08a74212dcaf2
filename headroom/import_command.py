"""`python -m headroom import`: its options, and what it prints."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headroom.beginning import token_from_environment
from headroom.importing import Imported, Importer
from headroom.mlflow_store import copied, is_store
from headroom.server import ServerError

OK, UNREACHABLE, BROKEN = 0, 1, 2
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
        raise ValueError("a PATH is needed, or --address")
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
    importer = Importer(asked.url, asked.token or token_from_environment())
    try:
        begun = importer.resume(asked.resume, paths) if asked.resume else _begin(importer, asked, paths)
        print(f"import {begun.id}: {importer.url}/imports/{begun.id}", flush=True)
        return _report(importer, importer.follow(begun, _tell))
    except (ServerError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return BROKEN if isinstance(error, ServerError) and error.final else UNREACHABLE
    finally:
        importer.close()


def _begin(importer: Importer, asked: argparse.Namespace, paths: Sequence[Path]) -> Imported:
    server = None
    if asked.address:
        token = asked.address_token or os.environ.get("HEADROOM_IMPORT_TOKEN", "")
        server = {"address": asked.address, "token": token, "user": asked.address_user}
    kind = "" if asked.kind == "auto" else asked.kind
    return importer.begin(kind, paths, options_of(asked), server)


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


def _tell(one: Imported) -> None:
    if not one.has_ended and one.rows_read:
        print(f"{one.rows_read:,} rows read, {one.rows_stored:,} of them new", flush=True)


def _report(importer: Importer, one: Imported) -> int:
    for run_id, name in one.runs:
        print(f"{name}: {importer.run_address(run_id)}")
    for note in one.notes:
        print(f"note: {note}")
    print(
        f"{one.state}: {one.runs_made:,} runs, {one.rows_read:,} rows read, {one.rows_stored:,} of them new"
    )
    if one.broken:
        print(f"error: {one.broken}", file=sys.stderr)
    return OK if one.state == "finished" else BROKEN
