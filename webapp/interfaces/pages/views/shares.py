"""Links that show one chart without an account: making and revoking them, and what they show.

Links that show a published report without an account.
"""

from typing import Any

from csp.decorators import csp_replace
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.clickjacking import xframe_options_exempt

from webapp.base.errors import InvalidInput, NotFound, ServiceError
from webapp.base.formats import whole_in
from webapp.interfaces.pages import report_picker
from webapp.interfaces.pages.access import current_project, signed_in
from webapp.interfaces.pages.answers import WORDS, gone, status_of, unlisted
from webapp.interfaces.pages.forms import ShareForm
from webapp.reporting.reports import selectors
from webapp.reporting.reports.services import create_link
from webapp.reporting.shares import services
from webapp.reporting.shares.drawing import PIXELS, Drawing
from webapp.reporting.shares.models import Share
from webapp.reporting.shares.selectors import drawing_of, share_by_token, shares_of
from webapp.reporting.shares.services import Question, question_of, title_of

DESCRIPTION_LENGTH = 200  # what previews of links show
DAYS = (("30", "for 30 days"), ("7", "for 7 days"), ("365", "for a year"), ("", "until somebody closes it"))


@never_cache
def shares(request: HttpRequest) -> HttpResponse:
    """Every link of the project, and who may close it: any contributor."""
    now = timezone.now()
    rows = [(share, share.state_at(now)) for share in shares_of(current_project(request))]
    return render(request, "shares/list.html", {"rows": rows})


@never_cache
def new_share(request: HttpRequest) -> HttpResponse:
    """A link to the chart that the query asks for. It is shown once, in the answer to its creation."""
    project, kind = current_project(request), request.GET.get("kind", "")
    try:
        question = question_of(project, kind, request.GET)
    except InvalidInput as error:
        return render(request, "shares/new.html", {"problem": error.message}, status=error.status)
    form = ShareForm(request.POST or None, initial={"title": title_of(kind, question)})
    token = _try_create(request, form, kind, question)
    context = {"form": form, "kind": kind, "addresses": _addresses(request, token) if token else None}
    return render(request, "shares/new.html", context, status=422 if form.errors else 200)


def _try_create(request: HttpRequest, form: ShareForm, kind: str, question: Question) -> str | None:
    """The token of a new share, or None with the reason in the form."""
    if request.method != "POST" or not form.is_valid():
        return None
    with form.refusing(InvalidInput):
        return services.create_share(
            user=signed_in(request),
            project=current_project(request),
            kind=kind,
            question=question,
            **form.cleaned_data,
        )
    return None


def _addresses(request: HttpRequest, token: str) -> dict[str, Any]:
    """Absolute addresses of the page, the picture and the frame of a share."""
    names = {"page": "shared", "picture": "shared-picture", "embed": "embed"}
    found = {key: request.build_absolute_uri(reverse(name, args=[token])) for key, name in names.items()}
    return found | dict(zip(("width", "height"), PIXELS, strict=True))


def revoke(request: HttpRequest, share_id: int) -> HttpResponse:
    """Close a link of the current project; closing it again changes nothing."""
    share = get_object_or_404(Share, pk=share_id, project=current_project(request))
    services.revoke_share(share, user=signed_in(request))
    messages.info(request, f"The link “{share.title}” is closed: it shows nothing from now on.")
    return redirect("shares")


def shared(request: HttpRequest, token: str) -> HttpResponse:
    """The chart with its sentences, for whoever has the link."""
    return _show(request, token, "shares/page.html")


@xframe_options_exempt
@csp_replace({"frame-ancestors": settings.EMBED_ANCESTORS})  # type: ignore[arg-type]  # it is typed for no argument
def embed(request: HttpRequest, token: str) -> HttpResponse:
    """The chart alone, which other sites may put into a frame."""
    return _show(request, token, "shares/embed.html")


def picture(request: HttpRequest, token: str) -> HttpResponse:
    """The chart as PNG, for previews of the link."""
    from webapp.reporting.shares.picture import png_of  # with matplotlib, which pages do not need

    share, drawing, why = _find(token)
    if share is None or drawing is None:
        return unlisted(HttpResponse(WORDS[why][0], status=status_of(why), content_type="text/plain"))
    response = HttpResponse(png_of(drawing, share.title), content_type="image/png")
    response["Cache-Control"] = "public, max-age=60"
    return unlisted(response)


def _find(token: str) -> tuple[Share | None, Drawing | None, str]:
    """The share with its chart, or why there is nothing to show: a key of `webapp.interfaces.pages.answers.WORDS`."""
    if (share := share_by_token(token)) is None:
        return None, None, "unknown"
    state = share.state_at(timezone.now())
    if state != "open":
        return share, None, state
    try:
        return share, drawing_of(share), ""
    except NotFound:
        return share, None, "deleted"


def _show(request: HttpRequest, token: str, template: str) -> HttpResponse:
    """Without the request in the context: what is shown is the same for everybody, signed in or not."""
    share, drawing, why = _find(token)
    if share is None or drawing is None:
        return gone(share, why)
    services.note_visit(share)
    context = {
        "share": share,
        "drawing": drawing,
        "payload": drawing.as_json(),
        "description": description_of(drawing),
        "addresses": _addresses(request, token),
        "now": timezone.now(),
    }
    return unlisted(HttpResponse(render_to_string(template, context)))


def description_of(drawing: Drawing) -> str:
    """What a preview says below the title, as much as is shown; what is missing comes before the details."""
    words = " ".join(
        (f"{drawing.heading}.", *drawing.sentences[:1], *drawing.missing, *drawing.sentences[1:])
    )
    return words if len(words) <= DESCRIPTION_LENGTH else f"{words[: DESCRIPTION_LENGTH - 1].rstrip()}…"


@never_cache
def links(request: HttpRequest, report_id: str) -> HttpResponse:
    """The links to a report, and a new one, which is shown once."""
    found = report_picker.get_report(request, report_id)
    token, problem = "", ""
    if request.method == "POST":
        days = request.POST.get("days", "")
        try:
            token = create_link(
                found, user=signed_in(request), days=(whole_in(days, 5) or 0) if days else None
            )
        except ServiceError as error:
            problem = error.message
    now = timezone.now()
    context = {
        "report": found,
        "rows": [(link, link.state_at(now)) for link in selectors.links_of(found)],
        "days": DAYS,
        "problem": problem,
        "published": selectors.publication_of(found) is not None and found.archived_at is None,
        "address": request.build_absolute_uri(reverse("shared-report", args=[token])) if token else "",
    }
    return render(request, "reports/links.html", context, status=422 if problem else 200)


def revoke_report(request: HttpRequest, report_id: str, link_id: int) -> HttpResponse:
    """Close a link; closing it again changes nothing."""
    found = report_picker.get_report(request, report_id)
    link = selectors.links_of(found).filter(pk=link_id).first() if link_id < 2**63 else None
    if link is None:
        raise Http404("no such link")
    services.revoke_share(link, user=signed_in(request))
    messages.info(request, "The link is closed: it shows nothing from now on.")
    return redirect("report-links", found.pk)


def shared_report(request: HttpRequest, token: str) -> HttpResponse:
    """The newest published version, for whoever has the link; the same for everybody, signed in or not."""
    if (link := share_by_token(token, of_report=True)) is None:
        return gone(None, "unknown")
    state = link.state_at(timezone.now())
    if state != "open":
        return gone(link, state)
    report = selectors.report_of_link(link)
    publication = selectors.publication_of(report) if report is not None else None
    if report is None or publication is None or report.archived_at is not None:
        return gone(link, "withdrawn")
    services.note_visit(link)
    version = selectors.published_version(report.project, publication)
    context = {
        "version": version,
        "publication": publication,
        "byline": report_picker.byline(version),
    }
    return unlisted(HttpResponse(render_to_string("reports/shared.html", context)))
