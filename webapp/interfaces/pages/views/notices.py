"""The bell: how many notices are unread, the newest of them, the page of all, and marking them as read."""

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache

from webapp.interfaces.pages.access import signed_in
from webapp.reporting.alerts.notices import mark_read
from webapp.reporting.alerts.selectors import notices_of, unread_count

UNDER_THE_BELL = 8
A_PAGE = 50


@never_cache
def notices(request: HttpRequest) -> HttpResponse:
    """Everything that the person was told, newest first."""
    pages = Paginator(notices_of(signed_in(request)), A_PAGE)
    page = pages.get_page(request.GET.get("page"))
    newest = page.object_list[0].pk if page.object_list and page.number == 1 else None
    unread = unread_count(signed_in(request))
    return render(request, "alerts/notices.html", {"page": page, "newest": newest, "unread": unread})


@never_cache
def bell(request: HttpRequest) -> HttpResponse:
    """What opens under the bell."""
    user = signed_in(request)
    rows = list(notices_of(user)[:UNDER_THE_BELL])
    return render(request, "alerts/_bell.html", {"rows": rows, "unread": unread_count(user)})


@never_cache
def unread(request: HttpRequest) -> JsonResponse:
    """{"unread": n}, asked for now and then by an open page."""
    return JsonResponse({"unread": unread_count(signed_in(request))})


def read(request: HttpRequest) -> HttpResponse:
    """Mark one (`notice`) or all up to one (`up_to`) as read; with `next` go on to what it is about. Safe to repeat."""
    user, chosen = signed_in(request), {}
    for name in ("notice", "up_to"):
        text = request.POST.get(name, "")
        if text.isdigit() and len(text) < 19:
            chosen[name] = int(text)
    if chosen:
        mark_read(user, notice_id=chosen.get("notice"), up_to=chosen.get("up_to"))
    target = request.POST.get("next", "")
    if url_has_allowed_host_and_scheme(target, allowed_hosts=None) and target.startswith("/"):
        return redirect(target)
    if getattr(request, "htmx", False):
        rows = list(notices_of(user)[:UNDER_THE_BELL])
        return render(request, "alerts/_bell.html", {"rows": rows, "unread": unread_count(user)})
    return redirect("notices")
