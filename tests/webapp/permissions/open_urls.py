"""Addresses whose views have mistakes, beside the real ones: what the rules of routes make of them."""

from django.http import HttpResponse
from django.urls import include, path

from webapp.base.errors import Forbidden, NotFound
from webapp.identity.accounts.models import Role
from webapp.identity.accounts.permissions import Permission, refusal
from webapp.interfaces.routes import VIEW, Need, route


def tells_all(request):
    return HttpResponse("secret")


def refusing(request):
    raise Forbidden(refusal(Role.VIEWER, Permission.LAUNCH))


def hiding(request):
    raise NotFound("There is no such thing.")


urlpatterns = [
    path("unlisted", tells_all, name="unlisted"),
    route("forgetful", tells_all, "forgetful", Need(VIEW)),
    route("refusing", refusing, "refusing", Need(VIEW)),
    route("hiding", hiding, "hiding", Need(VIEW)),
    path("", include("webapp.interfaces.pages.urls")),
]
