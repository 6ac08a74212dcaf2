"""One's own account: name, password, where one is signed in, linked identities. Second factors: `allauth.mfa`."""

from typing import Any

from allauth.mfa.models import Authenticator
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from webapp.base.errors import Conflict
from webapp.identity.accounts.models import User
from webapp.identity.signin import passwords, second_factor, sessions
from webapp.identity.signin.devices import device_words
from webapp.identity.signin.forms import OwnPasswordForm
from webapp.identity.signin.models import Identity
from webapp.identity.signin.oidc import people
from webapp.identity.signin.oidc.configuration import configuration
from webapp.interfaces.pages.access import signed_in
from webapp.interfaces.pages.profile.forms import ChangePasswordForm, ProfileForm
from webapp.interfaces.pages.views.signin import LINK_WANTED


def _render(
    request: HttpRequest, template: str, context: dict[str, Any], *, wrong: bool = False
) -> HttpResponse:
    return render(request, f"profile/{template}.html", context, status=422 if wrong else 200)


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def profile(request: HttpRequest) -> HttpResponse:
    """The account page; a POST changes name and mail address."""
    user = signed_in(request)
    form = ProfileForm(request.POST or None, user=user)
    if request.method == "POST" and form.is_valid():
        passwords.change_profile(user, **{name: form.cleaned_data[name] for name in passwords.PROFILE})
        messages.success(request, "Your account is changed.")
        return redirect("profile")
    openid, factors = configuration(), list(Authenticator.objects.filter(user=user).order_by("pk"))
    identities = list(Identity.objects.filter(user=user).order_by("pk"))
    context = {
        "form": form,
        "has_password": user.has_usable_password(),
        "app": next((one for one in factors if one.type == Authenticator.Type.TOTP), None),
        "passkeys": [one for one in factors if one.type == Authenticator.Type.WEBAUTHN],
        "codes_left": second_factor.codes_left(user),
        "sessions": _session_rows(request, user),
        "identities": identities,
        "openid": openid.name if openid else None,
    }
    return _render(request, "page", context, wrong=request.method == "POST")


def _session_rows(request: HttpRequest, user: User) -> list[dict[str, Any]]:
    here = request.session.session_key
    return [
        {"one": one, "device": device_words(one.agent), "here": one.session_id == here}
        for one in sessions.sessions_of(user)
    ]


@require_POST
def end_other_sessions(request: HttpRequest) -> HttpResponse:
    """Sign out everywhere but here."""
    ended = sessions.end_others(signed_in(request), keep=request.session.session_key)
    messages.success(request, f"{ended} other session{'' if ended == 1 else 's'} ended.")
    return redirect("profile")


@require_POST
def end_session(request: HttpRequest, session_id: int) -> HttpResponse:
    """Sign out one device; one that is signed out already stays so."""
    mine = [one for one in sessions.sessions_of(signed_in(request)) if one.pk == session_id]
    sessions.end(mine)
    messages.success(request, "That device is signed out.")
    return redirect("profile")


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def change_password(request: HttpRequest) -> HttpResponse:
    """A new password, for who knows the present one."""
    user = signed_in(request)
    if not user.has_usable_password():
        return _render(request, "password", {"form": None})
    form = ChangePasswordForm(request.POST or None, user=user)
    if request.method == "POST" and form.is_valid():
        passwords.change_password(request, user, form.cleaned_data["new"])
        messages.success(request, "The password is changed, and you are signed out everywhere else.")
        return redirect("profile")
    return _render(request, "password", {"form": form}, wrong=request.method == "POST")


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def link_identity(request: HttpRequest) -> HttpResponse:
    """Link an identity of the provider: the password first, then a link to the provider (whose address no form of ours
    may lead to: the pages' policy)."""
    openid, user = configuration(), signed_in(request)
    if openid is None:
        raise Http404("no provider is configured")
    form = OwnPasswordForm(request.POST if request.method == "POST" else None, user=user)
    if request.method == "POST" and form.is_valid():
        request.session[LINK_WANTED] = user.pk
        return _render(request, "link", {"openid": openid.name, "ready": True})
    return _render(request, "link", {"openid": openid.name, "form": form}, wrong=request.method == "POST")


@require_POST
def unlink_identity(request: HttpRequest, identity_id: int) -> HttpResponse:
    """The identity signs in no more."""
    user = signed_in(request)
    try:
        people.unlink(user, get_object_or_404(Identity, pk=identity_id, user=user))
    except Conflict as error:
        messages.error(request, error.message)
    else:
        messages.success(request, "It is unlinked.")
    return redirect("profile")
