"""When a client that came back begins the run's next attempt.

Clients of MLflow and trackio say that they go on with a run, never from which step. It is seen from what they log: once
a metric that is known comes again at a step that it had reached, the training was resumed before that step (or began
anew at step 0), and what earlier attempts reported from there on is superseded. Of transformers and verl only what they
log once a step counts; of others no metric that comes more than once a step, or that never got past step 0 (it was
logged without steps). A process that joins to add other metrics (an evaluation script, a second rank) supersedes
nothing.
"""

import time
from collections.abc import Iterable, Mapping

from webapp.interfaces.tracking.lines import Value
from webapp.interfaces.tracking.models import ClientMetric, ClientRun
from webapp.interfaces.tracking.translate import STEP_MARKS, Meter
from webapp.record.runs import lifecycle
from webapp.record.runs.models import Record, Run
from webapp.record.runs.states import ENDED


def rejoin(run: Run, here: ClientRun, *, now_ms: int | None = None) -> None:
    """A client goes on with the run: an ended one runs again, as its next attempt. Safe to repeat before it logs.

    Both are locked. The time between is not counted as compute.
    """
    has_reported = Record.objects.filter(run=run, attempt=run.attempt_number).exists()
    if run.state in ENDED:
        lifecycle.ensure_attempts(run, {run.attempt_number + 1: "status"})
    elif not has_reported:
        return
    meter = Meter(**here.meter)
    meter.since_ms = int(time.time() * 1000) if now_ms is None else now_ms
    meter.base_hours = meter.device_hours or 0.0
    here.meter, here.has_rejoined = meter.as_json(), True
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
    here.meter = meter_at(run, here, attempt, resumed_from).as_json()
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
