"""What came of a decision, worked out from what is stored now. Pure functions of rows; `selectors` reads them.

After "stop": that nothing more was spent. After "continue": the newest pass rate against what the fit said then for
that compute. After "switch": both pass rates at equal compute.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from webapp.record.runs.models import Point, Run
from webapp.record.runs.states import ACTIVE
from webapp.record.runs.summaries import spent_hours
from webapp.science.curves import estimates, words
from webapp.science.decisions.models import Decision, DecisionKind, Subject
from webapp.science.predictions import claims

HOURS = "device-hours"


@dataclass(frozen=True)
class Came:
    """One sentence; `held`: whether what the decision rested on proved right, None where that cannot be told."""

    sentence: str
    held: bool | None = None


@dataclass(frozen=True)
class Now:
    """What is known now. newest: run -> its newest evaluation; equal: (run, hours) -> its last one up to there;
    followers: (revision, task, model) -> runs of the recipe that a switch went to."""

    newest: dict[str, Point]
    equal: dict[tuple[str, float], "Reached"]
    used: dict[str, float | None]
    followers: dict[tuple[int, str, str], list[Run]]


@dataclass(frozen=True)
class Reached:
    """A pass rate with its standard error at an evaluation after `hours` device-hours."""

    value: float
    stderr: float | None
    hours: float


def came_of(decision: Decision, now: Now) -> list[Came]:
    """Sentences for each run of a decision, then for its prediction. Reads only what was fetched with them."""
    subjects = list(decision.subjects.all())
    of = [one for one in subjects if one.part == Subject.Part.OF]
    several = len(of) > 1
    found: list[Came] = []
    for subject in of:
        came = _of_run(decision, subject, subjects, now)
        found.append(Came(f"{subject.name}: {came.sentence}" if several else came.sentence, came.held))
    if decision.prediction is not None:
        outcomes = list(decision.prediction.outcomes.all())
        said = claims.what_came(decision.prediction, outcomes)
        found.append(Came(f"The prediction: {said}.", claims.all_held(outcomes)))
    return found


def _of_run(decision: Decision, subject: Subject, subjects: Sequence[Subject], now: Now) -> Came:
    if subject.run is None:
        return Came("The run was deleted: nothing more can be said.")
    if decision.kind == DecisionKind.STOP:
        return after_stop(subject, subject.run, now.used.get(subject.run_key))
    if decision.kind == DecisionKind.CONTINUE:
        return after_continue(subject, subject.run, now.newest.get(subject.run_key))
    return after_switch(decision, subject, subjects, now)


def after_stop(subject: Subject, run: Run, used: float | None) -> Came:
    """Whether it stopped, and what was spent since."""
    had, used = spent_hours(run, subject.state["used_hours"]), spent_hours(run, used)
    state = run.get_state_display().lower()
    if had is None or used is None:
        unknown = f"what it spent since is not known, as its {HOURS} are not"
        return Came(f"Not stopped: it is {state}; {unknown}." if run.state in ACTIVE else f"Stopped; {unknown}.",
                    run.state not in ACTIVE)  # fmt: skip
    spent = f"{words.amount(used - had)} {HOURS} more" if used > had else "nothing more"
    if run.state in ACTIVE:
        return Came(f"Not stopped: it is {state} and has spent {spent}.", False)
    budget = subject.state["budget_hours"]
    left = (
        f" {words.amount(budget - used)} {HOURS} of its budget were not spent."
        if budget and budget > used
        else ""
    )
    return Came(f"Stopped, {spent} was spent.{left}", True)


def after_continue(subject: Subject, run: Run, newest: Point | None) -> Came:
    """The newest evaluation against what the fit of that moment said of this compute."""
    ended = "now" if run.state in ACTIVE else "at its end"
    had = subject.state["used_hours"] or 0.0
    if newest is not None and newest.device_hours is None:
        return Came(f"The {HOURS} of its newest evaluation are not known, so nothing can be said of it.")
    if newest is None or newest.device_hours is None or newest.device_hours <= had:
        return Came(
            "No evaluation came since." if run.state in ACTIVE else "It ended without another evaluation."
        )
    said = words.rate(newest.value, _around(newest.value, newest.stderr))
    start = f"Pass rate {said} {ended}, after {words.amount(newest.device_hours)} {HOURS}"
    fit = estimates.of_stored(subject.fit)
    if fit is None or fit.params is None:
        return Came(f"{start}; there was no fit to check it against.")
    at = np.array([newest.device_hours])
    value, lo, hi = (float(ends[0]) for ends in (fit.values(at), *fit.band(at)))
    if not (np.isfinite(lo) and np.isfinite(hi)):
        return Came(f"{start}; the fit then said {words.rate(value)}, without an interval so far out.")
    level = subject.fit.level if subject.fit else 0.9
    inside = agrees(newest.value, newest.stderr, value, lo, hi, level)
    return Came(
        f"{start}; the fit then said {words.rate(value, (lo, hi))}, {words.between((lo, hi), level)}: "
        f"{'inside' if inside else 'outside'}, the evaluation's own error counted.",
        inside,
    )


def agrees(actual: float, stderr: float | None, value: float, lo: float, hi: float, level: float) -> bool:
    """Whether an evaluation lies in the interval of the mean curve, widened by the evaluation's own error.

    Half widths add in quadrature; `stderr` None counts as no error.
    """
    own = NormalDist().inv_cdf(0.5 + 0.5 * level) * (stderr or 0.0)
    half = hi - value if actual > value else value - lo
    return abs(actual - value) <= float(np.hypot(half, own))


def after_switch(decision: Decision, subject: Subject, subjects: Sequence[Subject], now: Now) -> Came:
    """The pass rate of what was switched to, against this run's, at the most compute that both have."""
    others, name = _switched_to(decision, subject, subjects, now)
    mine = now.newest.get(subject.run_key)
    theirs = [(run, now.newest.get(run.pk)) for run in others]
    known = [(run, point.device_hours) for run, point in theirs if point is not None and point.device_hours]
    if not others:
        return Came(f"No run of {name} was launched yet.")
    if mine is None or not mine.device_hours or not known:
        return Came(f"No evaluation of {name if mine is not None else 'this run'} yet to compare by.")
    at = min(mine.device_hours, max(hours for _, hours in known))
    here = now.equal.get((subject.run_key, at))
    there = [one for run, hours in known if hours >= at and (one := now.equal.get((run.pk, at)))]
    if here is None or not there:
        return Came(f"No evaluation of both within {words.amount(at)} {HOURS} yet.")
    mean = sum(one.value for one in there) / len(there)
    runs = f" (mean of {len(there)} runs)" if len(there) > 1 else ""
    return Came(
        f"At {words.amount(at)} {HOURS} {name} has {words.rate(mean)}{runs}, this run {words.rate(here.value)}: "
        f"{words.signed(mean - here.value)}.",
        mean > here.value,
    )


def _switched_to(
    decision: Decision, subject: Subject, subjects: Sequence[Subject], now: Now
) -> tuple[list[Run], str]:
    """The runs that stand for what was switched to, and how to call it."""
    if decision.to_revision_id is not None and decision.to_revision is not None:
        runs = now.followers.get((decision.to_revision_id, subject.task, subject.model), [])
        return [run for run in runs if run.pk != subject.run_key], str(decision.to_revision)
    to = next(one for one in subjects if one.part == Subject.Part.TO)
    return [to.run] if to.run is not None else [], to.name


def _around(value: float, stderr: float | None) -> words.Interval:
    return (None, None) if stderr is None else (value - stderr, value + stderr)
