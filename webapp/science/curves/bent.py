"""Ceilings of Eq. 1 that became identified: the first fit of a run's whole curve since which every fit has pinned A."""

from collections.abc import Sequence
from datetime import datetime

from django.db.models import F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce

from webapp.identity.accounts.models import Project
from webapp.science.curves.axes import DEFAULT_AXIS, DEFAULT_METRIC
from webapp.science.curves.models import Fit

WHOLE_CURVE = {
    "metric": DEFAULT_METRIC,
    "x": DEFAULT_AXIS,
    "form": "sigmoid",
    "cutoff": None,
    "window_lo": None,
    "superseded": False,
}


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
