"""One's own account: name, password, second factor, where one is signed in, linked identities."""

from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import User
from webapp.identity.signin import codes, passwords, sessions, two_factor
from webapp.identity.signin.devices import device_words
from webapp.identity.signin.models import Identity
from webapp.identity.signin.oidc import people
from webapp.identity.signin.oidc.configuration import configuration
from webapp.interfaces.pages.access import signed_in
from webapp.interfaces.pages.profile.forms import (
    ChangePasswordForm,
    EnrolForm,
    OwnPasswordForm,
    ProfileForm,
    SecondFactorForm,
)
from webapp.interfaces.pages.views.signin import LINK_WANTED

PENDING_KEY = "two_factor_key"


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
    form = ProfileForm(request, user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        passwords.change_profile(user, **{name: form.cleaned_data[name] for name in passwords.PROFILE})
        messages.success(request, "Your account is changed.")
        return redirect("profile")
    openid = configuration()
    identities = list(Identity.objects.filter(user=user).order_by("pk"))
    context = {
        "form": form,
        "has_password": user.has_usable_password(),
        "two_factor_since": two_factor.enabled_at(user),
        "codes_left": two_factor.codes_left(user),
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
    form = ChangePasswordForm(request, user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        passwords.change_password(request, user, form.cleaned_data["new"])
        messages.success(request, "The password is changed, and you are signed out everywhere else.")
        return redirect("profile")
    return _render(request, "password", {"form": form}, wrong=request.method == "POST")


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def enrol(request: HttpRequest) -> HttpResponse:
    """Turn two-factor on: a key to scan or type, kept in the session until the app's code proves that it arrived."""
    user = signed_in(request)
    if two_factor.has_two_factor(user):
        return redirect("profile")
    key = bytes.fromhex(request.session.setdefault(PENDING_KEY, codes.new_key().hex()))
    form = EnrolForm(request, user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            fresh = two_factor.enrol(user, key=key, code=form.cleaned_data["code"])
        except InvalidInput as error:
            form.add_error("code", error.message)
        except Conflict:
            return redirect("profile")
        else:
            del request.session[PENDING_KEY]
            sessions.end_others(user, keep=request.session.session_key)
            return _codes(request, fresh, "Two-factor sign-in is on.")
    uri = codes.key_uri(key, user.get_username())
    context = {"form": form, "picture": codes.picture(uri), "key": codes.key_text(key)}
    return _render(request, "enrol", context, wrong=request.method == "POST")


def _codes(request: HttpRequest, fresh: list[str], words: str) -> HttpResponse:
    """The recovery codes: in this answer, and nowhere else."""
    context = {"codes": fresh, "text": "\n".join(fresh), "words": words, "made": timezone.now()}
    return _render(request, "codes", context)


def _both_factors(request: HttpRequest, user: User) -> SecondFactorForm | None:
    """The filled form; None where both factors were right."""
    form = SecondFactorForm(request, user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            if two_factor.check(user, form.cleaned_data["code"]):
                return None
            form.add_error("code", two_factor.WRONG)
        except two_factor.TooSoon as error:
            form.add_error("code", str(error))
    return form


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def two_factor_off(request: HttpRequest) -> HttpResponse:
    """Turn two-factor off, with both factors."""
    user = signed_in(request)
    form = _both_factors(request, user)
    if form is None:
        two_factor.turn_off(user, actor=user)
        sessions.end_others(user, keep=request.session.session_key)
        messages.success(request, "Two-factor sign-in is off.")
        return redirect("profile")
    since: datetime | None = two_factor.enabled_at(user)
    if since is None:
        return redirect("profile")
    return _render(request, "two_factor_off", {"form": form}, wrong=request.method == "POST")


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def recovery_codes(request: HttpRequest) -> HttpResponse:
    """Ten new recovery codes, with both factors."""
    user = signed_in(request)
    if not two_factor.has_two_factor(user):
        return redirect("two-factor")
    form = _both_factors(request, user)
    if form is None:
        fresh = two_factor.renew_recovery_codes(user)
        return _codes(request, fresh, "The codes before these work no more.")
    return _render(request, "new_codes", {"form": form}, wrong=request.method == "POST")


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def link_identity(request: HttpRequest) -> HttpResponse:
    """Link an identity of the provider: the password first, then a link to the provider (whose address no form of ours
    may lead to: the pages' policy)."""
    openid, user = configuration(), signed_in(request)
    if openid is None:
        raise Http404("no provider is configured")
    form = OwnPasswordForm(request, user, request.POST if request.method == "POST" else None)
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
