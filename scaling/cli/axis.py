"""`python -m scaling axis RUNS.csv --column COL --value X`: runs that differ in one axis, and the curve of a value."""

import argparse
from pathlib import Path

from scaling.axis import fit_axis
from scaling.calibration import AXES, read_along
from scaling.cli.options import CommandError, add_output, fraction, interval_text, level_text, positive, show
from scaling.points import InputError
from scaling.table import TableError


def add(commands) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "axis", help="fit runs that differ in one axis jointly, and forecast the curve of an unseen value"
    )
    option = parser.add_argument
    option("file", type=Path, metavar="RUNS.csv", help="columns run, compute, reward and the axis")
    option("--column", required=True, metavar="COL", help="column of the axis, such as the model's size")
    option("--value", type=positive, required=True, metavar="X", help="forecast a run with this value of it")
    option(
        "--at",
        type=positive,
        action="append",
        default=[],
        metavar="C",
        help="at this compute; may be repeated",
    )
    option("--level", type=fraction, default=0.9, help="of the intervals (default: 0.9)")
    option("--axis", choices=AXES, default=AXES[0], help="compute of Parquet files, which have several")
    add_output(option, plot=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    try:
        curves, values = read_along(args.file, args.column, args.axis)
        law = fit_axis(
            values, [(one.compute, one.reward) for one in curves], names=[one.run for one in curves]
        )
        said = law.forecast(args.value, args.at, level=args.level) if args.at else None
        ceiling, efficiency = (f(args.value, level=args.level) for f in (law.ceiling, law.efficiency))
    except TableError as error:
        raise CommandError(str(error)) from None
    except InputError as error:
        raise CommandError(f"{args.file}: {error}") from None
    rows = [] if said is None else zip(said.at, said.value, said.lo, said.hi, strict=True)
    payload = {
        "column": args.column,
        "value": args.value,
        "level": args.level,
        "runs": len(curves),
        "values": len(set(values)),
        "ceiling": ceiling[0],
        "ceiling_interval": list(ceiling[1:]),
        "c_mid": efficiency[0],
        "c_mid_interval": list(efficiency[1:]),
        "forecasts": [
            {"compute": float(c), "value": float(v), "interval": [float(lo), float(hi)]}
            for c, v, lo, hi in rows
        ],
    }
    show(payload, render, args.json)


def render(payload: dict) -> str:
    lines = [
        f"{payload['runs']} runs at {payload['values']} values of {payload['column']}; "
        f"forecast for {payload['value']:g}"
    ]
    lines.append(f"{'':<14} {'value':>10}   {level_text(payload['level'])} interval")
    for name, key in (("ceiling", "ceiling"), ("C_mid", "c_mid")):
        lines.append(_line(name, payload[key], payload[f"{key}_interval"]))
    lines += [_line(f"at {one['compute']:g}", one["value"], one["interval"]) for one in payload["forecasts"]]
    return "\n".join(lines)


def _line(name: str, value: float, interval: list[float]) -> str:
    return f"{name:<14} {value:>10.4g}   {interval_text(interval)}"
