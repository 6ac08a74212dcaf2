"""The page that an invitation leads to: for who has no account yet, and for who has one. Nobody need be signed in."""

from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from webapp.base.errors import NotFound, ServiceError
from webapp.identity.accounts import invitations
from webapp.identity.accounts.models import Invitation
from webapp.interfaces.pages.access import SESSION_KEY, signed_in
from webapp.interfaces.pages.forms import add_service_error
from webapp.interfaces.pages.team.forms import JoinForm

BACKEND = "django.contrib.auth.backends.ModelBackend"
GONE = 410


@sensitive_post_parameters("password", "again")
@never_cache
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """What the link opens, or why it opens nothing."""
    try:
        found = invitations.find_invitation(token)
    except NotFound as error:
        return _refused(request, error.message, 404)
    why = invitations.why_refused(found, timezone.now())
    if why is not None:
        return _refused(request, why, GONE)
    if request.user.is_authenticated:
        return _join(request, found, token)
    return _register(request, found, token)


def _join(request: HttpRequest, found: Invitation, token: str) -> HttpResponse:
    """Who is signed in becomes a member with a press of a button."""
    if request.method == "POST":
        try:
            project = invitations.accept(token, user=signed_in(request))
        except ServiceError as error:
            return _show(request, found, problem=error.message, status=error.status)
        request.session[SESSION_KEY] = project.slug
        messages.info(request, f"You are {found.role} in {project} now.")
        return redirect("overview")
    return _show(request, found)


def _register(request: HttpRequest, found: Invitation, token: str) -> HttpResponse:
    """Who has no account makes one, and is signed in."""
    form = JoinForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        name, password = form.cleaned_data["username"], form.cleaned_data["password"]
        try:
            user = invitations.accept_as_new(token, username=name, password=password)
        except ServiceError as error:
            add_service_error(form, error.field, error.message)
        else:
            login(request, user, backend=BACKEND)
            request.session[SESSION_KEY] = found.project.slug
            messages.info(request, f"Welcome. You are {found.role} in {found.project}.")
            return redirect("overview")
    sign_in = redirect_to_login(request.path)["Location"]
    return _show(request, found, form=form, sign_in=sign_in, status=422 if form.errors else 200)


def _show(request: HttpRequest, found: Invitation, status: int = 200, **context: object) -> HttpResponse:
    return _unlisted(render(request, "teams/invitation.html", context | {"invitation": found}, status=status))


def _refused(request: HttpRequest, why: str, status: int) -> HttpResponse:
    return _unlisted(render(request, "teams/invitation_refused.html", {"why": why}, status=status))


def _unlisted(response: HttpResponse) -> HttpResponse:
    """The address is the key: for no search engine. (Django's Referrer-Policy names it to no other site.)"""
    response["X-Robots-Tag"] = "noindex"
    return response
