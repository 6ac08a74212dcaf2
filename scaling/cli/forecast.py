"""`python -m scaling forecast FILE`: what would have been predicted from part of the compute, and what came."""

import argparse
from dataclasses import asdict

from scaling.cli import options
from scaling.cli.options import add_fitting, add_output, fit_options, fraction, level_text, of_file, show
from scaling.forecast import FRACTIONS, Cutoff, rolling, sentence
from scaling.table import Table


def add(commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "forecast", help="forecast the end of a run from earlier cutoffs, and score it"
    )
    option = parser.add_argument
    option("file", metavar="FILE")
    add_fitting(option)
    shares = ", ".join(f"{share:g}" for share in FRACTIONS)
    option(
        "--fraction",
        type=fraction,
        action="append",
        metavar="F",
        help=f"cut off at this share of the compute; may be repeated (default: {shares})",
    )
    add_output(option, plot=True)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    options.check(args.plot)

    def work(table: Table) -> tuple[Table, tuple[Cutoff, ...]]:
        fractions = tuple(args.fraction or FRACTIONS)
        return table, rolling(table.compute, table.reward, fractions, **fit_options(args, table))

    table, rows = of_file(args.file, args, work)
    options.draw(
        args.plot, lambda plot: plot.forecast_figure(table.compute, table.reward, rows, title=args.file)
    )
    show(describe(args, rows), render, args.json)


def describe(args: argparse.Namespace, rows: tuple[Cutoff, ...]) -> dict:
    """JSON-ready, None where a cutoff gave no forecast; `interval` is that of one evaluation at `compute`."""
    return {
        "form": args.form,
        "method": args.method,
        "level": args.level,
        "compute": rows[0].compute,
        "came": rows[0].came,
        "forecasts": [{**asdict(row), "sentence": sentence(row)} for row in rows],
    }


def render(payload: dict) -> str:
    lines = [f"the last evaluation, at compute {payload['compute']:g}, forecast by {payload['form']} fits"]
    for row in payload["forecasts"]:
        share = row["coverage"]
        later = f"{row['n_later']} later evaluations"
        kept = (
            ""
            if share is None
            else f"; {100 * share:.0f} % of {later} inside the {level_text(row['level'])} band"
        )
        lines.append(f"{row['sentence']}{kept}")
    return "\n".join(lines)
