"""ETags of what costs something to put together, made of what it rests on: versions and newest ids, not its text.

A view names these before it reads the rest. A caller that has seen them gets 304 and no body.
"""

import hashlib
import json
from typing import Any

from django.db.models import Count, Max, Sum
from django.http import HttpRequest, HttpResponse
from django.utils.http import parse_etags

from webapp.base.code import code_version
from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Run
from webapp.science.curves.models import Fit
from webapp.science.predictions.models import Outcome, Pending, Prediction, Review, ReviewRequest


class NotModified(Exception):
    """The caller has what there is."""

    def __init__(self, etag: str) -> None:
        super().__init__(etag)
        self.etag = etag


def unless_known(request: HttpRequest, *rests_on: Any) -> None:
    """Give the answer to this request an ETag. Raises NotModified where the caller's If-None-Match names it.

    `rests_on`: what changes whenever the answer does, and can be written as JSON; address, query, project and the code
    that answers count by themselves. It must have been read before what is answered, so that it is never the newer one.
    """
    project = request.auth.project.pk  # type: ignore[attr-defined]
    told = json.dumps([code_version(), project, request.get_full_path(), rests_on], default=str)
    etag = f'W/"{hashlib.sha256(told.encode()).hexdigest()[:32]}"'
    request.etag = etag  # type: ignore[attr-defined]
    if request.method in ("GET", "HEAD") and _names(request.headers.get("If-None-Match", ""), etag):
        raise NotModified(etag)


def mark(request: HttpRequest, response: HttpResponse) -> None:
    """Put the ETag on what was answered."""
    etag = getattr(request, "etag", None)
    if etag and response.status_code in (200, 304):
        response["ETag"] = etag
        response["Cache-Control"] = "private, no-cache"  # kept, and asked for anew each time
        response["Vary"] = "Authorization"


def of_not_modified(error: NotModified) -> HttpResponse:
    return HttpResponse(status=304)


def newest_fit(**which: Any) -> int | None:
    """The newest of these fits: rows of fits are added, and never change."""
    return Fit.objects.filter(**which).order_by("-id").values_list("pk", flat=True).first()


def version_of_runs(project: Project) -> list[Any]:
    """Changes whenever a run of the project comes, goes or changes. One query."""
    found = Run.objects.filter(project=project).aggregate(
        runs=Count("pk"),
        versions=Sum("version"),
        wishes=Count("refit_wanted_at"),
        wished=Max("refit_wanted_at"),
    )
    return list(found.values())


def version_of_predictions(project: Project) -> list[Any]:
    """Changes whenever a prediction, or what is said and came of it, does. Six queries over narrow indexes."""
    claims = Prediction.objects.filter(project=project).aggregate(
        count=Count("pk"), made=Max("created_at"), withdrawn=Max("withdrawn_at"), gone=Count("withdrawn_at")
    )
    around = [
        model.objects.filter(prediction__project=project).aggregate(count=Count("pk"), newest=Max("pk"))
        for model in (Review, ReviewRequest, Outcome)
    ]
    waits = Pending.objects.filter(prediction__project=project).aggregate(Count("pk"), Max("updated_at"))
    return [claims, around, waits, version_of_runs(project)]


def _names(header: str, etag: str) -> bool:
    """Whether If-None-Match names this ETag; `*` names any."""
    known = parse_etags(header)
    return known == ["*"] or etag.removeprefix("W/") in {one.removeprefix("W/") for one in known}
