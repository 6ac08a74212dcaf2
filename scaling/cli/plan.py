"""`python -m scaling plan FILE...`: the compute to a target, what a budget buys, when to stop, the best run."""

import argparse
import math
from dataclasses import asdict
from typing import Any

from scaling import plan
from scaling.cli.options import (
    CommandError,
    add_fitting,
    add_output,
    fit_file,
    interval_text,
    level_text,
    number,
    positive,
    refuse_twice,
    run_payload,
    runs_text,
    show,
)
from scaling.course import Course, course_of
from scaling.ranking import ALONE, chance, compared

Payload = dict[str, Any]


def add(commands) -> None:
    """Register the command."""
    parser = commands.add_parser("plan", help="what more compute buys, for one run or for each of several")
    option = parser.add_argument
    option("files", metavar="FILE", nargs="+")
    add_fitting(option)
    option("--target", type=number, metavar="X", help="compute at which this reward is forecast")
    option(
        "--budget", type=positive, metavar="C", help="forecast here; of several files, which is the best here"
    )
    option("--delta", type=positive, metavar="D", help="is less than this left to gain?")
    add_output(option, plot=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    if args.target is None and args.budget is None and args.delta is None:
        raise CommandError("nothing to plan: give --target, --budget or --delta")
    refuse_twice(*args.files)
    courses = {file: course_of(fit_file(file, args)) for file in args.files}
    show(describe(courses, args), render, args.json)


def describe(courses: dict[str, Course], args: argparse.Namespace) -> Payload:
    """JSON-ready: what was asked of each run, None where it was not asked or nothing is forecast."""
    several = len(courses) > 1 and args.budget is not None
    return {
        "level": args.level,
        "runs": [{**run_payload(file, one), **_answers(one, args)} for file, one in courses.items()],
        "choice": _choice(courses, args) if several else None,
    }


def render(payload: Payload) -> str:
    lines = runs_text(payload["runs"], payload["level"])
    for run in payload["runs"]:
        start = f"{run['file']}: " if len(payload["runs"]) > 1 else ""
        lines += [f"{start}{run[key]['sentence']}" for key in ("target", "budget", "stop") if run[key]]
    told = [run["message"] for run in payload["runs"]]
    for one in payload["choice"] or ():
        if one["why"] and one["why"] in told:
            continue
        said = one["why"] or f"the best at {one['budget']:g} with probability {chance(one['chance'])}"
        lines.append(f"{one['file']}: {said}")
    return "\n".join(lines)


def _choice(courses: dict[str, Course], args: argparse.Namespace) -> list[Payload]:
    """The likeliest best first, these runs as they are; then those that cannot be judged there, with why."""
    found = compared([[one] for one in courses.values()], ALONE, args.budget, level=args.level)
    alone = sum(one is not None for one in found.here.standings) < 2
    rows = []
    for index, file in enumerate(courses):
        standing = None if alone else found.here.standings[index]
        why = found.why[index] or ("no other run can be judged there" if alone else "")
        row = {"file": file, "budget": args.budget, "why": why}
        rows.append(row | (asdict(standing) if standing else {"chance": 0.0}))
    return sorted(rows, key=lambda row: -row["chance"])


def _answers(course: Course, args: argparse.Namespace) -> Payload:
    known = course.ceiling is not None
    return {
        "target": _target(course, args.target) if known and args.target is not None else None,
        "budget": _budget(course, args.budget) if known and args.budget is not None else None,
        "stop": _stop(course, args.delta) if known and args.delta is not None else None,
    }


def _target(course: Course, target: float) -> Payload:
    """Where the target is first reached: 0 at the start, None not within what is forecast."""
    compute, interval = plan.compute_to(course, target)
    early, late = ("never" if end is None else f"{end:.4g}" for end in interval)
    where = "is not reached" if compute is None else f"is reached at {compute:.4g}"
    if compute is None and course.ceiling is not None and target > course.ceiling:
        where += ", it lies above the forecast ceiling"
    sentence = f"{target:g} {where} ({level_text(course.level)} {early} to {late})"
    return {"target": target, "compute": compute, "interval": list(interval), "sentence": sentence}


def _budget(course: Course, compute: float) -> Payload:
    """What is forecast at the budget, and the gain from the last compute to it (None where the budget lies before it);
    nothing beyond what is forecast."""
    found: Payload = {
        "compute": compute,
        "value": None,
        "interval": None,
        "gain": None,
        "gain_interval": None,
    }
    value, *interval = course.value_at(compute)
    if math.isnan(value):
        return {**found, "sentence": f"{compute:g} lies beyond what is forecast"}
    text = f"at {compute:g} {value:.4f}   {interval_text(interval, 4)}"
    found |= {"value": value, "interval": interval}
    if course.seen is not None and compute > course.seen:
        gain, *ends = plan.gain(course, compute)
        found |= {"gain": gain, "gain_interval": ends}
        text += f"; from {course.seen:g} a gain of {gain:.4f}   {interval_text(ends, 4)}"
    return {**found, "sentence": text}


def _stop(course: Course, delta: float) -> Payload:
    value, lo, hi = plan.left(course)
    may, near = plan.may_stop(course, delta), plan.near_ceiling(course, delta)
    said = f"{value:.3f} [{lo:.3f}, {hi:.3f}] ({level_text(course.level)}) is left at {course.seen:.4g}"
    sure = level_text(0.5 + 0.5 * course.level)
    when = "" if near is None else f"; less than {delta:g} is as likely as not from {near:.4g} on"
    stop = f"stop: {said}, less than {delta:g} with a probability of {sure}"
    found = {"stop": may, "delta": delta, "left": value, "interval": [lo, hi], "compute": near}
    return found | {"sentence": stop if may else f"go on: {said}{when}"}
