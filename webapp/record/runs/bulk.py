"""One action on many runs, of ACTIONS. What became of each is kept and told."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from webapp.base.claims import checked_key
from webapp.base.compiled import rows_of
from webapp.base.errors import Conflict, InvalidInput
from webapp.base.formats import whole_in
from webapp.identity.accounts.models import Project, User
from webapp.identity.accounts.permissions import Permission
from webapp.identity.audit.services import record_each
from webapp.record.runs import editing, launch, lifecycle, places
from webapp.record.runs.bounds import MAX_TAGS, clean_tag
from webapp.record.runs.meaning import AT_ONCE
from webapp.record.runs.models import BulkAction, Run, State
from webapp.record.runs.states import ENDED

DONE_OF = {  # action -> what is told first of a run that it changed
    "stop": "stopped",
    "resume": "resumed",
    "priority": "changed",
    "tag": "tagged",
    "untag": "untagged",
    "change": "changed",
    "archive": "archived",
    "unarchive": "unarchived",
    "delete": "deleted",
    "restore": "restored",
}
ACTIONS = tuple(DONE_OF)
NEEDS_TAG = ("tag", "untag")
CONTRIBUTED = (*NEEDS_TAG, "change")
NEEDS = {action: Permission.CONTRIBUTE if action in CONTRIBUTED else Permission.LAUNCH for action in ACTIONS}
DONE = tuple(DONE_OF.values())
# Actions whose services tell the audit log themselves -> how many runs at a time.
OWN_EVENTS = {"stop": 200, "resume": 200, "priority": 1000, "change": 1000, "delete": 1000, "restore": 1000}
MAX_RUNS = 10_000
MAX_MEANT = 100  # runs of which a request says what their metrics mean

ADD_TAG = """
UPDATE runs_run SET version = version + 1, tags = (
    SELECT jsonb_agg(DISTINCT tag ORDER BY tag) FROM jsonb_array_elements_text(tags || %(tags)s::jsonb) AS tag)
WHERE id = ANY(%(runs)s) AND NOT tags @> %(tags)s::jsonb AND jsonb_array_length(tags) < %(most)s
RETURNING id
"""
REMOVE_TAG = """
UPDATE runs_run SET version = version + 1, tags = tags - %(tag)s
WHERE id = ANY(%(runs)s) AND tags @> %(tags)s::jsonb
RETURNING id
"""


@dataclass(frozen=True)
class Outcome:
    """What became of one run: a phrase that counts ("3 stopped"), and more in words where there is more to say."""

    phrase: str
    words: str = ""


def most_for(action: str) -> int:
    """How many runs the action takes at a time."""
    return OWN_EVENTS.get(action, MAX_RUNS)


@dataclass(frozen=True)
class BulkRequest:
    """What is asked for. `changes`: what `editing.change_run` takes, of the action change."""

    action: str
    run_ids: Sequence[str]
    key: str
    tag: str = ""
    priority: int | None = None
    changes: Mapping[str, Any] | None = None


def act(asked: BulkRequest, *, user: User, project: Project) -> BulkAction:
    """Do it to each run, once: the same key again is the same action, and nothing more is done.

    Runs that are not of this project are reported as not found. All of it is one transaction. Raises InvalidInput
    (action, runs, tag, priority, key, changes and what they name), and Conflict where the key was used for another
    action.
    Whoever calls it has asked for what the action needs (`NEEDS`).
    """
    action, ids = asked.action, _checked(asked.action, asked.run_ids, asked.key)
    said: dict[str, Any] = {"tag": clean_tag(asked.tag) if action in NEEDS_TAG else "", "changes": None}
    if action == "change":
        said["changes"] = _checked_changes(asked.changes, len(ids))
    if action == "priority":
        places.check_priority(-1 if asked.priority is None else asked.priority, user=user, project=project)
        said["changes"] = {"priority": asked.priority}
    try:
        with transaction.atomic():
            row = BulkAction.objects.create(project=project, user=user, key=asked.key, action=action, **said)
            among = Run.with_deleted if action == "restore" else Run.objects
            found = among.select_for_update().filter(project=project, pk__in=ids)
            runs = list(found.defer("config").order_by("pk"))
            for run in runs:
                run.project = project
            outcomes = _DO[action](runs, user, row)
            _record(row, runs, outcomes)
            row.outcomes = _told(ids, runs, outcomes)
            row.save(update_fields=["outcomes"])
            return row
    except IntegrityError:
        return _known(project, asked.key, {"action": action, **said})


def _record(row: BulkAction, runs: Sequence[Run], outcomes: dict[str, Outcome]) -> None:
    """An event for each run that was changed, but for actions that have their own."""
    if row.action in OWN_EVENTS:
        return
    phrase = DONE_OF[row.action]
    changed = [(run.pk, run.name) for run in runs if outcomes[run.pk].phrase == phrase]
    detail: dict[str, Any] = {"bulk": row.pk} | ({"tag": row.tag} if row.tag else {})
    record_each(f"run.{phrase}", actor=row.user, project=row.project, kind="run", things=changed, **detail)


def sentence(row: BulkAction) -> str:
    """ "3 stopped, 1 had already ended." """
    counted = Counter(outcome["phrase"] for outcome in row.outcomes)
    phrases = sorted(counted, key=lambda phrase: (phrase not in DONE, -counted[phrase], phrase))
    told = ", ".join(f"{counted[phrase]:,} {phrase}" for phrase in phrases)
    tag = f" Tag: {row.tag}." if row.tag else ""
    if row.action == "priority" and row.changes:
        return f"{told}. Priority: {Run.Priority(row.changes['priority']).label}."
    return f"{told}.{tag}"


def report_of(project: Project, text: str) -> dict[str, Any] | None:
    """The report that an address names; None where there is none."""
    number = whole_in(text, 18)
    row = None if number is None else BulkAction.objects.filter(project=project, pk=number).first()
    if row is None:
        return None
    deleted = [o["run"] for o in row.outcomes if o["phrase"] == DONE_OF["delete"]]
    told = [o for o in row.outcomes if o["words"]]
    return {"sentence": sentence(row), "outcomes": told, "row": row, "undo": ",".join(deleted)}


def _checked(action: str, run_ids: Sequence[str], key: str) -> list[str]:
    if action not in ACTIONS:
        raise InvalidInput("action", f"action must be one of {', '.join(ACTIONS)}.")
    checked_key(key, "key", 64)
    if not (ids := [pk for pk in dict.fromkeys(run_ids) if pk]):
        raise InvalidInput("runs", "runs: tick at least one run.")
    if len(ids) > most_for(action):
        raise InvalidInput("runs", f"runs: at most {most_for(action):,} at a time; narrow the filter.")
    return ids


def _checked_changes(changes: Mapping[str, Any] | None, n_runs: int) -> dict[str, Any]:
    if not changes:
        raise InvalidInput("changes", "changes: say what is to be changed.")
    if editing.MEANING in changes and n_runs > MAX_MEANT:
        raise InvalidInput(
            "runs",
            f"runs: what metrics mean can be changed of at most {MAX_MEANT} runs at a time, not of {n_runs:,}: choose "
            "fewer, and the others after them.",
        )
    editing.cleaned(changes)
    return dict(changes)


def _known(project: Project, key: str, said: Mapping[str, Any]) -> BulkAction:
    row = BulkAction.objects.get(project=project, key=key)
    if any(getattr(row, name) != value for name, value in said.items()):
        raise Conflict("This form was sent before for another action. Choose the runs again.", field="key")
    return row


def _told(ids: Sequence[str], runs: Sequence[Run], outcomes: dict[str, Outcome]) -> list[dict[str, str]]:
    names = {run.pk: run.name for run in runs}
    missing = Outcome("not found", "It is not in this project (any more).")
    told = ((pk, outcomes.get(pk, missing)) for pk in ids)
    return [{"run": pk, "name": names.get(pk, pk), "phrase": o.phrase, "words": o.words} for pk, o in told]


# --- what each action does ------------------------------------------------------------------------------------


Do = Callable[[list[Run], User, BulkAction], dict[str, Outcome]]


def _each(one: Callable[[Run, User], Outcome]) -> Do:
    return lambda runs, user, row: {run.pk: one(run, user) for run in runs}


def _stop(run: Run, user: User) -> Outcome:
    if run.state in ENDED:
        return Outcome("had already ended", f"It is {run.state}.")
    if run.state == State.STOPPING:
        return Outcome("already stopping", run.state_reason)
    try:
        stopped = lifecycle.cancel_run(run, user=user)
    except Conflict as error:
        return Outcome("had already ended" if run.state in ENDED else "not stopped", error.message)
    waits = "Its job was asked to write a checkpoint and end." if stopped.state == State.STOPPING else ""
    return Outcome("stopped", waits)


def _resume(run: Run, user: User) -> Outcome:
    try:
        launch.resume_run(run, user=user)
    except (Conflict, InvalidInput) as error:  # of the quota, or the disk
        return Outcome("not resumed", error.message)
    return Outcome("resumed")


def _delete(runs: list[Run], user: User, row: BulkAction) -> dict[str, Outcome]:
    refused = editing.delete_runs(runs, user=user)
    return {
        run.pk: Outcome("not deleted", refused[run.pk]) if run.pk in refused else Outcome("deleted")
        for run in runs
    }


def _restore(runs: list[Run], user: User, row: BulkAction) -> dict[str, Outcome]:
    restored = editing.restore_runs(runs, user=user)
    return {run.pk: Outcome("restored" if run.pk in restored else "was not deleted") for run in runs}


def _change(runs: list[Run], user: User, row: BulkAction) -> dict[str, Outcome]:
    changes = row.changes or {}
    if editing.MEANING in changes:
        at_once = AT_ONCE // max(1, len(runs))  # points of all runs together
        return {run.pk: _change_meaning(run, user, changes, at_once) for run in runs}
    fields = {run.pk: editing.determined(run, changes) for run in runs}
    changed = editing.change_held([run for run in runs if not fields[run.pk]], changes, user=user)
    return {
        run.pk: Outcome("not changed", editing.DETERMINED_SAYS.format(fields[run.pk]))
        if fields[run.pk]
        else Outcome("changed" if run.pk in changed else "was so before")
        for run in runs
    }


def _change_meaning(run: Run, user: User, changes: Mapping[str, Any], at_once: int) -> Outcome:
    before = run.version
    try:
        editing.change_run(run, changes, user=user, at_once=at_once)
    except (Conflict, InvalidInput) as error:
        return Outcome("not changed", error.message)
    return Outcome("was so before" if run.version == before else "changed")


def _priority(runs: list[Run], user: User, row: BulkAction) -> dict[str, Outcome]:
    wanted = (row.changes or {})["priority"]
    others = [run for run in runs if run.priority != wanted or run.state not in places.TAKES_PRIORITY]
    refused = places.set_priorities(others, wanted, user=user, project=row.project)
    outcomes = {run.pk: Outcome("was so before") for run in runs}
    outcomes |= {run.pk: Outcome("changed") for run in others}
    return outcomes | {pk: Outcome("not changed", why) for pk, why in refused.items()}


def _tag(runs: list[Run], user: User, row: BulkAction) -> dict[str, Outcome]:
    tag = row.tag
    changed = _update_tags(ADD_TAG, runs, tag)
    full = Outcome("not tagged", f"It has {MAX_TAGS} tags already.")
    return {
        run.pk: Outcome("tagged")
        if run.pk in changed
        else (Outcome("had the tag before") if tag in run.tags else full)
        for run in runs
    }


def _untag(runs: list[Run], user: User, row: BulkAction) -> dict[str, Outcome]:
    changed = _update_tags(REMOVE_TAG, runs, row.tag)
    return {run.pk: Outcome("untagged" if run.pk in changed else "did not have the tag") for run in runs}


def _update_tags(statement: str, runs: list[Run], tag: str) -> set[str]:
    values: dict[str, Any] = {
        "runs": [run.pk for run in runs],
        "tag": tag,
        "tags": json.dumps([tag]),
        "most": MAX_TAGS,
    }
    return {pk for (pk,) in rows_of(statement, values)}


def _archive(runs: list[Run], user: User, row: BulkAction) -> dict[str, Outcome]:
    """Only what has ended: a run that still spends compute must be seen."""
    ready = [run.pk for run in runs if run.state in ENDED and run.archived_at is None]
    Run.objects.filter(pk__in=ready, archived_at=None, state__in=ENDED).update(
        archived_at=timezone.now(), version=F("version") + 1
    )
    busy = Outcome("not archived", "It has not ended; stop it first.")
    before = Outcome("archived before")
    done = set(ready)
    return {
        run.pk: Outcome("archived") if run.pk in done else (before if run.archived_at else busy)
        for run in runs
    }


def _unarchive(runs: list[Run], user: User, row: BulkAction) -> dict[str, Outcome]:
    found = {run.pk for run in runs if run.archived_at is not None}
    Run.objects.filter(pk__in=found).update(archived_at=None, version=F("version") + 1)
    return {run.pk: Outcome("unarchived" if run.pk in found else "was not archived") for run in runs}


_DO: dict[str, Do] = {
    "stop": _each(_stop),
    "resume": _each(_resume),
    "priority": _priority,
    "tag": _tag,
    "untag": _untag,
    "change": _change,
    "archive": _archive,
    "unarchive": _unarchive,
    "delete": _delete,
    "restore": _restore,
}
