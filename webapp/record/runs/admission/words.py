"""What a queued run waits for, behind whom, and about how long: one line that stays the same while little changes."""

from collections.abc import Mapping, Sequence

from training.bundles import Amounts, needed
from webapp.record.runs.admission.parts import Decision, Queued, Share, Span, Wait, Why

MOST_NAMED = 2
UNITS = {"GPU": ("GPU", "GPUs"), "CPU": ("CPU core", "CPU cores")}
# Minutes that a time is rounded to, so that the line is not another one at each look.
RUNGS = (1, 2, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1440, 2880, 4320, 7200, 10080)
LATER = "waits for its turn, behind more runs than are counted"
UNKNOWN = "waits until the run before it has started: what the cluster has is not known"


def sentences(
    decision: Decision,
    has: Amounts | None,
    shares: Mapping[int, Share],
    at_work: Sequence[tuple[int, str]],
    names: Mapping[str, str],
) -> dict[str, str]:
    """Run -> what it waits for. `has`: all of the cluster's devices, None where they are not known; `at_work`:
    (project, name) of runs at work; `names`: of the runs that wait."""
    said: dict[str, str] = {}
    before: list[tuple[int, str]] = []
    for wait in decision.waits:
        run = wait.run
        if wait.why == Why.PROJECT:
            share = shares[run.project]
            said[run.run] = (
                f"waits for a place in its project: {share.at_work} of {share.most_at_work} at work"
            )
        elif has is None:
            said[run.run] = UNKNOWN
        elif wait.why == Why.TOO_LARGE:
            said[run.run] = too_large(run, has)
        else:
            queue = _behind(run, before) or _behind(run, at_work, " at work")
            said[run.run] = _for_cluster(wait, decision.free, queue)
        if wait.why == Why.CLUSTER:
            before.append((run.project, names.get(run.run, run.run)))
    return said


def too_large(run: Queued, has: Amounts) -> str:
    """ "needs 2 GPUs, the cluster has 0"."""
    short = [
        f"{_amount(name, amount)}, the cluster has {has.get(name, 0):g}"
        for name, amount in reversed(needed(run.bundles).items())
        if amount > has.get(name, 0)
    ]
    return f"needs {' and '.join(short) or 'more on one node than any has'}"


def _for_cluster(wait: Wait, free: Amounts, behind: str) -> str:
    asked = [
        f"{_amount(name, amount)}, {max(0.0, free.get(name, 0)):g} free"
        for name, amount in reversed(needed(wait.run.bundles).items())
    ]
    parts = [f"waits for the cluster: needs {' and '.join(asked)}", behind, when(wait.starts)]
    return "; ".join(part for part in parts if part)


def _amount(name: str, amount: float) -> str:
    return f"{amount:g} {UNITS[name][amount != 1]}"


def _behind(run: Queued, before: Sequence[tuple[int, str]], what: str = "") -> str:
    """Names are told of runs of its own project alone."""
    if not before:
        return ""
    own = [name for project, name in before if project == run.project][:MOST_NAMED]
    others = len(before) - len(own)
    count = f"{len(before)} run{'' if len(before) == 1 else 's'}{what}"
    if not own:
        return f"behind {count} of other projects"
    return f"behind {count}: {', '.join(own)}{f' and {others} more' if others else ''}"


def when(starts: Span | None) -> str:
    """ "starts in about 20 to 45 min"."""
    if starts is None:
        return "when it starts is not known"
    least, most = _floor(starts.least * 60), None if starts.most is None else _ceiling(starts.most * 60)
    if most is None:
        return f"starts in {_minutes(least)} at the earliest" if least else "when it starts is not known"
    if not least:
        return f"starts within about {_minutes(most)}"
    first, unit = _minutes(least).split()
    if least == most:
        return f"starts in about {first} {unit}"
    return (
        f"starts in about {first if _minutes(most).endswith(unit) else _minutes(least)} to {_minutes(most)}"
    )


def _floor(minutes: float) -> int:
    return max((rung for rung in RUNGS if rung <= minutes), default=0)


def _ceiling(minutes: float) -> int:
    return min((rung for rung in RUNGS if rung >= minutes), default=RUNGS[-1])


def _minutes(minutes: int) -> str:
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes / 60:g} h" if minutes < 2880 else f"{minutes / 1440:g} days"
