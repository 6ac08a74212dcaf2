"""The worker's part: which evaluations are handed over, by the queue of the runs, and what becomes of their jobs."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.utils import timezone

from training.bundles import engine_bundle
from training.schema import Resources
from webapp.base.claims import CLAIM, is_free
from webapp.identity.secrets.services import redact
from webapp.record.evaluations.models import OPEN, Evaluation
from webapp.record.runs.admission.acting import admit_guests
from webapp.record.runs.admission.parts import Bundles, Guest

MOST_TRIES = 3
LOOKED_AT = 500
State = Evaluation.State


@lru_cache(maxsize=1024)
def _bundles_of(resources: str | None) -> Bundles:
    """Of the JSON of a stored `resources` section; what this version cannot read asks for nothing."""
    try:
        return (engine_bundle(Resources.model_validate(json.loads(resources or "{}"))),)
    except ValueError:
        return ()


def guests_of_evaluations() -> list[Guest]:
    """Of what is open, with the priority of their runs. One query."""
    known = _open().annotate(resources=KeyTextTransform("resources", "run__config")).defer("run__config")
    return [
        Guest(
            job=_job_of(one),
            name=str(one),
            project_id=one.run.project_id,
            priority=one.run.priority,
            bundles=_bundles_of(one.resources),
            made_at=one.created_at,
            is_queued=one.state == State.QUEUED,
            has_begun=one.began_at is not None,
            is_stopping=one.state == State.STOPPING,
        )
        for one in known[:LOOKED_AT]
    ]


def _job_of(one: Evaluation) -> str:
    return f"evaluation-{one.pk}"


def open_ones() -> list[Evaluation]:
    """Those with a job to be looked at, and the oldest that wait; LOOKED_AT at most."""
    return list(_open()[:LOOKED_AT])


def _open() -> QuerySet[Evaluation]:
    rows = Evaluation.objects.filter(OPEN)
    return rows.select_related("run").order_by("-state", "id")  # stopping, running, queued


@transaction.atomic
def claim(waiting: list[Evaluation]) -> list[Evaluation]:
    """Of those that wait, the ones whose next try is the caller's, to be handed over now; what the others wait for is
    written down."""
    if not waiting:
        return []
    now = timezone.now()
    going, said = admit_guests(Q(done_at=None) & is_free(now), now)
    for one in waiting:
        reason = said.get(_job_of(one), "")
        if reason != one.reason:
            Evaluation.objects.filter(pk=one.pk, state=State.QUEUED).update(reason=reason)
    return [one for one in waiting if _job_of(one) in set(going) and _claimed(one)]


def _claimed(one: Evaluation) -> bool:
    """By a conditional UPDATE: it may have been cancelled meanwhile."""
    values: dict[str, Any] = {"state": State.RUNNING, "reason": "", "began_at": None}
    values |= {"claimed_until": timezone.now() + CLAIM, "tries": F("tries") + 1}
    taken = Evaluation.objects.filter(pk=one.pk, state=State.QUEUED, tries=one.tries).update(**values)
    if taken:
        one.refresh_from_db()
    return bool(taken)


def is_lost(one: Evaluation) -> bool:
    """Of one whose job Ray does not know: whether nobody is about to hand it over."""
    return one.claimed_until is None or one.claimed_until < timezone.now()


def begun(one: Evaluation) -> None:
    """Ray has given it its devices."""
    if one.began_at is None:
        Evaluation.objects.filter(pk=one.pk, tries=one.tries).update(began_at=timezone.now())


def succeeded(one: Evaluation, result: Mapping[str, Any]) -> None:
    """Its job has ended well."""
    _end(one, State.SUCCEEDED, result=dict(result))


def failed(one: Evaluation, why: str) -> None:
    """It will not go again by itself."""
    text = redact(one.run.project_id, why.replace("\0", "").strip())[:2000]
    _end(one, State.FAILED, reason=text or "It ended without a word.")


def stopped(one: Evaluation) -> None:
    """Its job is no more, as somebody wanted."""
    _end(one, State.CANCELLED, leaving=State.STOPPING)


def put_back(one: Evaluation, why: str, *, counts: bool = True) -> None:
    """To be handed over again; after MOST_TRIES that `counts` it has failed."""
    if counts and one.tries >= MOST_TRIES:
        failed(one, why)
        return
    rows = Evaluation.objects.filter(pk=one.pk, state=State.RUNNING, tries=one.tries)
    rows.update(state=State.QUEUED, tries=one.tries if counts else F("tries") - 1)


def _end(one: Evaluation, state: str, *, leaving: str = State.RUNNING, **changes: Any) -> None:
    rows = Evaluation.objects.filter(pk=one.pk, state=leaving, tries=one.tries)
    rows.update(state=state, ended_at=timezone.now(), **changes)
