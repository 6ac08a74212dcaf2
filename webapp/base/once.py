"""Requests that may come twice: a key, usually the Idempotency-Key, finds what the first one made."""

import hashlib
import json
from collections.abc import Callable
from typing import Any, TypeVar

from django.db import IntegrityError, transaction

from webapp.base.errors import Conflict, InvalidInput

HEADER = "Idempotency-Key"
MAX_KEY = 200
T = TypeVar("T")


def once(find: Callable[[], T | None], make: Callable[[], T]) -> tuple[T, bool]:
    """What `find` finds, else what `make` makes in a transaction; and whether it was made. Of two requests at the same
    time the second finds what the first has committed."""
    if (known := find()) is not None:
        return known, False
    try:
        with transaction.atomic():
            return make(), True
    except IntegrityError:
        if (known := find()) is not None:
            return known, False
        raise


def checked_key(key: str | None, field: str = HEADER, most: int = MAX_KEY) -> str | None:
    """Raises InvalidInput for a key that is empty, too long or not printable."""
    if key is not None and (not 1 <= len(key) <= most or not key.isprintable()):
        raise InvalidInput(field, f"{field} must have 1 to {most} printable characters.")
    return key


def body_digest(body: Any) -> str:
    """Of what was asked: the same key with another one is another request."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()


def check_same(key: str, stored: str, digest: str, made: str) -> None:
    """Raises Conflict where the key was used for another request. made: what that made, in words."""
    if stored != digest:
        raise Conflict(f"{HEADER} {key!r} was used for another request, which made {made}.", field=HEADER)
