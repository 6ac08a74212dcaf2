"""Forecasts of real runs against what came: `python -m scaling calibrate`, by default of what travels with Headroom.

    .venv/bin/python -m benchmarks.validate_real [--corpus DIR_OR_FILE]... [--axis AXIS] [--end SHARE]

A corpus is a CSV with the columns run, compute and reward, a Parquet file as in `scaling/data/corpus/`, or a folder of
such files (`scaling.calibration`). `scaling.calibration` says what is scored. With --end, runs are judged as if
they had ended at that share of their compute, where most of them still rise. Writes Markdown.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from scaling.calibration import AXES, OWN, Curve, read
from scaling.cli.calibrate import describe, render
from scaling.cli.options import fraction
from scaling.table import TableError


def of_corpus(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    work: Callable[[list[Curve], argparse.Namespace], None],
) -> int:
    """Status after `work` on the curves that --corpus and --axis name; a file that cannot be read ends in one line."""
    parser.add_argument("--corpus", type=Path, action="append", metavar="DIR_OR_FILE")
    parser.add_argument(
        "--axis", choices=AXES, default=AXES[0], help="compute of Parquet files, which have several"
    )
    options = parser.parse_args(arguments)
    try:
        curves = [curve for path in options.corpus or [OWN] for curve in read(path, options.axis)]
    except TableError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    work(curves, options)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the tables: of each task of each file where there are several, and of all."""
    parser = argparse.ArgumentParser(prog="validate_real", description=__doc__.splitlines()[0])
    parser.add_argument("--end", type=fraction, default=1.0, metavar="SHARE", help="default: 1")

    def work(curves: list[Curve], options: argparse.Namespace) -> None:
        print(render(describe([curve.until(options.end) for curve in curves])))

    return of_corpus(parser, arguments, work)


if __name__ == "__main__":
    sys.exit(main())
