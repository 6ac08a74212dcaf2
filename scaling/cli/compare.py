"""`python -m scaling compare A.csv B.csv`: two runs by their forecasts, and by the paper's rule on Eq. 1."""

import argparse
from dataclasses import asdict
from typing import Any

from scaling import plot
from scaling.cli.options import (
    add_fitting,
    add_output,
    fit_file,
    level_text,
    positive,
    refuse_twice,
    run_payload,
    runs_text,
    show,
)
from scaling.compare import compare
from scaling.course import course_of
from scaling.models import Fit
from scaling.ranking import Place, compared
from scaling.seeds import CORPUS

Payload = dict[str, Any]


def add(commands) -> None:
    """Register the command."""
    parser = commands.add_parser("compare", help="compare two runs, in one unit of compute")
    option = parser.add_argument
    option("a", metavar="A.csv")
    option("b", metavar="B.csv")
    add_fitting(option)
    option("--at", type=positive, metavar="C", help="compare here (default: the last compute of either)")
    add_output(option, plot=True)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    if args.plot is not None:
        plot.check(args.plot)
    refuse_twice(args.a, args.b)
    a, b = fit_file(args.a, args), fit_file(args.b, args)
    payload = describe({args.a: a, args.b: b}, args.at)
    if args.plot is not None:
        plot.write(plot.compare_figure({args.a: a, args.b: b}), args.plot)
    show(payload, render, args.json)


def describe(fits: dict[str, Fit], at: float | None) -> Payload:
    """JSON-ready. here, ceiling: first minus second with its interval, None where they are not compared, and `why`."""
    courses = [course_of(fit) for fit in fits.values()]
    first, second = fits.values()
    found = compared([[one] for one in courses], CORPUS, at, level=first.level)
    return {
        "runs": [run_payload(*one) for one in zip(fits, courses, strict=True)],
        "level": first.level,
        "seeds_sd": CORPUS.sd,
        "here": _difference(found.here),
        "ceiling": _difference(found.ceiling),
        "why": found.why,
        "rule": asdict(compare(first, second)),
    }


def render(payload: Payload) -> str:
    runs = payload["runs"]
    lines = runs_text(runs, payload["level"])
    told = zip(runs, payload["why"], strict=True)
    lines += [f"{run['file']}: not compared, {why}" for run, why in told if why and why != run["message"]]
    lines += [_sentence(payload[place]) for place in ("here", "ceiling") if payload[place]]
    lines.append(f"Seeds of one recipe are taken to differ by {payload['seeds_sd']:g} (standard deviation).")
    rule = payload["rule"]
    lines.append(f"The paper's rule on A of Eq. 1: {rule['winner']}, {rule['reason']}.")
    return "\n".join(lines)


def _difference(place: Place) -> Payload | None:
    gap = place.gap(0, 1)
    return None if gap is None else {"compute": place.compute, **asdict(gap), "real": gap.real}


def _sentence(found: Payload) -> str:
    where = "At the forecast ceiling" if found["compute"] is None else f"At {found['compute']:g}"
    ends = f"{level_text(found['level'])} {found['lo']:+.3f} to {found['hi']:+.3f}"
    better = "the first is better" if found["value"] > 0 else "the second is better"
    return f"{where}: {better if found['real'] else 'no real difference'}, {found['value']:+.3f} ({ends})."
