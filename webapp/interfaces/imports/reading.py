"""The worker's part: reads a source run by run and stores its rows, in turns of half a minute.

Each batch is one transaction: records, how far it is, and that the worker still has it. A worker that is killed loses
at most its open batch; whoever takes over goes on behind the last one.

What a reader reads: the file or folder as it lies on disk, an archive unpacked, or the address of a server.
"""

import json
import logging
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F
from django.utils import timezone

from webapp.base import task_queue
from webapp.base.errors import InvalidInput, ServiceError
from webapp.base.sealing import Unreadable, unseal
from webapp.identity.audit.services import record
from webapp.interfaces.imports import apart, uploads
from webapp.interfaces.imports.claims import MOST_TRIES, Claim, Superseded, claim_next
from webapp.interfaces.imports.filling import (
    RowRefused,
    end_run,
    kept_of,
    known_of,
    mean_again,
    name_pass_rate,
    seen_in,
    store_rows,
    unknown_in,
)
from webapp.interfaces.imports.models import Import, ImportedRun, State
from webapp.interfaces.imports.readers.archives import ENDINGS
from webapp.interfaces.imports.readers.kinds import KINDS
from webapp.interfaces.imports.readers.rows import (
    PART,
    BadSource,
    FoundRun,
    Options,
    Row,
    ServerOptions,
    batched,
)
from webapp.interfaces.imports.services import mapping_of
from worker import names

UNPACKED = "unpacked"
UNPACKED_TO_PACKED = 4  # bytes of an archive's files to what may be uploaded
log = logging.getLogger(__name__)
TURN_SECONDS = 30.0  # then others have theirs; finding the place again does not count
MOST_NOTES = 20


def opened(one: Import) -> tuple[str, Path | str, Options]:
    """Kind, place and options for a reader of `readers.kinds.KINDS`.

    Raises BadSource, Unreadable where the credentials cannot be opened, and InvalidInput for a table whose columns
    nothing names.
    """
    options = _options(one)
    if one.address:
        return one.kind, one.address, options
    path = uploads.uploaded(one.pk)
    if path is None:
        raise BadSource(str(one), None, "The uploaded file is gone. Send it again.")
    if uploads.is_archive(path.name):
        path = _unpacked(one, path)
    kind = one.kind or apart.guess_kind(path)
    if not kind:
        raise InvalidInput("kind", f"What kind of source {one} is cannot be told: choose it.")
    if not options.columns and KINDS[kind].preview is not None and path.is_file():
        options = mapping_of(kind, path, options)
    return kind, path, options


def _options(one: Import) -> Options:
    if one.address:
        token, user = json.loads(unseal(one.sealed_credentials)) if one.sealed_credentials else ("", "")
        return ServerOptions(**one.options, token=token, user=user)
    return Options(**one.options | {"name": one.options.get("name") or _stem(one.source)[:120]})


def _stem(name: str) -> str:
    """The name of a file without its ending, of an archive without both."""
    endings = [ending for ending in ENDINGS if name.lower().endswith(ending)]
    return name[: -len(max(endings, key=len))] if endings else Path(name).stem


def _unpacked(one: Import, archive: Path) -> Path:
    """Its only file, or the folder with all of them; unpacked once. Raises BadSource."""
    folder = uploads.folder_of(one.pk) / UNPACKED
    if not folder.exists():
        partial = folder.with_name(f".{UNPACKED}.partial")
        uploads.remove(partial)
        try:
            apart.unpack(archive, partial, max_bytes=UNPACKED_TO_PACKED * settings.IMPORT_MAX_BYTES)
        except BadSource:
            uploads.remove(partial)  # a small archive may have come to much by then
            raise
        partial.rename(folder)
    inside = sorted(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_file() else folder


class TurnOver(Exception):
    """The rest is read at the next turn."""


@dataclass
class Turn:
    """One turn at one import."""

    claim: Claim
    seconds: float
    until: float | None = None  # from the first new row on
    seen: set[str] = field(default_factory=set)  # of the open run: `filling.seen_in`

    @property
    def source(self) -> Import:
        return self.claim.source


def take_turn(seconds: float = TURN_SECONDS) -> Import | None:
    """One turn at the import that waits for it the longest; None where none does. Safe to repeat, and to kill anywhere.

    Wishes the next turn where there may be more to do.
    """
    claim = claim_next()
    if claim is None:
        return None
    try:
        with claim.alive():
            _read(Turn(claim, seconds))
    except Superseded:
        log.warning("import %s: another worker has taken it over", claim.source.pk)
    task_queue.send(names.IMPORT)
    claim.source.refresh_from_db()
    return claim.source


def _read(turn: Turn) -> None:
    one, problem = turn.source, None
    try:
        _read_all(turn)
    except BadSource as error:
        problem = error
    except (ServiceError, Unreadable, OSError) as error:
        problem = BadSource(str(one), None, getattr(error, "message", str(error)))
    except TurnOver:
        return turn.claim.release()
    except (Superseded, OperationalError, InterfaceError):  # the claim runs out, and somebody goes on
        raise
    except Exception as error:
        log.exception("import %s", one.pk)
        problem = BadSource(
            str(one), None, f"It could not be read ({type(error).__name__}); the server's log says more."
        )
    return _end(turn, problem)


def _read_all(turn: Turn) -> None:
    """Every run of the source; a broken one keeps none of the others out. Raises BadSource for a broken source."""
    one = turn.source
    if one.tries > MOST_TRIES:
        raise BadSource(str(one), None, f"Reading was begun {MOST_TRIES} times and came no further.")
    kind, where, options = opened(one)
    reader = KINDS[kind]
    reading: AbstractContextManager[list[FoundRun]] = (  # files are read apart, a server is asked from here
        nullcontext(reader.read(where, options))
        if reader.in_place
        else apart.read(kind, Path(where), options)
    )
    with reading as found:
        if len(found) > apart.MOST_RUNS:
            reason = f"It holds more runs than one import makes, which is at most {apart.MOST_RUNS:,}."
            raise BadSource(str(one), None, reason)
        one.kind = kind
        turn.claim.keep(runs_found=len(found), kind=kind)
        for run in found:
            _read_run(turn, run)


def _read_run(turn: Turn, found: FoundRun) -> None:
    """Store what is new of one run, then its end, or what is broken in it. One that is broken before its first row is
    not made."""
    one, problem = turn.source, None
    kept = known_of(one, found)
    if kept is not None and kept.is_done:
        return
    turn.seen.clear()
    try:
        for batch in batched(_new_rows(turn, found, kept.rows_done if kept else 0)):
            kept = kept or kept_of(one, found)
            _store(turn, kept, batch)
            if turn.until is not None and time.monotonic() >= turn.until:
                raise TurnOver
        kept = kept or kept_of(one, found)
    except BadSource as error:
        problem = error
    with transaction.atomic():
        notes = list(found.notes)
        if kept is not None:
            if problem is None:
                mean_again(kept, found, one.user)
            name_pass_rate(kept.run, found)
            notes += unknown_in(kept.run, found, turn.seen)
            ImportedRun.objects.filter(pk=kept.pk).update(is_done=True, is_broken=problem is not None)
            if problem is None:
                notes.append(end_run(kept.run, found))
        turn.claim.keep(**_words(one, notes, problem))


def _new_rows(turn: Turn, found: FoundRun, done: int) -> Iterator[Row]:
    """Those behind the first `done`. Raises BadSource."""
    for row in islice(found.rows(), done, None):
        turn.until = turn.until or time.monotonic() + turn.seconds
        turn.seen |= seen_in(row)
        yield row


def _store(turn: Turn, kept: ImportedRun, rows: list[Row]) -> None:
    """The rows, and that they are done: one transaction. Raises BadSource naming the row that is refused; what comes
    before it is stored."""
    try:
        with transaction.atomic():
            accepted = store_rows(kept.run, rows, turn.source.options.get("ignore", ()))
            ImportedRun.objects.filter(pk=kept.pk).update(
                rows_done=F("rows_done") + len(rows), rows_stored=F("rows_stored") + accepted
            )
            turn.claim.keep(
                rows_read=F("rows_read") + len(rows), rows_stored=F("rows_stored") + accepted, tries=0
            )
    except RowRefused as error:
        if error.position:
            _store(turn, kept, rows[: error.position])
        line = rows[error.position].line
        raise BadSource(str(turn.source), line % PART or line, error.reason) from error


def _words(one: Import, notes: list[str], problem: BadSource | None) -> dict[str, object]:
    """What the import has to say of a run, beside what it says already; the first problem stays."""
    one.refresh_from_db(fields=["notes", "reason"])
    fields: dict[str, object] = {
        "notes": list(dict.fromkeys([*one.notes, *filter(None, notes)]))[:MOST_NOTES]
    }
    if problem is not None and not one.reason:
        fields |= _broken(one, problem)
    return fields


def _broken(one: Import, problem: BadSource) -> dict[str, object]:
    file = str(one) if problem.file == UNPACKED else problem.file
    return {"broken_file": file[:255], "broken_line": problem.line, "reason": problem.reason}


@transaction.atomic
def _end(turn: Turn, problem: BadSource | None) -> None:
    """Raises Superseded."""
    one = turn.source
    one.refresh_from_db(fields=["reason"])
    is_whole = problem is None and not one.reason
    state = State.FINISHED if is_whole else State.PARTIAL if one.imported.exists() else State.FAILED
    fields = _broken(one, problem) if problem is not None else {}
    turn.claim.release(
        state=state, ended_at=timezone.now(), sealed_credentials="", has_files=one.has_files and not is_whole,
        **fields,
    )  # fmt: skip
    one.refresh_from_db()
    record(
        "import.finished" if is_whole else "import.stopped", actor=one.user, project=one.project, kind="import",
        key=one.pk, name=str(one), rows=one.rows_stored, runs=one.imported.count(), state=str(state),
    )  # fmt: skip
    folder = uploads.folder_of(one.pk)  # of what is not whole, the upload stays for a resume
    transaction.on_commit(lambda: uploads.remove(folder if is_whole else folder / UNPACKED))
