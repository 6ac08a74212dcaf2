"""Samples of runs: JSON lines come in, a Parquet file is kept beside the run's checkpoints.

HEADROOM_HOME/runs/RUN/samples/KIND-STEP.parquet    as the trainer writes it, where it shares the folder

What clients send is never opened as Parquet: its rows are read as JSON and written anew.

A table of prompts and responses in a file that clients log is shown with the run's samples, besides. Of JSON and JSON
lines only. Parquet is not opened here: `python -m headroom samples` reads it where it was written.
"""

import json
import logging
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Max

from headroom import tables
from training import samples
from webapp.base.disk import bytes_in_words, check_room
from webapp.base.errors import InvalidInput, NotFound, ServiceError
from webapp.base.requests import check_items
from webapp.record.artifacts.models import Artifact
from webapp.record.artifacts.store import TooLarge, open_file
from webapp.record.runs.models import Record, Run
from webapp.record.samples.models import SampleFile

log = logging.getLogger(__name__)
TABLES = (".json", ".jsonl")
PIECE = 1 << 20  # bytes read at a time
MOST_SENT = 64 << 20  # bytes of a request
MOST_UNPACKED = 128 << 20
MOST_LINES = 3 * samples.MOST_ROWS  # of which a file takes a third
MOST_OF_A_LINE = 8 << 20
MOST_INDEXED = 512  # prompts of a file that can be followed over the steps
GZIP = b"\x1f\x8b"
Read = Callable[[int], bytes]  # at most so many bytes; none at the end


def _too_large(what: str, most: int) -> TooLarge:
    return TooLarge(f"{what} has more than {bytes_in_words(most)}.", "samples")


def path_of(run_id: str, kind: str, step: int) -> Path:
    """Raises InvalidInput for what is no kind, no step or no id of a run."""
    if not run_id.isalnum():
        raise InvalidInput("run", f"{run_id!r} is no id of a run.")
    try:
        return Path(settings.HEADROOM_HOME) / "runs" / run_id / "samples" / samples.file_name(kind, step)
    except samples.SamplesError as error:
        raise InvalidInput("kind" if kind not in samples.KINDS else "step", f"{error}.") from None


def keep(run: Run, kind: str, step: int, attempt: int, read: Read) -> SampleFile:
    """Keep what `read` gives, JSON lines that may be gzipped, as the run's samples of a step. Safe to repeat.

    What an earlier attempt sends late changes nothing. Raises InvalidInput naming the line that is none, TooLarge, 507
    where the disk has no room, and NotFound where the run is gone.
    """
    return keep_rows(run, kind, step, attempt, _rows(_lines(_unpacked(read))))


def keep_rows(
    run: Run, kind: str, step: int, attempt: int, rows: Iterable[Mapping[str, Any]], *, table: str = ""
) -> SampleFile:
    """Keep rows as the run's samples of a step; of a `table` of that name beside what others have. Raises what `rows`
    raises, InvalidInput (507) where the disk has no room, and NotFound where the run is gone."""
    path = path_of(run.pk, kind, step)
    check_room(0, "samples")
    prepared = samples.prepare(_named(rows, table))
    with transaction.atomic():
        if not Run.objects.select_for_update(no_key=True).filter(pk=run.pk).exists():
            raise NotFound(f"There is no run {run.pk}.")
        before = run.samples.filter(kind=kind, step=step).first()
        if before is not None and before.attempt > attempt:
            return before
        if table and before is not None and before.attempt == attempt and (others := _beside(path, table)):
            together = samples.prepare([*others, *prepared.rows])
            prepared = samples.Prepared(together.rows, together.left_out + prepared.left_out)
        prompts = samples.by_prompt(prepared.rows)
        samples.write(path.parent, kind, step, prepared.rows)
        values = {
            "attempt": attempt, "rows": len(prepared.rows), "left_out": prepared.left_out,
            "prompts": {key: prompts[key] for key in list(prompts)[:MOST_INDEXED]}, "size": path.stat().st_size,
        }  # fmt: skip
        kept, _ = run.samples.update_or_create(kind=kind, step=step, defaults=values)
        _thin(run, kind)
    return kept


def _named(rows: Iterable[Mapping[str, Any]], table: str) -> Iterator[Mapping[str, Any]]:
    for row in rows:
        yield {**row, "part": f"{table} {row.get('part') or ''}".strip()} if table else row


def _beside(path: Path, table: str) -> list[dict[str, Any]]:
    """Rows of other tables, and of none."""
    try:
        rows, _ = samples.read(path)
    except (FileNotFoundError, samples.SamplesError):
        return []
    return [row for row in rows if row["part"] != table and not row["part"].startswith(f"{table} ")]


def _thin(run: Run, kind: str) -> None:
    found = run.samples.filter(kind=kind)
    gone = samples.superfluous(list(found.order_by("step").values_list("step", flat=True)))
    if gone:
        found.filter(step__in=gone).delete()


def remove_file(run_id: str, kind: str, step: int) -> None:
    """From the disk; one that is not there is no matter."""
    path = path_of(run_id, kind, step)
    path.unlink(missing_ok=True)
    try:
        path.parent.rmdir()
    except OSError:  # there are others
        return


def _unpacked(read: Read) -> Iterator[bytes]:
    """Pieces of what comes, decompressed where it is gzip."""
    unpack: Any = None
    sent = unpacked = 0
    while piece := read(PIECE):
        if sent == 0 and piece.startswith(GZIP):
            unpack = zlib.decompressobj(wbits=31)
        sent += len(piece)
        if sent > MOST_SENT:
            raise _too_large("The request", MOST_SENT)
        while piece:
            part, piece = (piece, b"") if unpack is None else _inflated(unpack, piece)
            unpacked += len(part)
            if unpacked > MOST_UNPACKED:
                raise _too_large("What was sent", MOST_UNPACKED)
            yield part
    if unpack is not None and not unpack.eof:
        raise InvalidInput("samples", "The samples have not arrived whole.", status=400)


def _inflated(unpack: Any, piece: bytes) -> tuple[bytes, bytes]:
    """(at most PIECE bytes, what is still to be inflated)."""
    try:
        part = unpack.decompress(piece, PIECE)
    except zlib.error as error:
        raise InvalidInput("samples", f"The samples are no gzip: {error}.") from None
    return part, b"" if unpack.eof else unpack.unconsumed_tail


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        if len(rest) > MOST_OF_A_LINE:
            raise _too_large("A line", MOST_OF_A_LINE)
    yield rest


def _rows(lines: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        if number > MOST_LINES:
            raise InvalidInput("samples", f"A step has at most {MOST_LINES:,} lines of samples.", status=413)
        if not line.strip():
            continue
        check_items(line)
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise InvalidInput("samples", f"Line {number} is no JSON object.")
        yield row


def take_responses(artifact: Artifact) -> None:
    """Keep the responses in a file that a run has just been given. A row is of the step that its column `step` says,
    else of the one in the file's name, else of the run's newest; what the same table had of a step before is replaced.

    Raises nothing: what is no table of responses, or has no room, is a file all the same.
    """
    if PurePosixPath(artifact.path).suffix not in TABLES:
        return
    try:
        _take(artifact)
    except (ServiceError, ValueError, RecursionError) as error:
        log.info("%s of run %s is not read as samples: %s", artifact.path, artifact.run_id, error)


def _take(artifact: Artifact) -> None:
    run = artifact.run
    if artifact.size > MOST_SENT:
        raise _too_large(artifact.path, MOST_SENT)
    name, step = tables.place_of(artifact.path)
    with open_file(artifact) as file:
        rows = list(tables.responses(tables.rows_of(artifact.path, file, check_items)))
    if rows:
        newest = step if step is not None else _newest_step(run)
        for at, found in tables.by_step(rows, newest, samples.MOST_STEP).items():
            keep_rows(run, tables.kind_of(artifact.path), at, run.attempt_number, found, table=name)


def _newest_step(run: Run) -> int:
    newest = Record.objects.filter(run=run).aggregate(step=Max("step"))["step"]  # the last may be of step 0
    return max(0, min(newest or 0, samples.MOST_STEP))
