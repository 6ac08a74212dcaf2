"""`python -m scaling compare A.csv B.csv`: the paper's rule, who is above at a budget, and where the curves cross."""

import argparse
import math
from dataclasses import asdict

from scaling.cli import picture
from scaling.cli.options import CommandError, add_fitting, add_output, fit_file, positive, show, window
from scaling.cli.words import prior_text, run_payload, runs_text
from scaling.compare import compare
from scaling.draws import chance
from scaling.models import Fit
from scaling.versus import Range, crossing, probability_above, span


def add(commands) -> None:
    """Register the command."""
    parser = commands.add_parser("compare", help="compare two runs, in one unit of compute")
    option = parser.add_argument
    option("a", metavar="A.csv")
    option("b", metavar="B.csv")
    add_fitting(option)
    option(
        "--at",
        type=positive,
        action="append",
        default=[],
        metavar="C",
        help="who is above here; may be repeated (default: the last compute of either)",
    )
    option("--within", type=window, metavar="LO:HI", help="computes in which a crossing is looked for")
    add_output(option, plot=True)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    picture.check(args.plot)
    a, b = fit_file(args.a, args), fit_file(args.b, args)
    payload = describe(args.a, a, args.b, b, args.at, args.within)
    picture.draw(args.plot, lambda plot: plot.compare_figure({args.a: a, args.b: b}))
    show(payload, render, args.json)


def describe(
    name_a: str,
    a: Fit,
    name_b: str,
    b: Fit,
    at: list[float],
    within: tuple[float | None, float | None] | None,
) -> dict:
    """JSON-ready. `above` and `crossing` are empty where either fit failed; a compute of None is the ceiling."""
    drawn = a.params is not None and b.params is not None
    computes = [*(at or [max(a.window[1], b.window[1])]), math.inf]
    return {
        "a": run_payload(name_a, a),
        "b": run_payload(name_b, b),
        "level": a.level,
        "rule": asdict(compare(a, b)),
        "above": [
            {"compute": c if math.isfinite(c) else None, "probability_a": probability_above(a, b, c)}
            for c in computes
            if drawn
        ],
        "crossing": _crossing(a, b, _range(a, b, within)) if drawn else None,
    }


def render(payload: dict) -> str:
    a, b = payload["a"], payload["b"]
    rule = payload["rule"]
    lines = runs_text([a, b], payload["level"])
    lines.append(f"rule     {rule['winner']}: {rule['reason']}")
    for one in payload["above"]:
        where = "at the ceiling" if one["compute"] is None else f"at {one['compute']:g}"
        note = prior_text([a, b], one["compute"])
        lines.append(f"{where}: the first is above with probability {chance(one['probability_a'])}{note}")
    if payload["crossing"] is not None:
        found = payload["crossing"]
        lines.append(found["sentence"] + prior_text([a, b], found["within"][1]))
    return "\n".join(lines)


def _crossing(a: Fit, b: Fit, within: Range) -> dict:
    found = crossing(a, b, within=within)
    return {**asdict(found), "sentence": found.sentence}


def _range(a: Fit, b: Fit, within: tuple[float | None, float | None] | None) -> Range:
    default = span(a, b)
    lo, hi = within or (None, None)
    chosen = default[0] if lo is None else lo, default[1] if hi is None else hi
    if not 0 < chosen[0] < chosen[1]:
        raise CommandError(f"--within {chosen[0]:g}:{chosen[1]:g} is not a range of computes above zero")
    return chosen
