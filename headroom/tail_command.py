"""`python -m headroom tail FILE`: its arguments."""

import argparse
from pathlib import Path
from typing import Any

from headroom.import_command import add_server
from headroom.journal import JournalBusy
from headroom.tailing import LINES, Tail, follow


def add_tail(commands: Any) -> None:
    """Give the command line `tail`."""
    one = commands.add_parser("tail", help="report what verl or prime-rl writes into a file, while it does")
    one.add_argument(
        "file", type=Path, metavar="FILE", help="verl's file logger's, or prime-rl's metrics.jsonl"
    )
    one.add_argument(
        "--kind", choices=sorted(LINES), help="whose file it is (by default its first line says it)"
    )
    one.add_argument("--pass-rate", metavar="NAME", help="the metric that is the held-out pass rate")
    one.add_argument("--devices", type=float, help="how many train; without it device-hours are unknown")
    one.add_argument(
        "--until-idle", type=float, metavar="SECONDS", help="end when the file does not grow for so long"
    )
    for name in ("name", "task", "model", "project"):
        one.add_argument(f"--{name}", help="of the run that is made")
    one.add_argument("--run", help="a run that the server knows (HEADROOM_RUN)")
    one.add_argument("--journal", type=Path, help="where to journal (beside FILE, as NAME.headroom.jsonl)")
    add_server(one)
    one.set_defaults(do=_tail)


def _tail(asked: argparse.Namespace) -> int:
    """Raises ValueError for unusable arguments."""
    for name in ("devices", "until_idle"):
        value = getattr(asked, name)
        if value is not None and not 0 < value < 1e9:
            raise ValueError(f"--{name.replace('_', '-')} is a number above 0")
    if asked.file.is_dir():
        raise ValueError(f"{asked.file} is a folder")
    settings = ("journal", "name", "task", "model", "project", "run", "url", "token")
    given = {name: getattr(asked, name) for name in settings if getattr(asked, name) is not None}
    tail = Tail(asked.file, kind=asked.kind, pass_rate=asked.pass_rate, devices=asked.devices, **given)
    try:
        sent = follow(tail, asked.until_idle)
    except (JournalBusy, OSError) as error:
        raise ValueError(str(error)) from error
    print(f"{asked.file}: {tail.said}")
    return 0 if sent else 1
