"""What the commands share: the parser, types of arguments, reading a file into a fit, printing.

Numbers as people read them: never without an interval, and said in words where there is none.
"""

import argparse
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from scaling.course import Course
from scaling.curve import FORMS
from scaling.fitting import METHODS, fit
from scaling.models import Fit
from scaling.noise import sampling_stderr
from scaling.points import InputError, Window
from scaling.table import Table, TableError, read_points

Add = Callable[..., Any]
Result = TypeVar("Result")


class CommandError(ValueError):
    """A question that cannot be answered; the text is one line."""


class Parser(argparse.ArgumentParser):
    """Refuses in one line; argparse prints the usage as well."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")


def add_fitting(add: Add) -> None:
    """The options that say what to fit and how."""
    add("--compute", default="compute", metavar="COL", help="column of compute (default: compute)")
    add("--reward", default="reward", metavar="COL", help="column of pass rates (default: reward)")
    add(
        "--window",
        type=window,
        default=(None, None),
        metavar="LO:HI",
        help="compute to fit; either end may be empty",
    )
    add("--until", type=positive, metavar="C", help="use no point after this compute")
    add("--form", choices=FORMS, default="sigmoid")
    add("--method", choices=METHODS, default="fast", help="paper: the grid search of arXiv 2510.13786, A.5")
    add("--r0", type=r0, default=None, metavar="X|free", help="reward at zero compute (default: free)")
    add(
        "--start",
        type=pass_rate,
        action="append",
        metavar="X",
        help="reward before the first update; may be repeated",
    )
    add("--stderr", metavar="COL", help="column of standard errors (default: none, the noise is estimated)")
    add("--prompts", type=count, metavar="N", help="held-out prompts, from which standard errors follow")
    add(
        "--generations",
        type=count,
        default=1,
        metavar="K",
        help="samples of each of the --prompts (default: 1)",
    )
    add("--robust", action="store_true", help="leave out crashed evaluations, and say which")
    add("--level", type=fraction, default=0.9, help="of the intervals (default: 0.9)")


def add_output(add: Add, *, plot: bool) -> None:
    """`--json`, and `--plot` for a command that has a picture."""
    add("--json", action="store_true", help="print JSON instead of a table")
    if plot:
        add(
            "--plot",
            type=Path,
            metavar="FILE",
            help="also draw a picture: .html, or .png where kaleido is there",
        )


def fit_options(args: argparse.Namespace, table: Table) -> dict:
    """The keyword arguments of `scaling.fit` that the options stand for, for the points of one file."""
    lo, hi = args.window
    ends = [end for end in (hi, args.until) if end is not None]
    return {
        "form": args.form,
        "method": args.method,
        "window": (lo, min(ends) if ends else None),
        "r0": args.r0,
        "level": args.level,
        "r0_observed": args.start,
        "robust": args.robust,
        "stderr": _stderr(args, table),
    }


def _stderr(args: argparse.Namespace, table: Table) -> Sequence[float] | None:
    """Standard errors by column or from the number of samples; None where the noise is to be estimated."""
    if args.stderr is not None and args.prompts is not None:
        raise CommandError("--stderr and --prompts are two answers to one question: give one")
    if args.prompts is not None:
        return sampling_stderr(table.reward, args.prompts, args.generations).tolist()
    return table.stderr or None


def fit_file(file: str, args: argparse.Namespace) -> Fit:
    """The fit of a file. Raises CommandError, which names the file, for anything in it that cannot be fitted."""
    return of_file(file, args, lambda table: fit(table.compute, table.reward, **fit_options(args, table)))


def refuse_twice(*files: str) -> None:
    """Raises CommandError where a file is given more than once: a run is not compared with itself."""
    if len(set(files)) < len(files):
        raise CommandError("the same file is given twice")


def of_file(file: str, args: argparse.Namespace, work: Callable[[Table], Result]) -> Result:
    """`work` on the points of a file; what it refuses names the file and the row."""
    try:
        table = read_points(Path(file), compute=args.compute, reward=args.reward, stderr=args.stderr)
        return work(table)
    except TableError as error:
        raise CommandError(f"{file}: {error}") from None
    except InputError as error:
        where = "" if error.row is None else f"{table.rows[error.row]}: "
        raise CommandError(f"{file}: {where}{error.reason}") from None


def show(payload: dict, text: Callable[[dict], str], as_json: bool) -> None:
    """Print the payload as JSON, or as `text` has it."""
    print(json.dumps(payload, indent=2, allow_nan=False) if as_json else text(payload))


def number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def _number_that(fits: Callable[[float], bool], words: str) -> Callable[[str], float]:
    """The type of an option that takes some numbers only."""

    def read(text: str) -> float:
        if not fits(value := number(text)):
            raise argparse.ArgumentTypeError(f"{text!r} {words}")
        return value

    return read


positive = _number_that(lambda value: value > 0, "is not above zero")
pass_rate = _number_that(lambda value: 0 <= value <= 1, "is not between 0 and 1")
fraction = _number_that(lambda value: 0 < value < 1, "is not between 0 and 1")
share = _number_that(lambda value: 0 <= value < 1, "is not in [0, 1)")
not_negative = _number_that(lambda value: value >= 0, "is below zero")


def count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)


def r0(text: str) -> float | None:
    known = _number_that(lambda value: 0 <= value < 1, "is neither 'free' nor in [0, 1)")
    return None if text == "free" else known(text)


def window(text: str) -> Window:
    lo, colon, hi = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not LO:HI")
    return (number(lo) if lo.strip() else None, number(hi) if hi.strip() else None)


def interval_text(interval: Sequence[float | None], digits: int = 5) -> str:
    """ "0.58 to 0.62", "at least 0.58", "at most 0.62" or "unbounded"; open ends are None."""
    lo, hi = (None if end is None else f"{end:.{digits}g}" for end in interval)
    if lo is None and hi is None:
        return "unbounded"
    if hi is None:
        return f"at least {lo}"
    return f"at most {hi}" if lo is None else f"{lo} to {hi}"


def window_text(window: Sequence[float]) -> str:
    return f"{window[0]:g} to {window[1]:g}"


def level_text(level: float) -> str:
    return f"{100 * level:g} %"


def run_payload(file: str, course: Course) -> dict:
    """A run in a few numbers; the forecast ceiling is None where it is not known, its interval None where failed."""
    return {
        "file": file,
        "status": course.status,
        "message": course.message,
        "so_far": course.seen,
        "ceiling": course.ceiling if course.known else None,
        "interval": None if course.interval is None else list(course.interval),
    }


def runs_text(runs: Sequence[dict], level: float) -> list[str]:
    """A table of runs: file, ceiling, interval, and the message of each that has no ceiling."""
    width = max(8, *(len(run["file"]) for run in runs))
    lines = [f"{'':<{width}} {'ceiling':>12}   {level_text(level)} interval, by forecast"]
    for run in runs:
        value = "not known" if run["ceiling"] is None else f"{run['ceiling']:.6g}"
        interval = interval_text(run["interval"]) if run["interval"] else "no forecast"
        lines.append(f"{run['file']:<{width}} {value:>12}   {interval}")
    return lines + [f"{run['file']}: {run['message']}" for run in runs if run["message"]]


def markdown(title: str, note: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table under a heading and a line of explanation."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([f"## {title}", "", note, "", *lines, ""])
