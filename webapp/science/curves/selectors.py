"""Reading stored fits.

Ceilings of Eq. 1 that became identified: the first fit of a run's whole curve since which every fit has pinned A.

Stored and published fits as the API and pages show them.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from webapp.base.compiled import rows_of
from webapp.base.formats import utc
from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Run
from webapp.science.curves.fitting import read, stored
from webapp.science.curves.models import Fit, ReferenceFit
from webapp.science.curves.record.recalibrating import Record
from webapp.science.curves.words import DEFAULT_AXIS, DEFAULT_METRIC

_HALFWAY = """
SELECT f.run_id, f.id FROM unnest(%(runs)s::text[], %(limits)s::float8[]) AS wanted(run_id, most)
JOIN LATERAL (
    SELECT one.run_id, one.id FROM curves_fit AS one
    WHERE one.run_id = wanted.run_id AND one.metric = %(metric)s AND one.x = %(x)s AND one.form = 'sigmoid'
        AND one.cutoff IS NULL AND one.window_lo IS NULL AND one.fitted_hi <= wanted.most AND NOT one.superseded
    ORDER BY one.fitted_hi DESC, one.id DESC LIMIT 1
) AS f ON true
"""
WHOLE_CURVE: dict[str, Any] = {
    "metric": DEFAULT_METRIC,
    "x": DEFAULT_AXIS,
    "form": "sigmoid",
    "cutoff": None,
    "window_lo": None,
    "superseded": False,
}


def stored_fits(run: Run) -> QuerySet[Fit]:
    """All fits of a run, newest first."""
    return Fit.objects.filter(run=run).order_by("-id")


def latest_ids(run_ids: Iterable[str], x: str = DEFAULT_AXIS) -> dict[str, int]:
    """Run -> the row of the newest fit of its whole curve (no cutoff, whole window). One query that reads one index
    entry a run: a long run has a fit for each of its evaluations."""
    whole = Fit.objects.filter(run=OuterRef("pk"), **WHOLE_CURVE | {"x": x}).order_by("-id")
    runs = Run.objects.filter(pk__in=list(run_ids)).annotate(newest=Subquery(whole.values("pk")[:1]))
    return dict(runs.order_by().exclude(newest=None).values_list("pk", "newest"))


def run_totals(runs: Sequence[Run]) -> dict[tuple, int]:
    """(task, model, revision or name) -> how many runs the project has of it, for those of `runs`. One query."""
    if not (revisions := {run.revision_id for run in runs if run.revision_id}):
        return {}
    counted = Run.objects.filter(project__in={run.project_id for run in runs}, revision__in=revisions)
    rows = counted.order_by().values_list("task", "model", "revision").annotate(count=Count("pk"))
    return {(task, model, revision): count for task, model, revision, count in rows}


def halfway_ids(limits: Mapping[str, float]) -> dict[str, int]:
    """Run -> the newest of its stored fits that had seen no more compute than its limit. One query.

    Reads the whole-curve fits of these runs by their index, nothing of other runs.
    """
    if not limits:
        return {}
    asked: dict[str, Any] = {
        "runs": list(limits),
        "limits": list(limits.values()),
        "metric": DEFAULT_METRIC,
        "x": DEFAULT_AXIS,
    }
    return dict(rows_of(_HALFWAY, asked))


def newly_identified(project: Project, since: datetime, most: int = 20) -> Sequence[Fit]:
    """Of each run whose ceiling has been identified without a break since `since` or later, the fit with which that
    began (its `fitted_hi` is the compute, in device-hours); the newest first, with their runs. One query.
    """
    whole = Fit.objects.filter(**WHOLE_CURVE)
    last_open = whole.filter(run=OuterRef("run")).exclude(status="ok").order_by("-id").values("id")[:1]
    first = (
        whole.filter(run__project=project, status="ok")
        .filter(Q(run__ended_at=None) | Q(run__ended_at__gte=since))
        .annotate(last_open=Coalesce(Subquery(last_open), 0))
        .filter(id__gt=F("last_open"))
        .order_by("run_id", "id")
        .distinct("run_id")
        .values("id")
    )
    began = Fit.objects.filter(pk__in=first, created_at__gte=since).select_related("run__revision__recipe")
    return list(began.defer("run__config", "run__revision__config").order_by("-created_at")[:most])


CSV_COLUMNS = (
    "id", "run", "metric", "x", "form", "method", "status", "message", "level", "window_lo", "cutoff",
    "R0", "A", "A_lo", "A_hi", "B", "B_lo", "B_hi", "C_mid", "C_mid_lo", "C_mid_hi",
    "sse", "r2", "n", "fitted_lo", "fitted_hi", "data_digest", "superseded", "created_at", "forecast_status",
    "forecast_ceiling", "forecast_lo", "forecast_hi",
)  # fmt: skip


def fit_payload(fit: Fit, record: Record) -> dict[str, Any]:
    """A stored fit. A that is not identified is null in `params`, its lower bound is in `intervals`. `record`: of its
    project, by which intervals of the forecast are recalibrated."""
    params = dict(fit.params) if fit.params else None
    if params is not None and fit.status != "ok":
        params["A"] = None
    return {
        "id": fit.pk,
        "run": fit.run_id,
        "metric": fit.metric,
        "x": fit.x,
        "form": fit.form,
        "method": fit.method,
        "status": fit.status,
        "message": fit.message,
        "level": fit.level,
        "window": {"lo": fit.window_lo, "cutoff": fit.cutoff},
        "fitted": [fit.fitted_lo, fit.fitted_hi],
        "params": params,
        "intervals": fit.intervals,
        "sse": fit.sse,
        "r2": fit.r2,
        "n": fit.n,
        "data_digest": fit.data_digest,
        "superseded": fit.superseded,
        "created_at": utc(fit.created_at),
        "forecast": forecast_payload(fit, record),
    }


def forecast_payload(fit: Fit, record: Record) -> dict[str, Any] | None:
    """The forecast from the same points; None where none is stored yet."""
    if (found := read(fit.forecast)) is None:
        return None
    found = record.recalibrated(found, fit.run_id)
    return stored(found) | {
        "multiples": {
            f"{times}": {"compute": c, "value": y, "interval": [lo, hi]}
            for times, c, y, lo, hi in found.multiples()
        }
        or None,
        "recalibrated_by": found.widening,
    }


def fit_row(fit: Fit, record: Record) -> list[Any]:
    """The same as one CSV row in the order of CSV_COLUMNS."""
    payload = fit_payload(fit, record)
    flat = payload | {
        "window_lo": fit.window_lo,
        "cutoff": fit.cutoff,
        "fitted_lo": fit.fitted_lo,
        "fitted_hi": fit.fitted_hi,
    }
    flat |= payload["params"] or {}
    for name, ends in (payload["intervals"] or {}).items():
        flat[f"{name}_lo"], flat[f"{name}_hi"] = ends
    if forecast := payload["forecast"]:
        flat |= {"forecast_status": forecast["status"], "forecast_ceiling": forecast["ceiling"]}
        flat["forecast_lo"], flat["forecast_hi"] = forecast["interval"] or (None, None)
    return [flat.get(column) for column in CSV_COLUMNS]


def published_ceiling(reference: ReferenceFit) -> dict:
    """The ceiling of a published curve, with the margin that its authors work with."""
    lo, hi = reference.a - reference.margin, reference.a + reference.margin
    return {
        "identified": True, "value": reference.a, "lo": lo, "hi": hi, "text": f"{reference.a:.3f}",
        "interval_text": f"published, margin ± {reference.margin:g}",
    }  # fmt: skip
