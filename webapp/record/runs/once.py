"""A request that may come twice: its Idempotency-Key finds the run that the first one made."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import Project
from webapp.record.runs.models import IdempotencyKey, Run

MAX_KEY = 200


@dataclass(frozen=True)
class Launched:
    """A run and whether this very call made it (False: the Idempotency-Key was used before)."""

    run: Run
    created: bool


def once(project: Project, key: str | None, body: Mapping[str, Any], make: Callable[[], Run]) -> Launched:
    """Make the run, or find the one that this key made. A key that races with itself loses to the first commit.

    Raises InvalidInput (Idempotency-Key), and Conflict where the key was used with another `body`.
    """
    if key is None:
        with transaction.atomic():
            return Launched(make(), created=True)
    check_key(key)
    digest = hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()
    if (known := _known(project, key, digest)) is not None:
        return known
    try:
        with transaction.atomic():
            run = make()
            IdempotencyKey.objects.create(project=project, key=key, body_digest=digest, run=run)
        return Launched(run, created=True)
    except IntegrityError:
        if (known := _known(project, key, digest)) is not None:
            return known
        raise


def check_key(key: str | None) -> None:
    """Raises InvalidInput (Idempotency-Key)."""
    if key is not None and (not 1 <= len(key) <= MAX_KEY or not key.isprintable()):
        raise InvalidInput(
            "Idempotency-Key", f"Idempotency-Key must have 1 to {MAX_KEY} printable characters."
        )


def _known(project: Project, key: str, digest: str) -> Launched | None:
    used = IdempotencyKey.objects.filter(project=project, key=key).select_related("run").first()
    if used is None:
        return None
    if used.body_digest != digest:
        message = f"Idempotency-Key {key!r} was used for another request, which made run {used.run_id}."
        raise Conflict(message, field="Idempotency-Key")
    return Launched(used.run, created=False)
