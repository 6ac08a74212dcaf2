"""`python -m scaling fit FILE.csv`: a fit on the command line, as a table or as JSON.

Exit status 0 with any fit, whatever its status says; 2 with one line on stderr for input that cannot be fitted.
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from scaling.curve import FORMS, NAMES
from scaling.fitting import METHODS, fit
from scaling.intervals import Interval
from scaling.models import Fit
from scaling.points import InputError, Window
from scaling.table import TableError, read_points


class _Parser(argparse.ArgumentParser):
    """Refuses in one line; argparse prints the usage as well."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    args = _parser().parse_args(argv)
    try:
        fitted = _fit(args)
    except TableError as error:
        return _refuse(f"{args.file}: {error}")
    payload = describe(fitted, args.predict)
    text = json.dumps(payload, indent=2, allow_nan=False) if args.json else render(payload)
    print(text)
    return 0


def describe(fitted: Fit, predict: Sequence[float] = ()) -> dict:
    """The fit as JSON-ready numbers, None where a value does not exist; a prediction's interval is the mean curve's."""
    return {
        "form": fitted.form,
        "method": fitted.method,
        "status": fitted.status,
        "message": fitted.message,
        "params": fitted.params,
        "level": fitted.level,
        "intervals": {name: list(fitted.interval(name)) for name in NAMES},
        "sse": fitted.sse,
        "r2": fitted.r2,
        "n": fitted.n,
        "window": list(fitted.window),
        "predictions": [_prediction(fitted, c) for c in predict],
    }


def render(payload: dict) -> str:
    """The same for people: a ceiling is never shown without its interval or the words that it is not known."""
    lines = [f"{payload['form']} fit of {payload['n']} points, compute {_window_text(payload['window'])}"]
    lines.append(f"status   {payload['status']}" + (f": {payload['message']}" if payload["message"] else ""))
    level = f"{100 * payload['level']:g} %"
    if payload["params"] is not None:
        lines.append(f"{'':<8} {'value':>12}   {level} interval")
        for name in NAMES:
            lines.append(_row(payload, name))
        r2 = payload["r2"]
        lines.append(f"SSE {payload['sse']:.6g}   R2 {'-' if r2 is None else format(r2, '.4f')}")
    for p in payload["predictions"]:
        value = "-" if p["value"] is None else f"{p['value']:.4f}"
        lines.append(f"at {p['compute']:<10g} {value}   {_interval_text(p['interval'])}")
    return "\n".join(lines)


def _row(payload: dict, name: str) -> str:
    unknown = name == "A" and payload["status"] != "ok"
    value = "not known" if unknown else f"{payload['params'][name]:.6g}"
    return f"{name:<8} {value:>12}   {_interval_text(payload['intervals'][name])}"


def _window_text(window: list[float]) -> str:
    return f"{window[0]:g} to {window[1]:g}"


def _interval_text(interval: Sequence[float | None]) -> str:
    lo, hi = interval
    if lo is None and hi is None:
        return "unbounded"
    if hi is None:
        return f"at least {lo:.5g}"
    return f"at most {hi:.5g}" if lo is None else f"{lo:.5g} to {hi:.5g}"


def _prediction(fitted: Fit, compute: float) -> dict:
    if fitted.params is None:
        return {"compute": compute, "value": None, "interval": [None, None]}
    lo, hi = fitted.predict_interval(compute)
    interval: Interval = (float(lo), float(hi))
    return {"compute": compute, "value": float(fitted.predict(compute)), "interval": list(interval)}


def _fit(args: argparse.Namespace) -> Fit:
    """TableError for anything in the file that cannot be fitted."""
    table = read_points(Path(args.file), compute=args.compute, reward=args.reward)
    try:
        return fit(
            table.compute,
            table.reward,
            form=args.form,
            method=args.method,
            window=_until(args.window, args.until),
            r0=args.r0,
            level=args.level,
        )
    except InputError as error:
        where = "" if error.row is None else f"{table.rows[error.row]}: "
        raise TableError(f"{where}{error.reason}") from None


def _until(window: Window, until: float | None) -> Window:
    lo, hi = window
    ends = [end for end in (hi, until) if end is not None]
    return lo, min(ends) if ends else None


def _refuse(message: str) -> int:
    print(f"python -m scaling: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m scaling", description="Fit saturating compute-performance curves.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)
    add = commands.add_parser("fit", help="fit a CSV of compute and reward").add_argument
    add("file", metavar="FILE.csv")
    add("--compute", default="compute", metavar="COL", help="column of compute (default: compute)")
    add("--reward", default="reward", metavar="COL", help="column of pass rates (default: reward)")
    add(
        "--window",
        type=_window,
        default=(None, None),
        metavar="LO:HI",
        help="compute to fit; either end may be empty",
    )
    add("--until", type=_positive, metavar="C", help="use no point after this compute")
    add("--form", choices=FORMS, default="sigmoid")
    add("--method", choices=METHODS, default="fast", help="paper: the grid search of arXiv 2510.13786, A.5")
    add("--r0", type=_r0, default=None, metavar="X|free", help="reward at zero compute (default: free)")
    add("--level", type=_level, default=0.9, help="of the intervals (default: 0.9)")
    add(
        "--predict",
        type=_positive,
        action="append",
        default=[],
        metavar="C",
        help="predict here; may be repeated",
    )
    add("--json", action="store_true")
    return parser


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def _positive(text: str) -> float:
    value = _number(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not above zero")
    return value


def _level(text: str) -> float:
    value = _number(text)
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0 and 1")
    return value


def _r0(text: str) -> float | None:
    if text == "free":
        return None
    value = _number(text)
    if not 0.0 <= value < 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is neither 'free' nor in [0, 1)")
    return value


def _window(text: str) -> Window:
    lo, colon, hi = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not LO:HI")
    return (_number(lo) if lo.strip() else None, _number(hi) if hi.strip() else None)
