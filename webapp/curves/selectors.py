"""Reading stored fits."""

from collections.abc import Iterable

from django.db.models import QuerySet

from webapp.curves.axes import DEFAULT_AXIS, DEFAULT_METRIC
from webapp.curves.models import Fit
from webapp.runs.models import Run


def stored_fits(run: Run) -> QuerySet[Fit]:
    """All fits of a run, newest first."""
    return Fit.objects.filter(run=run).order_by("-id")


def latest_fits(run_ids: Iterable[str], *, x: str = DEFAULT_AXIS) -> dict[str, Fit]:
    """Of each run the newest fit of its whole curve (no cutoff, whole window), in one query."""
    rows = (
        Fit.objects.filter(
            run_id__in=list(run_ids), metric=DEFAULT_METRIC, x=x, cutoff=None, window_lo=None, form="sigmoid"
        )
        .order_by("run_id", "-id")
        .distinct("run_id")
    )
    return {fit.run_id: fit for fit in rows}
