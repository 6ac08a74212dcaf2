"""From a run in a source to a run here: made once, filled row by row, ended as its source says."""

import hashlib
import math
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Max, Min
from pydantic import TypeAdapter, ValidationError

from headroom.adapters import naming
from training.records import Compute, Record
from webapp.base.errors import Conflict, InvalidInput, NotFound, ServiceError, sentence
from webapp.identity.accounts.models import User
from webapp.interfaces.imports.models import Import, ImportedRun
from webapp.interfaces.imports.readers.guessing import PASS_RATE_LIKE
from webapp.interfaces.imports.readers.rows import FoundRun, Row
from webapp.interfaces.tracking.client_runs import presentable
from webapp.record.runs.bounds import MAX_MODEL, MAX_NAME, MAX_SEED, MAX_TASK, check_config
from webapp.record.runs.ingest import store_records
from webapp.record.runs.launch import TrackRequest, track_run
from webapp.record.runs.lifecycle import report_finished, report_started
from webapp.record.runs.meaning import Meaning, state_meaning
from webapp.record.runs.models import IdempotencyKey, Point, Run, Series, State
from webapp.record.runs.models import Record as StoredRecord
from webapp.record.runs.selectors import PASS_RATE, is_pass_rate
from webapp.record.runs.states import ENDED

ATTEMPT = 1
UNKNOWN_END = "Imported. Its source does not say how it ended."
OTHER_CONTENT = (
    "This row was imported before with other content. Say other devices or another pass rate on the run's page, under "
    "Metrics; to import it as new runs, name the source otherwise."
)
DELETED = "This run was imported before and is deleted: restore it, or import it once it is gone for good."


class RowRefused(Exception):
    """The row at `position` of a batch cannot be stored."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position, self.reason = position, reason


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:40]


def known_of(one: Import, found: FoundRun) -> ImportedRun | None:
    """How far this import is with a run; None where it has not stored anything of it."""
    return ImportedRun.objects.select_related("run").filter(source=one, key=_short(found.key)).first()


def kept_of(one: Import, found: FoundRun) -> ImportedRun:
    """As `known_of`, with a run that is made where no import of this source has made it.

    Raises InvalidInput for a description that no run can have.
    """
    source = _short("\n".join((one.kind, one.source)))
    name = f"import:{source}:{_short(found.key)}"  # the Idempotency-Key, the same for every import of this source
    known = IdempotencyKey.objects.select_related("run").filter(project=one.project_id, key=name).first()
    run = known.run if known is not None else _make(one, found, name)
    return ImportedRun.objects.get_or_create(source=one, key=_short(found.key), defaults={"run": run})[0]


def _make(one: Import, found: FoundRun, key: str) -> Run:
    """Raises InvalidInput."""
    seed = found.seed or 0
    request = TrackRequest(
        name=presentable(found.name, MAX_NAME),
        task=one.task or presentable(found.task, MAX_TASK),
        model=one.model or presentable(found.model, MAX_MODEL),
        config=_config(found.config),
        seed=seed if 0 <= seed <= MAX_SEED else 0,
    )
    return track_run(request, user=one.user, project=one.project, idempotency_key=key).run


def _config(config: Mapping[str, Any]) -> dict[str, Any]:
    """What JSON can hold of it; nothing where it is too large to be a configuration."""
    clean: dict[str, Any] = _plain(config)
    try:
        check_config(clean)
    except InvalidInput:  # `unknown_in` says so
        return {}
    return clean


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_text(str(name)): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float) else _text(str(value))


def _text(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def store_rows(run: Run, rows: Sequence[Row], ignore: Collection[str]) -> int:
    """Store rows as records of the run; how many were new. All of them or nothing. Raises RowRefused.

    ignore: names of metrics to leave out, as the source calls them.
    """
    ignored = {*ignore, *map(naming.of_tracker, ignore)}
    records = [_record(i, row, run.created_at, ignored) for i, row in enumerate(rows)]
    try:
        return _stored(run, records)
    except Conflict as error:
        raise RowRefused(_position(error.field), OTHER_CONTENT) from error
    except InvalidInput as error:
        raise RowRefused(_position(error.field), error.message) from error
    except NotFound as error:
        raise RowRefused(0, DELETED) from error


@transaction.atomic
def _stored(run: Run, records: Sequence[Record]) -> int:
    """As `store_records`; where the source has more of the newest row than it had before, all of it takes its place."""
    try:
        return store_records(run, records).accepted
    except Conflict as error:
        if not _removed_for_more(run, records[_position(error.field)]):
            raise
    return store_records(run, records).accepted


def _removed_for_more(run: Run, record: Record) -> bool:
    """Remove the run's newest record where this one has all that it has, and more. True where it was removed."""
    newest = StoredRecord.objects.filter(run=run, attempt=ATTEMPT).order_by("-seq").first()
    if newest is None or (newest.seq, newest.step) != (record.seq, record.step):
        return False
    known = {name: amount for name, amount in newest.compute.items() if amount is not None}
    has_more = (
        newest.metrics.items() <= record.metrics.items() and known.items() <= dict(record.compute).items()
    )
    if not has_more or newest.time != datetime.fromisoformat(record.time):
        return False
    Point.objects.filter(series__run=run, attempt=ATTEMPT, seq=newest.seq).delete()
    newest.delete()
    return True


def _record(position: int, row: Row, unknown: datetime, ignored: Collection[str]) -> Record:
    """A row without a time carries that of its run's first import, the same at each repeat."""
    try:
        return Record(
            attempt=ATTEMPT,
            seq=row.line,
            step=row.step,
            time=(row.time or unknown).isoformat(),
            compute=Compute(**{name: row.compute.get(name) for name in Compute.model_fields}),
            metrics={name: value for name, value in row.metrics.items() if name not in ignored},
        )
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in problem["loc"])
        raise RowRefused(position, f"{name or 'The row'} {sentence(problem)}.") from error


def seen_in(row: Row) -> set[str]:
    """What `unknown_in` asks for."""
    found = {"row"} if row.time is not None else {"row", "no time"}
    return found | {"compute"} if any(value is not None for value in row.compute.values()) else found


def unknown_in(run: Run, found: FoundRun, seen: Collection[str]) -> list[str]:
    """What the source did not say of the run, or said at too great length, in sentences."""
    sentences = []
    if found.config and not run.config:
        sentences.append("Its configuration is left out: it is longer than a page can show.")
    if "no time" in seen:
        sentences.append("Rows without a time carry that of their run's first import.")
    if seen and "compute" not in seen:
        sentences.append(
            "Compute is not known: no device-hours, FLOPs or tokens. Curves are drawn over steps only."
        )
    metrics = Series.objects.filter(run=run).order_by("metric").values_list("metric", flat=True)
    if seen and not any(is_pass_rate(metric) for metric in metrics):
        sentences.append("No metric is named as the pass rate, so that nothing is fitted.")
        if like := [metric for metric in metrics if PASS_RATE_LIKE.fullmatch(metric)]:
            sentences.append(
                f"Is {' or '.join(like[:5])} the pass rate? Say so on the run's page, under Metrics."
            )
    return sentences


def _position(field: str | None) -> int:
    match = re.match(r"records\.(\d+)", field or "")
    return int(match[1]) if match else 0


def mean_again(kept: ImportedRun, found: FoundRun, user: User | None) -> None:
    """Say of a new run's metrics what was said of them where it was exported, as far as it holds here: an export of
    curves has the points that followed, and needs it no more."""
    if not found.meaning or kept.run.meaning:
        return
    kept.refresh_from_db(fields=["rows_stored"])
    with suppress(ValidationError, ServiceError):
        if kept.rows_stored:
            state_meaning(kept.run, TypeAdapter(Meaning).validate_python(dict(found.meaning)), user=user)


def name_pass_rate(run: Run, found: FoundRun) -> None:
    """It is found by what the source calls it, too."""
    if found.pass_rate:
        Series.objects.filter(run=run, metric=PASS_RATE).update(logged_as=found.pass_rate[:250])


def end_run(run: Run, found: FoundRun) -> str:
    """End the run as its source says, else as succeeded, at the time of its newest row. What there is to say of it, in
    a sentence; else empty."""
    run.refresh_from_db()
    if run.state in ENDED - {State.LOST}:
        if found.state and found.state != run.state:
            return (
                f"{run.name} is {run.state} here, from an earlier import; its source says {found.state} now."
            )
        return ""
    message = "Imported." if found.state else UNKNOWN_END
    span = StoredRecord.objects.filter(run=run).aggregate(first=Min("time"), last=Max("time"))
    first, last = (moment and moment.isoformat() for moment in span.values())
    report_started(run, attempt=ATTEMPT, time=first)
    report_finished(run, attempt=ATTEMPT, state=found.state or State.SUCCEEDED, message=message, time=last)
    return ""
