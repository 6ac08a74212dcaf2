"""`python -m scaling COMMAND`: the questions of `scaling` on the command line, as a table or as JSON.

One file a command. Exit status 0 with any fit, whatever its status says; 2 with one line on stderr for input or options
that cannot be used.
"""

import os
import sys
from collections.abc import Sequence

from scaling.cli import axis, calibrate, compare, fit, forecast, plan, simulate
from scaling.cli.options import CommandError, Parser
from scaling.plot import PlotError

_COMMANDS = (fit, compare, forecast, calibrate, axis, plan, simulate)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    args = _parser().parse_args(argv)
    try:
        args.run(args)
    except (CommandError, PlotError) as error:
        print(f"python -m scaling: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader, such as head, has gone: nothing more is printed, at the end neither
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> Parser:
    parser = Parser(prog="python -m scaling", description="Fit saturating compute-performance curves.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    for command in _COMMANDS:
        command.add(commands)
    return parser
