"""Asking for a benchmark of a checkpoint, and cancelling it."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from training.benchmarks import PREFIX, check_options, make_benchmark
from training.tasks import TaskError
from webapp.base.errors import Conflict, InvalidInput, refuse
from webapp.identity.accounts.models import User
from webapp.record.evaluations.models import Evaluation
from webapp.record.recipes.services import outside_data, words_on
from webapp.record.retention.folders import checkpoints_of
from webapp.record.runs.models import Run
from webapp.record.runs.states import record_run

MOST_K, MOST_PROMPTS = 1024, 1_000_000
MOST_OPTIONS = 1000  # characters: they are in an index
OPTION = re.compile(r"[a-z_]{1,40}")
HARNESS = re.compile(r"lm_eval/[\w.-]{1,100}")  # of the job's machine to say whether it has that task
State = Evaluation.State


@dataclass(frozen=True, kw_only=True)
class EvaluationRequest:
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


def ask_for(run: Run, asked: EvaluationRequest, *, user: User | None) -> tuple[Evaluation, bool]:
    """(the evaluation, whether it is new or goes again). Safe to repeat.

    Raises InvalidInput (task, options, k, limit, step), also where the benchmark's data are missing, and Conflict where
    the run trains elsewhere or has no checkpoint.
    """
    if run.origin == Run.Origin.TRACKED:
        raise Conflict("This run trains elsewhere: its checkpoints are not here.")
    if not (steps := list(checkpoints_by_step(run.pk))):
        raise Conflict("This run has no checkpoint on this disk that could be measured.")
    if asked.step is not None and asked.step not in steps:
        raise InvalidInput("step", f"step: there are checkpoints of {', '.join(map(str, steps))}.")
    _check(asked)
    wanted = asdict(asked) | {"step": steps[-1] if asked.step is None else asked.step}
    with transaction.atomic():
        found, is_new = Evaluation.objects.get_or_create(run=run, **wanted, defaults={"created_by": user})
        ended = Evaluation.objects.filter(pk=found.pk, state__in=(State.FAILED, State.CANCELLED))
        is_new |= bool(ended.update(state=State.QUEUED, reason="", ended_at=None, created_by=user))
        if is_new:
            record_run("run.evaluated", run, user, task=found.task, step=found.step)
    found.refresh_from_db()
    return found, is_new


@transaction.atomic
def cancel(one: Evaluation, *, user: User | None) -> Evaluation:
    """Have it not measured; a job that has begun is stopped. Safe to repeat. Raises Conflict where it has ended."""
    same = Evaluation.objects.filter(pk=one.pk)
    changed = same.filter(state=State.QUEUED).update(
        state=State.CANCELLED, reason="", ended_at=timezone.now()
    ) or same.filter(state=State.RUNNING).update(state=State.STOPPING)
    one.refresh_from_db()
    if changed:
        record_run("run.evaluation_cancelled", one.run, user, task=one.task, step=one.step)
    elif one.state in (State.SUCCEEDED, State.FAILED):
        raise Conflict(f"It has {one.state}: there is nothing to cancel.")
    return one


def _check(asked: EvaluationRequest) -> None:
    are_named = all(OPTION.fullmatch(name) for name in asked.options)
    are_long = len(json.dumps(asked.options)) > MOST_OPTIONS
    refuse(
        (not 1 <= asked.k <= MOST_K, "k", f"k must be from 1 to {MOST_K}."),
        (not 0 <= asked.limit <= MOST_PROMPTS, "limit", f"limit must be from 0 (all) to {MOST_PROMPTS}."),
        (not are_named, "options", "options: a name has small letters and _ alone."),
        (are_long, "options", f"options: at most {MOST_OPTIONS} characters of JSON."),
    )
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
