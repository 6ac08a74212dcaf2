"""The form that writes a block: which chart, table or number, of what.

The text that an empty list of reports offers to begin with.

A version of a report as its page, its link and its files show it.
"""

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.utils import timezone

from webapp.base.errors import InvalidInput
from webapp.base.formats import whole_in
from webapp.identity.accounts.models import Project
from webapp.identity.accounts.permissions import Permission
from webapp.interfaces.pages.access import allow, current_project, granted
from webapp.record.recipes.models import Revision
from webapp.record.runs.bounds import label_of
from webapp.record.runs.models import Run
from webapp.reporting.reports import resolve, selectors
from webapp.reporting.reports.document import text_of
from webapp.reporting.reports.models import Publication, Report
from webapp.reporting.reports.selectors import Version, ask_of
from webapp.science.decisions.selectors import decisions_of
from webapp.science.predictions.claims import in_a_line
from webapp.science.predictions.models import Prediction

OFFERED = 200
CHOICES = (
    ("chart run", "Chart of a run"),
    ("chart compare", "Chart of several runs or recipes"),
    ("number ceiling", "A of Eq. 1 of a run"),
    ("number pass_rate", "Newest pass rate of a run"),
    ("number forecast", "Forecast at the budget of a run"),
    ("number compute", "Compute that a run used"),
    ("table parameters", "Table: parameters of runs"),
    ("table leaderboard", "Table: leaderboard"),
    ("prediction", "A prediction"),
    ("decision", "A decision"),
)
OF_ONE_RUN = ("chart run", "number ceiling", "number pass_rate", "number forecast", "number compute")
OF_RUNS = ("chart compare", "table parameters")
TITLE = "Where this recipe tops out"
BEFORE = """## What we asked

Does the recipe still gain, and where does its curve bend? Write the answer first, then the evidence.

"""
AFTER = """

## What we read from it

- The **ceiling** comes with its interval, or it is said not to be identified.
- What lies beyond the last evaluation is an extrapolation.

| Choice | Kept | Why |
|---|---|---|
| Loss | yes | the ceilings tie, the curve climbs faster |
| Batch | no | nothing gained |

> Numbers in the blocks are read from the runs: nobody types them.
"""


def offered(project: Project) -> dict[str, Any]:
    """What the form's lists have. Five queries."""
    runs = Run.objects.filter(project=project, archived_at=None).only("name", "seed", "task")
    newest = Revision.objects.filter(recipe__project=project, runs__isnull=False).order_by(
        "recipe_id", "-number"
    )
    revisions = newest.distinct("recipe_id", "number").defer("config").select_related("recipe")[:OFFERED]
    predictions = Prediction.objects.filter(project=project).select_related(
        "rival__revision__recipe", "author"
    )
    return {
        "choices": CHOICES,
        "of_one": " ".join(name.replace(" ", "-") for name in OF_ONE_RUN),
        "runs": [(run.pk, label_of(run), run.task) for run in runs.order_by("-created_at", "id")[:OFFERED]],
        "recipes": [(f"{one.recipe.slug}@{one.number}", str(one)) for one in revisions],
        "predictions": [(one.pk, f"{in_a_line(one)}, by {one.author.username}")
                        for one in predictions.order_by("-created_at")[:OFFERED]],
        "decisions": [(one.pk, f"{one.get_kind_display()} {one.name}, by {one.decided_by.username}")
                      for one in decisions_of(project).defer("state", "reason")[:OFFERED]],
    }  # fmt: skip


def block_of(project: Project, query: Mapping[str, Any]) -> str:
    """The text of the block that the form asks for, if it can be shown. Raises InvalidInput with the reason."""
    what = query.get("what", "")
    if what not in dict(CHOICES):
        raise InvalidInput("what", "Choose what to show.")
    kind, _, which = what.partition(" ")
    fields = {kind: which or query.get(kind, "")}
    if what in OF_ONE_RUN:
        fields["run"] = query.get("run", "")
    if what in OF_RUNS:
        fields["runs"] = ", ".join(query.getlist("runs"))  # type: ignore[attr-defined]
    if what == "chart compare":
        fields["recipes"] = ", ".join(query.getlist("recipes"))  # type: ignore[attr-defined]
        fields["by"] = "recipe" if fields["recipes"] else ""
    for key in ("cutoff", "x") if what == "chart run" else ():
        fields[key] = query.get(key, "")
    text = text_of(fields | {"caption": query.get("caption", "")[:300]})
    if (ask := ask_of(text)) is None:
        raise InvalidInput("what", "Choose what to show, and of which run.")
    shown = resolve.shown(project, ask)
    if shown["kind"] == "problem":
        raise InvalidInput("what", shown["reason"][:1].upper() + shown["reason"][1:])
    return text


def example(project: Project) -> str:
    """The example about the project's newest fitted run; without a run its blocks say what to put in."""
    runs = Run.objects.filter(project=project, archived_at=None)
    run = (
        runs.filter(fits__isnull=False).order_by("-created_at").first()
        or runs.order_by("-created_at").first()
    )
    key = run.pk if run else "ID-OF-A-RUN"
    blocks = [
        text_of({"number": "ceiling", "run": key}),
        text_of({"chart": "run", "run": key, "caption": "The curve so far."}),
    ]
    return BEFORE + "\n\n".join(blocks) + AFTER


def get_report(request: HttpRequest, key: str) -> Report:
    """A report of the current project. Raises NotFound."""
    return selectors.report_by_id(current_project(request), key)


def asked_publication(request: HttpRequest, report: Report) -> Publication | None:
    """The version that the query names, else the newest; None where none is published. Http404 for one there is not."""
    if not (wanted := request.GET.get("version", "")):
        return selectors.publication_of(report)
    number = whole_in(wanted)
    found = selectors.publication_of(report, number) if number is not None else None
    if found is None:
        raise Http404(f"There is no version {wanted[:12]}.")
    return found


def asked_version(request: HttpRequest, report: Report) -> Version:
    """What a file shows: ?version=N, ?as=published or live, or ?draft=1 for those who may write."""
    if request.GET.get("draft") == "1":
        try:
            allow(request, report.project, Permission.CONTRIBUTE)
        except PermissionDenied:
            raise Http404("no such draft") from None
        return selectors.draft_version(report.project, report.title, report.text)
    if (publication := asked_publication(request, report)) is None:
        raise Http404("nothing is published")
    return selectors.published_version(report.project, publication, live=asked_live(request))


def asked_live(request: HttpRequest) -> bool | None:
    """?as=live or ?as=published; None for what the author chose."""
    return {"live": True, "published": False}.get(request.GET.get("as", ""))


def may_write(request: HttpRequest) -> bool:
    return Permission.CONTRIBUTE in granted(request)


def byline(version: Version) -> list[str]:
    """Who wrote it and when it was published, and of when its numbers are."""
    now = timezone.now()
    if version.publication is None:
        return [f"A draft. Numbers as of {now:%-d %B %Y, %H:%M} UTC."]
    made = version.publication
    authors = ", ".join(made.authors)
    lines = [f"Version {made.number}, published {made.published_at:%-d %B %Y} by {authors}."]
    if version.is_frozen:
        return [*lines, f"Numbers as of its publication, {made.published_at:%-d %B %Y, %H:%M} UTC."]
    return [*lines, f"Numbers as of {now:%-d %B %Y, %H:%M} UTC."]
