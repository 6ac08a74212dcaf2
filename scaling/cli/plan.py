"""`python -m scaling plan FILE...`: the compute to a target, what a budget buys, when to stop, the best run."""

import argparse
from dataclasses import asdict

from scaling import plan
from scaling.cli.options import (
    CommandError,
    add_fitting,
    add_output,
    fit_file,
    fraction,
    number,
    positive,
    show,
)
from scaling.cli.words import interval_text, prior_text, run_payload, runs_text
from scaling.draws import chance
from scaling.models import Fit


def add(commands) -> None:
    """Register the command."""
    parser = commands.add_parser("plan", help="what more compute buys, for one run or for each of several")
    option = parser.add_argument
    option("files", metavar="FILE", nargs="+")
    add_fitting(option)
    option("--target", type=number, metavar="X", help="compute at which this reward is reached")
    option(
        "--budget", type=positive, metavar="C", help="predict here; of several files, which is the best here"
    )
    option("--delta", type=positive, metavar="D", help="is less than this left to gain?")
    option("--at", type=positive, metavar="C", help="judge --delta here (default: the last compute)")
    option("--probability", type=fraction, default=0.9, metavar="P", help="how sure to be for --delta (0.9)")
    add_output(option, plot=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    if args.target is None and args.budget is None and args.delta is None:
        raise CommandError("nothing to plan: give --target, --budget or --delta")
    if len(set(args.files)) < len(args.files):
        raise CommandError("the same file is given twice")
    fits = {file: fit_file(file, args) for file in args.files}
    show(describe(fits, args), render, args.json)


def describe(fits: dict[str, Fit], args: argparse.Namespace) -> dict:
    """JSON-ready: what was asked of each run, None where it was not asked or its fit failed."""
    several = len(fits) > 1 and args.budget is not None
    return {
        "level": args.level,
        "runs": [{**run_payload(file, one), **_answers(one, args)} for file, one in fits.items()],
        "choice": asdict(plan.which_to_continue(fits, args.budget, level=args.level)) if several else None,
    }


def render(payload: dict) -> str:
    lines = runs_text(payload["runs"], payload["level"])
    for run in payload["runs"]:
        start = f"{run['file']}: " if len(payload["runs"]) > 1 else ""
        lines += [f"{start}{run[key]['sentence']}" for key in ("target", "budget", "stop") if run[key]]
    choice = payload["choice"]
    for one in choice["candidates"] if choice else ():
        note = prior_text(payload["runs"], one["budget"]) if one is choice["candidates"][0] else ""
        lines.append(
            f"{one['name']}: the best at {one['budget']:g} with probability {chance(one['best'])}{note}"
        )
    for name in choice["excluded"] if choice else ():
        lines.append(f"{name}: takes no part, its fit failed")
    return "\n".join(lines)


def _answers(fitted: Fit, args: argparse.Namespace) -> dict:
    answers: dict[str, dict | None] = {"target": None, "budget": None, "stop": None}
    if fitted.params is None:
        return answers
    if args.target is not None:
        reach = plan.compute_to(fitted, args.target)
        answers["target"] = {**asdict(reach), "sentence": reach.sentence}
    if args.budget is not None:
        answers["budget"] = _budget(fitted, args.budget)
    if args.delta is not None:
        at = fitted.window[1] if args.at is None else args.at
        stop = plan.when_to_stop(fitted, at, args.delta, args.probability)
        answers["stop"] = {**asdict(stop), "sentence": stop.sentence}
    return answers


def _budget(fitted: Fit, compute: float) -> dict:
    """Value at the budget, and the gain from the last compute to it (None where the budget lies before it)."""
    lo, hi = (float(end) for end in fitted.predict_interval(compute))
    value, so_far = float(fitted.predict(compute)), fitted.window[1]
    text = f"at {compute:g} {value:.4f}   {interval_text((lo, hi), 4)}"
    found = {"compute": compute, "value": value, "interval": [lo, hi], "gain": None, "gain_interval": None}
    if compute > so_far:
        gained, low, high = plan.gain(fitted, so_far, compute)
        found |= {"gain": gained, "gain_interval": [low, high]}
        text += f"; from {so_far:g} a gain of {gained:.4f}   {interval_text((low, high), 4)}"
    return {**found, "sentence": text}
