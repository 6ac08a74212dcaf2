"""Signing in and out, the current project, API tokens."""

from typing import Any

from django.contrib import messages
from django.contrib.auth import views as auth_views
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from webapp.accounts.models import ApiToken
from webapp.accounts.services import create_token
from webapp.accounts.services import revoke_token as revoke
from webapp.pages.access import SESSION_KEY, current_project, projects_of, signed_in
from webapp.pages.forms import SignInForm, TokenForm


class SignIn(auth_views.LoginView):
    """Django's own sign-in with our template; who is signed in already goes on to the runs."""

    template_name = "sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True


class SignOut(auth_views.LogoutView):
    """POST only, as Django has it."""


def locked_out(request: HttpRequest, credentials: dict[str, Any] | None) -> HttpResponse:
    """django-axes' answer after too many wrong passwords: the same page, saying when to try again."""
    from axes.helpers import get_cool_off

    wait = get_cool_off(request)
    context = {
        "form": SignInForm(request),
        "locked_out": True,
        "cooloff_minutes": round(wait.total_seconds() / 60) if wait else 0,
    }
    return render(request, "sign_in.html", context, status=429)


@login_required
@require_POST
def choose_project(request: HttpRequest) -> HttpResponse:
    """Work in another of the user's projects from now on."""
    chosen = request.POST.get("project")
    if chosen not in {project.slug for project in projects_of(request)}:
        raise Http404("no such project")
    request.session[SESSION_KEY] = chosen
    return redirect("runs")


@login_required
@never_cache
@require_http_methods(["GET", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """The user's tokens. A new one is shown once, in the answer to its creation, and nowhere else."""
    project, user = current_project(request), signed_in(request)
    form = TokenForm(request.POST or None)
    raw = None
    if request.method == "POST" and form.is_valid():
        raw = create_token(user=user, project=project, scope=form.cleaned_data["scope"])
    rows = ApiToken.objects.filter(user=user, project=project, run=None).order_by("revoked_at", "-created_at")
    return render(
        request, "tokens.html", {"form": form, "raw": raw, "tokens": rows, "base_url": _base(request)}
    )


def _base(request: HttpRequest) -> str:
    return request.build_absolute_uri("/").rstrip("/")


@login_required
@require_POST
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    """Revoke one of the user's own tokens; revoking it again changes nothing."""
    token = get_object_or_404(ApiToken, pk=token_id, user=signed_in(request), run=None)
    revoke(token)
    messages.info(request, "The token is revoked: requests with it are refused from now on.")
    return redirect("tokens")
