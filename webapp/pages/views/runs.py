"""The list of runs."""

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from webapp.pages.access import current_project
from webapp.pages.fragments import page_or_fragment
from webapp.pages.rows import rows_of, shared_scale
from webapp.recipes.models import Recipe
from webapp.runs.models import State
from webapp.runs.selectors import RunFilters, runs_of
from webapp.runs.states import ENDED

PAGE_SIZE = 50
STATE_GROUPS = {"unfinished": [s for s in State if s not in ENDED], "ended": list(ENDED)} | {
    s: [s] for s in State
}


@login_required
@require_GET
def runs(request: HttpRequest) -> HttpResponse:
    """The list; asked by htmx, the table alone (filter, paging, refresh every 3 s while a run is unfinished)."""
    project = current_project(request)
    found = runs_of(project, _filters(request))
    page = Paginator(found, PAGE_SIZE).get_page(request.GET.get("page"))
    rows = rows_of(list(page.object_list))
    context = {
        "page": page,
        "rows": rows,
        "scale": shared_scale([row.ceiling for row in rows]),
        "live": any(row.run.state not in ENDED for row in rows),
        "filtered": any(request.GET.get(name) for name in ("q", "state", "recipe", "alarm")),
    }
    choices = {
        "recipes": Recipe.objects.filter(project=project),
        "states": State.choices,
    }  # read where rendered
    return page_or_fragment(request, "runs/list.html", "runs/_table.html", context | choices)


def _filters(request: HttpRequest) -> RunFilters:
    query = request.GET
    states = STATE_GROUPS.get(query.get("state", ""), [])
    alarm = query.get("alarm", "")
    return RunFilters(
        states=states,
        recipe=query.get("recipe", ""),
        q=query.get("q", "").strip(),
        alarm=alarm if alarm in ("active", "any") else "",
    )
