"""Storing what clients of other trackers log: through `store_records`, once, and so that they find it again.

The same again is known as such: clients repeat a request whose answer got lost, and have no key for it.

MLflow's own key of a value is all that it consists of: (run, name, time, step, value, is it NaN). A digest of each
request or record would take the same values for new ones where a client cuts its batches elsewhere the second time; a
row for each value would cost as much as the value. So there is one row for each moment (step and time to the
millisecond, the unit in which clients log), and in it eight bytes of a digest for each (name, value) that has arrived
of that moment. How the values were grouped does not matter, and a repeat reads the rows of its own moments and nothing
else, however much is stored. That two different values of one moment share a digest has odds of 1 in 10^13 where a
moment has a thousand values; the second one would be dropped.

trackio gives each line an id: its row has that as key, and no values.

When a client that came back begins the run's next attempt.

Clients of MLflow and trackio say that they go on with a run, never from which step. It is seen from what they log: once
a metric that is known comes again at a step that it had reached, the training was resumed before that step (or began
anew at step 0), and what earlier attempts reported from there on is superseded. Of transformers and verl only what they
log once a step counts; of others no metric that comes more than once a step, or that never got past step 0 (it was
logged without steps). A process that joins to add other metrics (an evaluation script, a second rank) supersedes
nothing.
"""

import hashlib
import json
import math
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from django.db import connection

from training.records import MIN_STEP
from webapp.base.compiled import Compiled
from webapp.interfaces.tracking.models import ClientMetric, ClientRun, NotFinite, Receipt
from webapp.interfaces.tracking.translate import (
    STEP_MARKS,
    Meter,
    RunDescription,
    Value,
    by_moment,
    now_ms,
    records_of,
    said_by,
    stored_name,
)
from webapp.record.runs import ingest, lifecycle
from webapp.record.runs.models import Record, Run
from webapp.record.runs.states import ENDED

CHUNK = 1000
APART = "logged/"  # in front of a name whose series another name has
OF_METRIC = ("key", "series", "value", "step", "time_ms", "comes_often")
NOTE = """
WITH noted AS (
    INSERT INTO tracking_clientmetric (run_id, key, series, value, step, time_ms, comes_often)
    SELECT %(run)s, * FROM unnest(%(key)s::text[], %(series)s::text[], %(value)s::float8[], %(step)s::bigint[],
        %(time_ms)s::bigint[], %(comes_often)s::boolean[])
    ON CONFLICT (run_id, key) DO UPDATE SET value = excluded.value, step = excluded.step,
        time_ms = excluded.time_ms, comes_often = excluded.comes_often
)
UPDATE tracking_clientrun SET meter = %(meter)s::jsonb, last_step = %(last_step)s, has_rejoined = %(has_rejoined)s
WHERE run_id = %(run)s
"""


def rejoin(run: Run, here: ClientRun, *, at_ms: int | None = None) -> None:
    """A client goes on with the run: an ended one runs again, as its next attempt. Safe to repeat before it logs.

    Both are locked. The time between is not counted as compute.
    """
    has_reported = Record.objects.filter(run=run, attempt=run.attempt_number).exists()
    if run.state in ENDED:
        lifecycle.ensure_attempts(run, {run.attempt_number + 1: "status"})
    elif not has_reported:
        return
    meter = Meter(**here.meter)
    meter.since_ms = now_ms() if at_ms is None else at_ms
    meter.base_hours = meter.device_hours or 0.0
    here.meter, here.has_rejoined = asdict(meter), True
    here.save(update_fields=["meter", "has_rejoined"])


def attempt_for(
    run: Run, here: ClientRun, values: Iterable[Value], known: Mapping[str, ClientMetric], trainer: str
) -> int:
    """The attempt that these values belong to; the next one where the client that rejoined has gone back."""
    if not here.has_rejoined:
        return run.attempt_number
    marks = STEP_MARKS.get(trainer)
    telling = {
        name
        for name, metric in known.items()
        if (name in marks if marks else metric.step > 0 and not metric.comes_often)
    }
    again = [value.step for value in values if value.name in telling and value.step <= known[value.name].step]
    if not again:
        return run.attempt_number
    resumed_from = min(again) - 1
    attempt = run.attempt_number
    if Record.objects.filter(run=run, attempt=attempt).exists():
        attempt += 1
    lifecycle.report_started(
        run, attempt=attempt, resumed_from_step=resumed_from if resumed_from >= 0 else None
    )
    here.has_rejoined = False
    here.meter = asdict(meter_at(run, here, attempt, resumed_from))
    return attempt


def meter_at(run: Run, here: ClientRun, attempt: int, step: int) -> Meter:
    """The compute that was spent up to a step before an attempt, e.g. up to the one that it resumed from."""
    before = Record.objects.filter(run=run, attempt__lt=attempt, step__lte=step)
    last = before.order_by("-attempt", "-step", "-seq").first()
    compute = last.compute if last else {}
    was = Meter(**here.meter)
    return Meter(
        **compute, since_ms=was.since_ms, base_hours=compute.get("device_hours") or 0.0, told=was.told
    )


def digest(name: str, value: float) -> int:
    """Of a name and a value; every NaN is the same value. A signed number of 64 bits."""
    bits = struct.pack("<d", value if value == value else float("nan"))
    given = hashlib.blake2b(name.encode() + b"\0" + bits, digest_size=8).digest()
    return int.from_bytes(given, "big", signed=True)


def new_lines(run: ClientRun, ids: Iterable[str]) -> set[str]:
    """Of these ids of lines those that have not arrived yet, written down as arrived."""
    wanted = set(ids)
    fresh = wanted.difference(run.receipts.filter(key__in=wanted).values_list("key", flat=True))
    Receipt.objects.bulk_create([Receipt(run=run, key=key) for key in fresh], CHUNK)
    return fresh


def store_values(here: ClientRun, values: Sequence[Value]) -> int:
    """Store values that have arrived for the first time, one record for each moment; how many they are. Safe to repeat,
    also when the values come in other batches the second time. A repeat says that the trainer lives, and costs no more
    than what it repeats. Part of the transaction that has locked the client's run: raises what `store_records` raises.
    """
    fresh = _without_repeats(here, values)
    store_lists(here.run, here, by_moment(fresh))
    return len(fresh)


def locked(client_run: ClientRun) -> tuple[Run, ClientRun]:
    """Both as they are now; one request at a time changes them."""
    (here,) = _LOCKED.all(run=client_run.pk)
    return here.run, here


_LOCKED = Compiled(
    lambda run: (
        ClientRun.objects.select_for_update(of=("self", "run"))
        .select_related("run", "group")
        .filter(pk=run)
        .order_by()
        .defer("run__config")
    ),
    run="an id",
)


def _without_repeats(here: ClientRun, values: Sequence[Value]) -> list[Value]:
    """The values that are new, noted as arrived; part of the transaction that stores them."""
    keys = [f"{value.step}:{value.time_ms}" for value in values]  # of the moments
    with connection.cursor() as cursor:
        cursor.execute(
            'SELECT key, "values" FROM tracking_receipt WHERE run_id = %s AND key = ANY(%s)',
            [here.pk, list(set(keys))],
        )
        arrived = defaultdict(set, {key: set(digests) for key, digests in cursor.fetchall()})
    fresh, changed = [], set()
    for value, key in zip(values, keys, strict=True):
        code = digest(value.name, value.value)
        if code not in arrived[key]:
            arrived[key].add(code)
            changed.add(key)
            fresh.append(value)
    rows = [Receipt(run=here, key=key, values=sorted(arrived[key])) for key in changed]
    Receipt.objects.bulk_create(
        rows, CHUNK, update_conflicts=True, unique_fields=["run", "key"], update_fields=["values"]
    )
    return fresh


def store_lists(run: Run, here: ClientRun, lists: Sequence[Sequence[Value]]) -> None:
    """One record for each list of values of one moment; run and client's run are locked. None: the trainer lives."""
    values = [value for each in lists for value in each]
    if not values:
        ingest.store_records(run, [])
        return
    as_read = not here.has_rejoined  # else the run is changed before the records are stored
    said = said_by(here.params, here.tags)
    metrics = _metrics(run, here, {value.name for value in values}, said)
    kept = [value for value in values if value.name in metrics]
    attempt = attempt_for(run, here, kept, metrics, said.trainer)
    # Who came back and logs at an earlier step has not shown yet whether the training went back: it is told the compute
    # of that step, and nothing is counted.
    first_step = min(value.step for value in values)
    is_open = here.has_rejoined and first_step < here.last_step
    meter = meter_at(run, here, attempt + 1, first_step) if is_open else Meter(**here.meter)
    records = list(
        records_of(
            lists,
            series={name: metric.series for name, metric in metrics.items()},
            attempt=attempt,
            first_seq=_next_seq(run, attempt),
            meter=meter,
            said=said,
        )
    )
    if as_read and len(records) <= ingest.MAX_RECORDS:
        ingest.store_held(run, records, reporter=attempt)
    else:  # each batch changes the run
        for first in range(0, len(records), ingest.MAX_RECORDS):
            ingest.store_records(run, records[first : first + ingest.MAX_RECORDS], reporter=attempt)
    if not is_open:
        here.meter, here.last_step = asdict(meter), values[-1].step
    _note(here, kept, metrics)


def _next_seq(run: Run, attempt: int) -> int:
    with connection.cursor() as cursor:  # Django takes longer to make it, and it is asked for each batch
        cursor.execute(
            "SELECT max(seq) FROM runs_record WHERE run_id = %s AND attempt = %s", [run.pk, attempt]
        )
        (newest,) = cursor.fetchone()
    return 0 if newest is None else newest + 1


def _metrics(run: Run, here: ClientRun, names: set[str], said: RunDescription) -> dict[str, ClientMetric]:
    """Name -> its row; those that are new get the name of their series, and are not stored yet. Names beyond what the
    project allows a run are left out."""
    known = {metric.key: metric for metric in here.client_metrics.filter(key__in=names)}
    missing = sorted(names - known.keys())
    if not missing:
        return known
    missing = missing[: max(0, run.project.max_metrics - here.client_metrics.count())]
    choices = {name: (stored_name(name, said.trainer), name, APART + name) for name in missing}
    wanted = {choice for each in choices.values() for choice in each}
    taken = set(here.client_metrics.filter(series__in=wanted).values_list("series", flat=True))
    for name in missing:
        series = next((choice[:250] for choice in choices[name] if choice[:250] not in taken), name)
        taken.add(series)
        known[name] = ClientMetric(
            run=here, key=name, series=series, value=math.nan, step=MIN_STEP, time_ms=0
        )
    return known


def _note(here: ClientRun, values: Sequence[Value], metrics: Mapping[str, ClientMetric]) -> None:
    """The newest value of each metric, where the client's run stands, and what was not finite."""
    newest: dict[str, Value] = {}
    steps = {(name, metric.step) for name, metric in metrics.items()}
    for value in values:
        if not here.has_rejoined and (value.name, value.step) in steps:
            metrics[value.name].comes_often = True
        steps.add((value.name, value.step))
        if value.name not in newest or value.rank > newest[value.name].rank:
            newest[value.name] = value
    changed = [
        metric
        for name, metric in metrics.items()
        if newest[name].rank >= Value(name, metric.value, metric.step, metric.time_ms).rank
    ]
    for metric in changed:
        found = newest[metric.key]
        metric.value, metric.step, metric.time_ms = found.value, found.step, found.time_ms
    columns = {name: [getattr(metric, name) for metric in changed] for name in OF_METRIC}
    stands = {"run": here.pk, "meter": json.dumps(here.meter), "last_step": here.last_step}
    with connection.cursor() as cursor:
        cursor.execute(NOTE, columns | stands | {"has_rejoined": here.has_rejoined})
    NotFinite.objects.bulk_create(
        [
            NotFinite(run=here, key=each.name, value=each.value, step=each.step, time_ms=each.time_ms)
            for each in values
            if not math.isfinite(each.value)
        ],
        CHUNK,
    )
