"""How the installation is: what is wrong in words, and the figures behind it."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache

from webapp.identity.accounts.permissions import Permission
from webapp.interfaces.pages.access import current_project, granted
from webapp.interfaces.pages.fragments import page_or_fragment
from webapp.interfaces.pages.overview import queued
from webapp.reporting.status.payloads import status_payload
from webapp.reporting.status.status import status_now


@never_cache
def status(request: HttpRequest) -> HttpResponse:
    """The page; to htmx, every few seconds, what changes on it. Names of machines are for admins."""
    project = current_project(request)
    is_admin = Permission.ADMIN in granted(request)
    context = {"status": status_payload(status_now(), is_admin=is_admin), "is_admin": is_admin}
    context |= queued(project)
    return page_or_fragment(request, "status/page.html", "status/_status.html", context)
