"""Reading stored fits."""

from collections.abc import Iterable

from django.db.models import OuterRef, QuerySet, Subquery

from webapp.curves.axes import DEFAULT_AXIS, DEFAULT_METRIC
from webapp.curves.models import Fit
from webapp.runs.models import Run


def stored_fits(run: Run) -> QuerySet[Fit]:
    """All fits of a run, newest first."""
    return Fit.objects.filter(run=run).order_by("-id")


def latest_fits(run_ids: Iterable[str], *, x: str = DEFAULT_AXIS) -> dict[str, Fit]:
    """Of each run the newest fit of its whole curve (no cutoff, whole window), in one query.

    Reads one index entry a run: a long run has a fit for each of its evaluations.
    """
    whole = Fit.objects.filter(
        run=OuterRef("pk"), metric=DEFAULT_METRIC, x=x, cutoff=None, window_lo=None, form="sigmoid"
    )
    newest = Subquery(whole.order_by("-id").values("pk")[:1])
    chosen = Run.objects.filter(pk__in=list(run_ids)).annotate(newest=newest).order_by().values("newest")
    return {fit.run_id: fit for fit in Fit.objects.filter(pk__in=chosen)}
