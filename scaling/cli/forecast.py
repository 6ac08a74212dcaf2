"""`python -m scaling forecast FILE`: what would have been predicted from part of the compute, and what came."""

import argparse
from dataclasses import asdict

from scaling import plot
from scaling.cli.fit import averaged
from scaling.cli.options import add_fitting, add_output, fit_options, fraction, level_text, of_file, show
from scaling.fitting import fit
from scaling.forecast import FRACTIONS, Cutoff, rolling, sentence
from scaling.models import Fit
from scaling.points import MIN_POINTS
from scaling.scores import late_mean
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
    if args.plot is not None:
        plot.check(args.plot)

    def work(table: Table) -> tuple[Table, Fit, tuple[Cutoff, ...]]:
        fractions, fitting = tuple(args.fraction or FRACTIONS), fit_options(args, table)
        whole = fit(table.compute, table.reward, **fitting)
        return table, whole, rolling(table.compute, table.reward, fractions, **fitting)

    table, whole, rows = of_file(args.file, args, work)
    if args.plot is not None:
        plot.write(plot.forecast_figure(table.compute, table.reward, rows, title=args.file), args.plot)
    show(describe(args, whole, rows), render, args.json)


def describe(args: argparse.Namespace, whole: Fit, rows: tuple[Cutoff, ...]) -> dict:
    """JSON-ready, None where a cutoff gave no forecast.

    forecasts: of one form, whose `interval` is that of one evaluation at `compute`; their `averaged` is the forecast of
    several forms for the mean of the last eighth: of `late_came`, at `late_compute` on average.
    """
    assert whole.data is not None
    at, came, _ = late_mean(whole.data.compute, whole.data.reward)
    return {
        "form": args.form,
        "method": args.method,
        "level": args.level,
        "compute": rows[0].compute,
        "came": rows[0].came,
        "late_compute": at,
        "late_came": came,
        "forecasts": [
            {**asdict(row), "sentence": sentence(row), "averaged": _averaged(whole, row, at)} for row in rows
        ],
    }


def _averaged(whole: Fit, row: Cutoff, at: float) -> dict:
    assert whole.data is not None
    early = whole.data.of(whole.data.compute <= row.cutoff)
    if row.n < MIN_POINTS:
        return {"value": None, "interval": None, "message": row.message}
    found = averaged(early, [at], row.level)
    known = found.status != "failed"
    return {
        "value": float(found.value[0]) if known else None,
        "interval": [float(found.lo[0]), float(found.hi[0])] if known else None,
        "message": found.message,
    }


def render(payload: dict) -> str:
    level = level_text(payload["level"])
    lines = [
        f"the mean of the last eighth, {payload['late_came']:.3f}, by several forms averaged; {level} in brackets"
    ]
    for row in payload["forecasts"]:
        several = row["averaged"]
        start = f"from {100 * row['fraction']:.3g} % of the compute"
        if several["interval"] is None:
            lines.append(f"{start}, no forecast ({several['message']})")
        else:
            lo, hi = several["interval"]
            lines.append(f"{start}, {several['value']:.3f} [{lo:.3f}, {hi:.3f}]")
    lines.append(f"the last evaluation, at compute {payload['compute']:g}, by {payload['form']} fits alone")
    for row in payload["forecasts"]:
        share = row["coverage"]
        later = f"{row['n_later']} later evaluations"
        kept = "" if share is None else f"; {100 * share:.0f} % of {later} inside the {level} band"
        lines.append(f"{row['sentence']}{kept}")
    return "\n".join(lines)
