"""Turns: one worker at a time reads an import, and takes it over where another one died.

Reading imports, of one project.
"""

import logging
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import Error, connection, transaction
from django.db.models import Count, F, Max, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from webapp.base.claims import CLAIM, is_free, take_turns
from webapp.base.errors import first_of
from webapp.identity.accounts.models import Project
from webapp.interfaces.imports.models import OPEN, Import, ImportedRun, State

log = logging.getLogger(__name__)

BEAT_SECONDS = 15.0
MOST_TRIES = 5  # turns in a row without any progress: the worker died, or reading never came anywhere


class Superseded(Exception):
    """Another worker has this import now."""


@dataclass(frozen=True)
class Claim:
    """An import that this worker reads."""

    source: Import
    token: str

    def keep(self, **fields: Any) -> None:
        """Say that the worker lives, and what changed. Raises Superseded."""
        if not self._held().update(**{"claimed_until": timezone.now() + CLAIM} | fields):
            raise Superseded

    def release(self, **fields: Any) -> None:
        """It goes on at its next turn, or (`fields`) has ended. Raises Superseded."""
        self.keep(claimed_until=None, claim="", **fields)

    def _held(self) -> QuerySet[Import]:
        return Import.objects.filter(pk=self.source.pk, claim=self.token, state=State.READING)

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Meanwhile a thread says that the worker lives, however long it reads without storing anything."""
        done = threading.Event()
        thread = threading.Thread(target=self._beat, args=(done,), daemon=True, name="import-claim")
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _beat(self, done: threading.Event) -> None:
        while not done.wait(BEAT_SECONDS):
            try:
                self._held().update(claimed_until=timezone.now() + CLAIM)
            except Error as error:  # the next beat may go through; else another worker takes over
                log.warning("import %s: %s", self.source.pk, error)
        connection.close()


@transaction.atomic
def claim_next() -> Claim | None:
    """The next import: of the user whose last turn is the longest ago, so that many imports of one hold up none of
    another; of theirs, again, that whose turn it is. None where none waits, or `IMPORTS_AT_ONCE` are read already."""
    take_turns("imports")  # two workers cannot both see room for one more
    now = timezone.now()
    turns = Import.objects.filter(user=OuterRef("user")).order_by().values("user")
    users_turn = Coalesce(Subquery(turns.annotate(last=Max("turn_at")).values("last")), "turn_at")
    order = [F(name).asc(nulls_first=True) for name in ("users_turn", "turn_at")]
    found = _waiting(now).annotate(users_turn=users_turn).order_by(*order, "created_at").first()
    if found is None:
        return None
    claim = Claim(found, secrets.token_hex(8))
    Import.objects.filter(pk=found.pk).update(
        state=State.READING, claim=claim.token, claimed_until=now + CLAIM, turn_at=now, tries=F("tries") + 1
    )
    found.refresh_from_db()
    return claim


def waiting() -> int:
    """How many imports wait for a turn that somebody should begin: 0 where as many are read as may be."""
    return _waiting(timezone.now()).count()


def _waiting(now: datetime) -> QuerySet[Import]:
    """Open imports that no living worker reads; none where as many are read as may be."""
    being_read = Import.objects.filter(state=State.READING, claimed_until__gte=now).count()
    waiting = Import.objects.filter(is_free(now), state__in=OPEN)
    return waiting if being_read < settings.IMPORTS_AT_ONCE else waiting.none()


def imports_of(project: Project) -> QuerySet[Import]:
    """Newest first, each with `runs_made`."""
    rows = Import.objects.filter(project=project).select_related("user").order_by("-created_at", "id")
    return rows.annotate(runs_made=Count("imported"))


def import_by_id(project: Project, import_id: str) -> Import:
    """Raises NotFound, also for imports of other projects."""
    return first_of(imports_of(project).filter(pk=import_id), f"There is no import {import_id}.")


def runs_in(one: Import) -> QuerySet[ImportedRun]:
    """The runs that it filled, in the order of the source."""
    rows = one.imported.select_related("run").order_by("id")
    return rows.only(
        "rows_done", "rows_stored", "is_done", "is_broken", "source_id", "run__id", "run__name", "run__state"
    )


def any_open(project: Project) -> bool:
    return Import.objects.filter(project=project, state__in=OPEN).exists()
