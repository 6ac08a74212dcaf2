"""`python -m headroom sync DIR`: send what runs have written to their journals and no server has yet.

`python -m headroom import KIND PATH...`: have a server read what another tracker wrote.
`python -m headroom tail FILE`: report what another trainer writes into a file of JSON lines, while it does.
`python -m headroom samples PATH --run RUN`: give a run the responses that its trainer wrote into a folder.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from headroom.beginning import token_from_environment
from headroom.dumps import add_samples
from headroom.importing import add_import, add_server
from headroom.syncing import journals_in, sync
from headroom.tailing import add_tail
from headroom.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """0: the server has everything; 1: not all of it; 2: unusable arguments."""
    asked = _parser().parse_args(arguments)
    try:
        return asked.do(asked)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m headroom", description="The tracking client's commands.")
    parser.add_argument("--version", action="version", version=f"headroom {__version__}")
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("sync", help="send journals of offline runs, and what is left of others")
    one.add_argument("folder", type=Path, metavar="DIR", help="a folder with journals, or one journal")
    add_server(one)
    one.add_argument("--timeout", type=float, default=60.0, help="seconds for each journal (60)")
    one.set_defaults(do=lambda asked: _sync(asked.folder, asked.url, asked.token, asked.timeout))
    add_import(commands)
    add_tail(commands)
    add_samples(commands)
    return parser


def _sync(folder: Path, url: str | None, token: str | None, timeout: float) -> int:
    if not folder.exists():
        raise ValueError(f"{folder} does not exist")
    if not url:
        raise ValueError("a server is needed: --url or HEADROOM_URL")
    if not journals_in(folder):
        print(f"no journal in {folder}")
    failed = 0
    for one in sync(folder, url, token or token_from_environment(), timeout=timeout):
        failed += bool(one.problem or one.refused)
        said = one.problem or (f"{one.records_bytes:,} bytes sent" if one.records_bytes else "nothing new")
        said += f"; {one.refused}" if one.refused else ""
        print(f"{one.journal}: {f'run {one.run}, ' if one.run else ''}{said}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
