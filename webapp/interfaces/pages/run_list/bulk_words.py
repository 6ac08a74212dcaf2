"""What an action on many runs will do, in sentences, before it is done. Pure functions of the runs."""

from collections.abc import Sequence

from webapp.record.runs.ingest import spent_hours, summary_of
from webapp.record.runs.models import Run, State
from webapp.record.runs.places import TAKES_PRIORITY
from webapp.record.runs.states import ACTIVE, ENDED
from webapp.science.curves.words import amount, count

TITLES = {
    "stop": "Stop {runs}",
    "resume": "Resume {runs}",
    "priority": "Set the priority of {runs}",
    "tag": "Tag {runs}",
    "untag": "Take a tag off {runs}",
    "change": "Edit {runs}",
    "archive": "Archive {runs}",
    "unarchive": "Unarchive {runs}",
    "delete": "Delete {runs}",
    "restore": "Restore {runs}",
}
# What holds whatever the runs are.
ALWAYS = {
    "resume": [
        "Each goes on from its newest checkpoint as its next attempt, within what is left of its budget. "
        "One without a checkpoint begins anew from step 0."
    ],
    "priority": ["Of the runs that wait, those of higher priority start first."],
    "archive": ["Archived runs are hidden from the list; their data, fits and pages stay."],
    "unarchive": ["They are listed again."],
    "delete": [
        "They leave every list, chart and ranking. For a day they can be restored; then all that they "
        "reported goes for good.",
        "Only runs that train elsewhere and have ended can be deleted, and none that a prediction rests on.",
    ],
    "restore": ["They are as they were before they were deleted."],
    "change": ["What is left empty stays as it is in each run."],
}
NOT_STARTED = frozenset({State.QUEUED})


def title(action: str, runs: Sequence[Run]) -> str:
    """ "Stop 3 runs" """
    return TITLES[action].format(runs=count(len(runs), "run"))


def consequences(action: str, runs: Sequence[Run]) -> list[str]:
    """What will happen, and what will be lost."""
    if action == "stop":
        return _of_stopping(runs)
    said = [*ALWAYS.get(action, ())]
    if action == "resume":
        said += _of_resuming(runs)
    elif action == "priority":
        begun = sum(run.state not in TAKES_PRIORITY for run in runs)
        stay = "stays as it is" if begun == 1 else "stay as they are"
        said += [f"{count(begun, 'run does', 'runs do')} not wait and {stay}."] if begun else []
    elif action == "archive":
        unfinished = sum(run.state in ACTIVE for run in runs)
        said += [f"{_those(unfinished)} not ended and will not be archived."] if unfinished else []
    elif action == "change":
        launched = sum(run.origin == Run.Origin.LAUNCHED for run in runs)
        was = count(launched, "run was", "runs were")
        only = f"{was} launched here, with its task, model and seed: only notes alone can be changed there."
        said += [only] if launched else []
    return said


def _of_stopping(runs: Sequence[Run]) -> list[str]:
    ended = sum(run.state in ENDED for run in runs)
    going = [run for run in runs if run.state in ACTIVE]
    queued = sum(run.state in NOT_STARTED and run.origin == Run.Origin.LAUNCHED for run in going)
    tracked = sum(run.origin == Run.Origin.TRACKED for run in going)
    training = len(going) - queued - tracked
    said = []
    if training:
        asked = count(training, "run is", "runs are")
        said.append(
            f"{asked} asked to write a checkpoint and end. What was learnt since the last checkpoint may be lost; "
            "what was reported stays, and a stopped run can be resumed."
        )
    if queued:
        said.append(f"{_those(queued)} not started and never will, unless resumed.")
    if tracked:
        said.append(
            f"{count(tracked, 'run trains', 'runs train')} elsewhere: marked as cancelled here, not stopped there."
        )
    if ended:
        stays = "stays as it is" if ended == 1 else "stay as they are"
        said.append(f"{_those(ended)} ended already and {stays}.")
    return said + ([_spent(going)] if going else [])


def _spent(going: Sequence[Run]) -> str:
    spent = [spent_hours(run, summary_of(run).used_hours) for run in going]
    if not (known := [used for used in spent if used is not None]):
        return "What was spent so far is not known."
    budget = sum(run.budget_hours or 0.0 for run in going)
    of = f" of {amount(budget)}" if budget else ""
    unknown = len(spent) - len(known)
    rest = f"; of {count(unknown, 'run')} it is not known" if unknown else ""
    return f"Spent so far: {amount(sum(known))}{of} device-hours{rest}."


def _of_resuming(runs: Sequence[Run]) -> list[str]:
    said: list[str] = []
    done = sum(run.state == State.SUCCEEDED and run.origin == Run.Origin.LAUNCHED for run in runs)
    if done:
        said.append(f"{_those(done)} succeeded: such a run goes on only where its budget was extended since.")
    if tracked := sum(run.origin == Run.Origin.TRACKED for run in runs):
        said.append(f"{count(tracked, 'run trains', 'runs train')} elsewhere and cannot be resumed here.")
    if going := sum(run.state in ACTIVE for run in runs):
        said.append(f"{_those(going)} not ended and {'is' if going == 1 else 'are'} left alone.")
    return said


def _those(number: int) -> str:
    return f"{number:,} {'has' if number == 1 else 'have'}"
