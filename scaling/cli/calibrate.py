"""`python -m scaling calibrate RUNS.csv`: how good forecasts of these runs would have been."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from scaling.calibration import AXES, LEVELS, Curve, Row, calibrate, read, refusals
from scaling.cli.options import CommandError, level_text, markdown, show
from scaling.scores import clopper_pearson
from scaling.table import TableError

NOTE = (
    "rmse, bias (forecast - came), and the mean interval score of the 90 % interval, in pass rate. "
    "In brackets: the exact 90 % interval of a share, were the runs independent."
)


def add(commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "calibrate", help="forecast finished runs from 3/8, 1/2 and 3/4 of their compute, and score that"
    )
    option = parser.add_argument
    option(
        "files",
        nargs="+",
        type=Path,
        metavar="RUNS.csv",
        help="columns run, compute, reward; task, recipe, seed and tokens if they are there. Or a folder of such files",
    )
    option("--axis", choices=AXES, default=AXES[0], help="compute of Parquet files, which have several")
    option("--json", action="store_true", help="print JSON instead of tables")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    try:
        curves = [curve for file in args.files for curve in read(file, args.axis)]
    except TableError as error:
        raise CommandError(str(error)) from None
    show(describe(curves), render, args.json)


def describe(curves: Sequence[Curve]) -> dict:
    """Tables as JSON-ready numbers, None where a method had no forecast; `without`: why, and from where."""
    return {
        "levels": list(LEVELS),
        "without": [{"run": run, "why": why, "from": list(cuts)} for run, why, cuts in refusals(curves)],
        "tables": [
            {"title": one.title, "rows": [asdict(row) for row in one.rows]} for one in calibrate(curves)
        ],
    }


def render(payload: dict) -> str:
    """The same as Markdown."""
    tables = [table(one["title"], [Row(**row) for row in one["rows"]]) for one in payload["tables"]]
    return "\n".join([*tables, *map(_refusal, payload["without"])])


def table(title: str, rows: Sequence[Row]) -> str:
    """A line for each cut and method."""
    inside = [f"in {level_text(level)}" for level in LEVELS]
    header = ["from", "method", "runs", "without", "rmse", "bias", *inside, "interval score"]
    return markdown(title, NOTE, header, [_line(row) for row in rows])


def _line(row: Row) -> list[str]:
    first = [level_text(row.cut), row.method, str(row.runs), str(row.without)]
    if row.inside is None:
        return [*first, *["-"] * (3 + len(LEVELS))]
    known = row.runs - row.without
    shares = [_share(round(share * known), known) for share in row.inside]
    return [*first, f"{row.rmse:.4f}", f"{row.bias:+.4f}", *shares, f"{row.interval_score:.4f}"]


def _share(k: int, n: int) -> str:
    lo, hi = clopper_pearson(k, n)
    return f"{100 * k / n:.0f} % ({100 * lo:.0f} to {100 * hi:.0f})"


def _refusal(one: dict) -> str:
    cuts = ", ".join(map(level_text, one["from"]))
    return f"- {one['run']} has no forecast from {cuts}: {one['why']}"
