"""Runs and published curves side by side. All of the choice is in the URL."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from webapp.curves.axes import AXES, DEFAULT_AXIS
from webapp.curves.compare import comparison, label_of
from webapp.curves.models import ReferenceFit
from webapp.pages.access import current_project
from webapp.runs.models import Run

MOST = 12  # more curves than that cannot be told apart on one chart
OFFERED = 200  # newest runs in the list of runs to add
VIEWS = {"rate": "Pass rate", "share": "Share of the gain"}


@login_required
@require_GET
def compare(request: HttpRequest) -> HttpResponse:
    """Overlay, table and sentences for `run` and `ref` of the query; without any, how to choose."""
    project = current_project(request)
    wanted = request.GET.getlist("run")[:MOST]
    found = Run.objects.filter(project=project, pk__in=wanted).select_related("revision__recipe").in_bulk()
    runs = [found[pk] for pk in dict.fromkeys(wanted) if pk in found]
    published = list(ReferenceFit.objects.all())
    references = [r for r in published if r.slug in request.GET.getlist("ref")]
    x = request.GET.get("x", "")
    view = request.GET.get("view", "")
    payload = comparison(
        runs, references, x=x if x in AXES else DEFAULT_AXIS, view=view if view in VIEWS else "rate"
    )
    context = {
        "runs": runs,
        "references": references,
        "left_out": len(wanted) - len(runs),
        "other_runs": _offered(project, runs),
        "other_references": [r for r in published if r not in references],
        "payload": payload,
        "table": [
            row | {"series": index, "hollow": row["kind"] == "published"}
            for index, row in enumerate(payload["table"])
        ],
        "axes": AXES,
        "views": VIEWS,
    }
    return render(request, "compare.html", context)


def _offered(project, chosen: list[Run]) -> list[tuple[str, str]]:
    """(id, label) of the newest runs that are not chosen yet."""
    newest = Run.objects.filter(project=project).exclude(pk__in=[run.pk for run in chosen])
    return [(run.pk, f"{label_of(run)} ({run.pk})") for run in newest.only("name", "seed")[:OFFERED]]
