"""A request that may come twice: its Idempotency-Key finds the run that the first one made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from webapp.base.once import body_digest, check_same, checked_key, once
from webapp.identity.accounts.models import Project
from webapp.record.runs.models import IdempotencyKey, Run


@dataclass(frozen=True)
class Launched:
    """A run and whether this very call made it (False: the Idempotency-Key was used before)."""

    run: Run
    created: bool


def run_once(project: Project, key: str | None, body: Mapping[str, Any], make: Callable[[], Run]) -> Launched:
    """Make the run, or find the one that this key made. A key that races with itself loses to the first commit.

    Raises InvalidInput (Idempotency-Key), and Conflict where the key was used with another `body`.
    """
    checked_key(key)
    if key is None:
        with transaction.atomic():
            return Launched(make(), created=True)
    digest, given = body_digest(body), key

    def known() -> Run | None:
        used = IdempotencyKey.objects.filter(project=project, key=key).select_related("run").first()
        if used is None:
            return None
        check_same(used.key, used.body_digest, digest, f"run {used.run_id}")
        return used.run

    def made() -> Run:
        run = make()
        IdempotencyKey.objects.create(project=project, key=given, body_digest=digest, run=run)
        return run

    return Launched(*once(known, made))
