"""Addresses whose views have mistakes, beside the real ones: what the doors make of them."""

from django.http import HttpResponse
from django.urls import include, path

from webapp.base.errors import Forbidden, NotFound
from webapp.identity.accounts.models import Role
from webapp.identity.accounts.permissions import Permission, refusal


def tells_all(request):
    return HttpResponse("secret")


def refusing(request):
    raise Forbidden(refusal(Role.VIEWER, Permission.LAUNCH))


def hiding(request):
    raise NotFound("There is no such thing.")


urlpatterns = [
    path("unlisted", tells_all, name="unlisted"),
    path("forgetful", tells_all, name="overview"),
    path("refusing", refusing, name="recipes"),
    path("hiding", hiding, name="runs"),
    path("", include("webapp.interfaces.pages.urls")),
]
