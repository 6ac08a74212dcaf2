"""Each new batch of evaluations is refitted, and what the run's page says of it made anew.

Fits whose points no longer count, because a later attempt resumed from before them or began anew, are kept as their
points are; nothing that asks for a run's newest fit may find them.

Summaries made anew from what is stored: newest record, effective evaluations, newest forecast.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from django.db import connection, transaction
from django.db.models import Q, QuerySet

from webapp.record.runs.ingest import SPARK_POINTS
from webapp.record.runs.models import Attempt, Run
from webapp.record.runs.selectors import pass_rates_of
from webapp.record.runs.states import bump
from webapp.science.curves.answers import Refit, store_fit
from webapp.science.curves.fitting import Curve, Question, curve_of
from webapp.science.curves.models import Fit
from webapp.science.curves.run.figure import keep_figure
from webapp.science.curves.words import DEFAULT_AXIS, DEFAULT_METRIC

CHUNK = 200  # runs a statement

COLUMNS = """used_hours, used_attempt, used_seq, pass_rate, pass_rate_stderr, pass_rate_attempt, pass_rate_seq,
    spark, fit_status, level, tail, ceiling, ceiling_lo, ceiling_hi, reached"""
# A row that would say the same is not written, so that the count tells how many runs changed.
REBUILD = """
INSERT INTO runs_summary AS known (run_id, {columns})
SELECT run.id, coalesce(used.hours, line.hours), coalesce(used.attempt, 0), coalesce(used.seq, -1),
    line.value, line.stderr, coalesce(line.attempt, 0), coalesce(line.seq, -1), coalesce(line.spark, '[]'),
    coalesce(fit.forecast ->> 'status', ''), (fit.forecast -> 'level')::float8, (fit.forecast ->> 'ceiling')::float8,
    CASE WHEN fit.forecast ->> 'status' = 'ok' THEN (fit.forecast ->> 'ceiling')::float8 END,
    (fit.forecast -> 'interval' ->> 0)::float8, (fit.forecast -> 'interval' ->> 1)::float8,
    (fit.forecast ->> 'reached')::float8
FROM runs_run AS run
LEFT JOIN LATERAL (
    SELECT nullif(compute -> 'device_hours', 'null')::float8 AS hours, attempt, seq FROM runs_record
    WHERE run_id = run.id ORDER BY attempt DESC, seq DESC LIMIT 1
) AS used ON true
LEFT JOIN LATERAL (
    SELECT max(value) FILTER (WHERE place = total) AS value, max(stderr) FILTER (WHERE place = total) AS stderr,
        max(attempt) AS attempt, max(seq) FILTER (WHERE place = total) AS seq,
        max(device_hours) FILTER (WHERE place = total) AS hours,
        jsonb_agg(value ORDER BY place) FILTER (
            WHERE (place - 1) %% ((total + %(points)s - 1) / %(points)s) = 0 OR place = total) AS spark
    FROM (
        SELECT value, stderr, attempt, seq, device_hours,
            row_number() OVER (ORDER BY attempt, seq) AS place, count(*) OVER () AS total
        FROM runs_effective_point WHERE run_id = run.id AND metric = %(metric)s
    ) AS effective
) AS line ON true
LEFT JOIN LATERAL (
    SELECT forecast FROM curves_fit
    WHERE run_id = run.id AND metric = %(metric)s AND x = %(axis)s AND form = 'sigmoid'
        AND cutoff IS NULL AND window_lo IS NULL AND NOT superseded
    ORDER BY id DESC LIMIT 1
) AS fit ON true
WHERE run.id = ANY(%(runs)s)
ON CONFLICT (run_id) DO UPDATE SET ({columns}) = ROW({excluded})
WHERE ({known}) IS DISTINCT FROM ({excluded})
"""


def _with_prefix(prefix: str) -> str:
    return ", ".join(f"{prefix}.{column.strip()}" for column in COLUMNS.split(","))


STATEMENT = REBUILD.format(columns=COLUMNS, excluded=_with_prefix("excluded"), known=_with_prefix("known"))


@transaction.atomic
def rebuild(run_ids: Iterable[str]) -> int:
    """Make these runs' summaries anew, in two queries; how many changed. Safe to repeat.

    Records wait meanwhile: what they would note must not be overwritten by what was read before them.
    """
    ids = sorted(run_ids)
    list(Run.objects.select_for_update().filter(pk__in=ids).order_by("pk").values_list("pk"))
    values: dict[str, Any] = {
        "runs": ids,
        "metric": DEFAULT_METRIC,
        "axis": DEFAULT_AXIS,
        "points": SPARK_POINTS,
    }
    with connection.cursor() as cursor:
        cursor.execute(STATEMENT, values)
        return max(cursor.rowcount, 0)


def rebuild_all() -> Iterator[tuple[int, int]]:
    """Every run, some at a time; yields how many were looked at and how many of them changed."""
    ids = iter(list(Run.objects.order_by("pk").values_list("pk", flat=True)))
    while chunk := list(islice(ids, CHUNK)):
        yield len(chunk), rebuild(chunk)


def refit(run_id: str) -> Refit:
    """Fit the run's curves with all their points, store them, and tell the run's page. Safe to repeat.

    A mixture of tasks has one curve overall and one for each part; what comes back is the overall fit, and whether
    any fit is new.

    The wish (`refit_wanted_at`) is cleared first and only if it is the one seen, so points that arrive
    meanwhile wish again.
    """
    run = Run.objects.get(pk=run_id)
    Run.objects.filter(pk=run_id, refit_wanted_at=run.refit_wanted_at).update(refit_wanted_at=None)
    curves = {name: curve_of(run, metric=name) for name in {DEFAULT_METRIC, *pass_rates_of(run)}}
    results = {name: store_fit(run, curve, Question(metric=name)) for name, curve in curves.items()}
    created = any(result.created for result in results.values())
    aside = [
        set_aside(run, curve, Question(metric=name), results[name].fit) for name, curve in curves.items()
    ]
    keep_figure(run, curves[DEFAULT_METRIC])
    if rebuild([run_id]) or created or any(aside):
        bump(run_id)
    return Refit(results[DEFAULT_METRIC].fit, created)


def set_aside(run: Run, curve: Curve, question: Question, current: Fit | None) -> bool:
    """Mark the run's fits of this question that used superseded points; whether any were.

    `current`: the fit of `curve`, None where it has too few points.

    Safe to repeat, and beside other refits: where points have arrived since, the refit that they wish for does it.
    """
    stale = _answers(run, question).filter(
        _older_than_its_points(run, curve, question) | Q(pk__gt=current.pk if current else 0)
    )
    if not stale.exists() and not (current and current.superseded):
        return False
    with transaction.atomic():
        Run.objects.select_for_update().get(pk=run.pk)  # no record is stored meanwhile
        now = curve_of(run, question.x, question.metric)
        if curve.start != now.start or not all(
            np.array_equal(getattr(curve, name), getattr(now, name)) for name in ("x", "y", "step")
        ):
            return False
        marked = stale.update(superseded=True)
        if current is not None and current.superseded:  # its points count again: so does it
            marked += Fit.objects.filter(pk=current.pk).update(superseded=False)
    return marked > 0


def _answers(run: Run, question: Question) -> QuerySet[Fit]:
    same = {"metric": question.metric, "x": question.x, "form": question.form, "level": question.level}
    window = {"window_lo": question.window_lo, "cutoff": question.cutoff}
    return Fit.objects.filter(run=run, superseded=False, **same, **window)


def _older_than_its_points(run: Run, curve: Curve, question: Question) -> Q:
    """Those from before the newest attempt began that reach past the points which that left of the earlier ones."""
    attempt = (
        Attempt.objects.filter(run=run, number__gt=1, started_at__isnull=False).order_by("-number").first()
    )
    if attempt is None:
        return Q(pk__in=())
    kept = (
        curve.step <= attempt.resumed_from_step
        if attempt.resumed_from_step is not None
        else np.array([], bool)
    )
    last = float(curve.x[: len(kept)][kept].max()) if kept.any() else 0.0
    return Q(created_at__lt=attempt.started_at, fitted_hi__gt=last * (1 + 1e-9))
