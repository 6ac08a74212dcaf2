"""Asking for a benchmark of a checkpoint, and what becomes of its job."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from training.benchmarks import PREFIX, check_options, make_benchmark
from training.tasks import TaskError
from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import User
from webapp.identity.audit.services import record
from webapp.identity.secrets.services import redact
from webapp.record.evaluations.models import Evaluation
from webapp.record.recipes.services import outside_data, words_on
from webapp.record.retention.folders import checkpoints_of
from webapp.record.runs.models import Run

MOST_K, MOST_PROMPTS, MOST_TRIES = 1024, 1_000_000, 3
MOST_OPTIONS = 1000  # characters: they are in an index
OPTION = re.compile(r"[a-z_]{1,40}")
HARNESS = re.compile(r"lm_eval/[\w.-]{1,100}")  # of the job's machine to say whether it has that task
State = Evaluation.State


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A benchmark, and of which checkpoint; `step` None: the newest."""

    task: str
    options: Mapping[str, Any] = field(default_factory=dict)
    k: int = 1
    limit: int = 0
    step: int | None = None


def checkpoints_by_step(run_id: str) -> dict[int, Path]:
    """Step -> the newest whole checkpoint of it on this disk, oldest first."""
    try:
        return {one.step: one.folder for one in checkpoints_of(run_id) if one.step is not None}
    except OSError:
        return {}


def ask_for(run: Run, asked: Asked, *, user: User | None) -> tuple[Evaluation, bool]:
    """(the evaluation, whether it is new or goes again). Safe to repeat.

    Raises InvalidInput (task, options, k, limit, step), also where the benchmark's data are missing, and Conflict where
    the run trains elsewhere or has no checkpoint.
    """
    if run.origin == Run.Origin.TRACKED:
        raise Conflict("This run trains elsewhere: its checkpoints are not here.")
    steps = list(checkpoints_by_step(run.pk))
    if not steps:
        raise Conflict("This run has no checkpoint on this disk that could be measured.")
    if asked.step is not None and asked.step not in steps:
        raise InvalidInput("step", f"step: there are checkpoints of {', '.join(map(str, steps))}.")
    _check(asked)
    wanted = asdict(asked) | {"step": steps[-1] if asked.step is None else asked.step}
    with transaction.atomic():
        found, is_new = Evaluation.objects.get_or_create(run=run, **wanted, defaults={"created_by": user})
        failed = Evaluation.objects.filter(pk=found.pk, state=State.FAILED)
        is_new |= bool(failed.update(state=State.QUEUED, error="", ended_at=None, created_by=user))
        if is_new:
            _record(found, user)
    found.refresh_from_db()
    return found, is_new


def _record(one: Evaluation, user: User | None) -> None:
    key, name = one.run_id, one.run.name
    what: dict[str, Any] = {"task": one.task, "step": one.step}
    record("run.evaluated", actor=user, project=one.run.project, kind="run", key=key, name=name, **what)


def _check(asked: Asked) -> None:
    if not 1 <= asked.k <= MOST_K:
        raise InvalidInput("k", f"k must be from 1 to {MOST_K}.")
    if not 0 <= asked.limit <= MOST_PROMPTS:
        raise InvalidInput("limit", f"limit must be from 0 (all) to {MOST_PROMPTS}.")
    if not all(OPTION.fullmatch(name) for name in asked.options):
        raise InvalidInput("options", "options: a name has small letters and _ alone.")
    if len(json.dumps(asked.options)) > MOST_OPTIONS:
        raise InvalidInput("options", f"options: at most {MOST_OPTIONS} characters of JSON.")
    if option := outside_data(asked.options):
        raise InvalidInput("options", f"options: {words_on(option)}.")
    if asked.task.startswith(PREFIX):
        if not HARNESS.fullmatch(asked.task) or asked.k != 1:
            raise InvalidInput("task", "task: lm_eval/ and the name of one of its tasks, with k 1.")
        try:
            check_options(asked.options)
        except TaskError as error:
            raise InvalidInput("options", f"options: {error}.") from error
        return
    try:
        make_benchmark(asked.task, asked.options, Path(settings.HEADROOM_HOME))
    except TaskError as error:
        raise InvalidInput("task", f"task: {error}.") from error


# --- the worker's part ----------------------------------------------------------------------------------------


def open_ones(most: int) -> list[Evaluation]:
    """Those whose job is to be submitted or looked at, oldest first."""
    rows = Evaluation.objects.filter(state__in=(State.QUEUED, State.RUNNING), run__deleted_at=None)
    return list(rows.select_related("run").order_by("id")[:most])


def claim(one: Evaluation) -> bool:
    """Whether its next try is the caller's."""
    taken = Evaluation.objects.filter(pk=one.pk, state=State.QUEUED, tries=one.tries).update(
        state=State.RUNNING, tries=F("tries") + 1, submitted_at=timezone.now()
    )
    if taken:
        one.refresh_from_db()
    return bool(taken)


def succeeded(one: Evaluation, result: Mapping[str, Any]) -> None:
    """Its job has ended well."""
    _end(one, State.SUCCEEDED, result=dict(result))


def failed(one: Evaluation, why: str) -> None:
    """It will not go again by itself."""
    text = redact(one.run.project_id, why.replace("\0", "").strip())[:2000]
    _end(one, State.FAILED, error=text or "It ended without a word.")


def put_back(one: Evaluation, why: str, *, counts: bool = True) -> None:
    """To be submitted again; after MOST_TRIES that `counts` it has failed."""
    if counts and one.tries >= MOST_TRIES:
        failed(one, why)
        return
    rows = Evaluation.objects.filter(pk=one.pk, state=State.RUNNING, tries=one.tries)
    rows.update(state=State.QUEUED, tries=one.tries if counts else F("tries") - 1)


def _end(one: Evaluation, state: str, **changes: Any) -> None:
    rows = Evaluation.objects.filter(pk=one.pk, state=State.RUNNING, tries=one.tries)
    rows.update(state=state, ended_at=timezone.now(), **changes)
