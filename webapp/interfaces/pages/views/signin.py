"""Signing in: a password, a link for a new one, OpenID Connect. What comes after them is django-allauth's.

One's own account: name, password, where one is signed in, linked identities. Second factors: `allauth.mfa`.

The page that an invitation leads to: for who has no account yet, and for who has one. Nobody need be signed in.
"""

from typing import Any, cast

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth import views as auth_views
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render, resolve_url
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from webapp.base.errors import Conflict, NotFound, ServiceError
from webapp.identity.accounts import invitations
from webapp.identity.accounts.log import record_refusal
from webapp.identity.accounts.models import Invitation, User
from webapp.identity.signin import adapters, forms, openid_flow, passwords, sessions
from webapp.identity.signin.forms import OwnPasswordForm
from webapp.identity.signin.models import Identity
from webapp.identity.signin.openid_provider import (
    Configuration,
    NotAccepted,
    ProviderFailed,
    configuration,
)
from webapp.identity.signin.sessions import device_words
from webapp.interfaces.pages.access import SESSION_KEY, signed_in
from webapp.interfaces.pages.answers import telling, unlisted
from webapp.interfaces.pages.forms import (
    ChangePasswordForm,
    ForgottenForm,
    NewPasswordForm,
    ProfileForm,
    SignInForm,
)
from webapp.interfaces.pages.team_forms import JoinForm

LINK_WANTED = "openid_link_wanted"
BACKEND = "django.contrib.auth.backends.ModelBackend"
GONE = 410


def _around() -> dict[str, Any]:
    """What the sign-in page offers besides the password."""
    openid = configuration()
    return {"openid": openid.name if openid else None, "can_mail": passwords.mail_configured()}


class SignIn(auth_views.LoginView):
    """Django's own sign-in, up to the second factor; who is signed in already goes on."""

    template_name = "sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        adapters.leave(request)
        return super().get(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        user = cast(User, form.get_user())
        return adapters.enter(self.request, user, next_url=self.get_success_url())

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | _around()


def locked_out(request: HttpRequest, credentials: dict[str, Any] | None) -> HttpResponse:
    """django-axes' answer after too many wrong passwords or codes: the same page, saying when to try again."""
    minutes = round(settings.AXES_COOLOFF_TIME * 60)
    context = {"form": SignInForm(request), "locked_out": True, "cooloff_minutes": minutes}
    return render(request, "sign_in.html", context | _around(), status=429)


@never_cache
def forgot_password(request: HttpRequest) -> HttpResponse:
    """Ask for a link by mail. The answer is the same whether somebody has the address or not."""
    form = ForgottenForm(request.POST or None)
    sent = False
    if request.method == "POST" and passwords.mail_configured() and form.is_valid():
        passwords.mail_links(form.cleaned_data["email"])
        sent = True
    return render(request, "signin/forgot.html", {"form": form, "sent": sent} | _around())


@method_decorator(sensitive_post_parameters(), name="dispatch")
class SetPassword(auth_views.PasswordResetConfirmView):
    """A new password by a link that works once; Django keeps the link out of the page's own address."""

    template_name = "signin/set_password.html"
    form_class = NewPasswordForm  # type: ignore[assignment]

    def get_form(self, form_class: Any = None) -> NewPasswordForm:  # type: ignore[override]
        return NewPasswordForm(cast(User, self.user), self.request.POST or None)

    def form_valid(self, form: NewPasswordForm) -> HttpResponse:  # type: ignore[override]
        passwords.set_by_link(form.user, form.cleaned_data["new"])
        self.request.session.flush()
        messages.success(self.request, "The password is set. Sign in with it.")
        return redirect("sign-in")


def _openid() -> Configuration:
    if (found := configuration()) is None:
        raise Http404("no provider is configured")
    return found


@never_cache
def openid_begin(request: HttpRequest) -> HttpResponse:
    """Off to the provider. A link is made only where the account page asked for it just before, by a POST."""
    it, wanted = _openid(), request.session.pop(LINK_WANTED, None)
    links = wanted if request.user.is_authenticated and wanted == request.user.pk else None
    try:
        return HttpResponseRedirect(openid_flow.ask(request, it, next_url=_next(request), links=links))
    except ProviderFailed as error:
        return _no_provider(request, it, error)


def _next(request: HttpRequest) -> str:
    wanted = request.GET.get("next", "")
    safe = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if safe else resolve_url(settings.LOGIN_REDIRECT_URL)


@never_cache
def openid_callback(request: HttpRequest) -> HttpResponse:
    """Back from the provider: signed in, asked for the code, linked, or told why not."""
    it = _openid()
    try:
        asked, claims = openid_flow.answer(request, it)
        if asked.links is not None:
            return _link(request, it, asked, claims)
        user = openid_flow.account_of(it, claims)
    except NotAccepted as error:
        record_refusal(error.account, how=it.name, why=str(error))
        return _not_in(request, str(error), 400)
    except ProviderFailed as error:
        return _no_provider(request, it, error)
    return adapters.enter(request, user, next_url=asked.next)


def _link(
    request: HttpRequest, it: Configuration, asked: openid_flow.SignInRequest, claims: dict[str, Any]
) -> HttpResponse:
    if not isinstance(request.user, User) or request.user.pk != asked.links:
        raise NotAccepted("You are signed in as somebody else meanwhile. Begin again on your account page.")
    with telling(request, Conflict):
        openid_flow.link(it, request.user, claims)
        messages.success(request, f"{it.name} is linked: you can sign in with it from now on.")
    return redirect("profile")


def _no_provider(request: HttpRequest, it: Configuration, error: ProviderFailed) -> HttpResponse:
    """The person can do nothing about it; whoever runs the installation finds the call in the server's log."""
    record_refusal(None, how=it.name, why=str(error))
    problem = f"Signing in with {it.name} does not work at the moment. {error}"
    return _not_in(request, f"{problem} Try again later, or tell whoever runs this installation.", 502)


def _not_in(request: HttpRequest, problem: str, status: int) -> HttpResponse:
    context = {"form": SignInForm(request), "problem": problem, "next": _next(request)}
    return render(request, "sign_in.html", context | _around(), status=status)


def _render(
    request: HttpRequest, template: str, context: dict[str, Any], *, wrong: bool = False
) -> HttpResponse:
    return render(request, f"profile/{template}.html", context, status=422 if wrong else 200)


@never_cache
@sensitive_post_parameters()
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
        "codes_left": forms.codes_left(user),
        "sessions": [
            {
                "one": one,
                "device": device_words(one.agent),
                "here": one.session_id == request.session.session_key,
            }
            for one in sessions.sessions_of(user)
        ],
        "identities": identities,
        "openid": openid.name if openid else None,
    }
    return _render(request, "page", context, wrong=request.method == "POST")


def end_other_sessions(request: HttpRequest) -> HttpResponse:
    """Sign out everywhere but here."""
    ended = sessions.end_others(signed_in(request), keep=request.session.session_key)
    messages.success(request, f"{ended} other session{'' if ended == 1 else 's'} ended.")
    return redirect("profile")


def end_session(request: HttpRequest, session_id: int) -> HttpResponse:
    """Sign out one device; one that is signed out already stays so."""
    mine = [one for one in sessions.sessions_of(signed_in(request)) if one.pk == session_id]
    sessions.end(mine)
    messages.success(request, "That device is signed out.")
    return redirect("profile")


@never_cache
@sensitive_post_parameters()
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
def link_identity(request: HttpRequest) -> HttpResponse:
    """Link an identity of the provider: the password first, then a link to the provider (whose address no form of ours
    may lead to: the pages' policy)."""
    openid, user = _openid(), signed_in(request)
    form = OwnPasswordForm(request.POST if request.method == "POST" else None, user=user)
    if request.method == "POST" and form.is_valid():
        request.session[LINK_WANTED] = user.pk
        return _render(request, "link", {"openid": openid.name, "ready": True})
    return _render(request, "link", {"openid": openid.name, "form": form}, wrong=request.method == "POST")


def unlink_identity(request: HttpRequest, identity_id: int) -> HttpResponse:
    """The identity signs in no more."""
    user = signed_in(request)
    with telling(request, Conflict):
        openid_flow.unlink(user, get_object_or_404(Identity, pk=identity_id, user=user))
        messages.success(request, "It is unlinked.")
    return redirect("profile")


@sensitive_post_parameters("password", "again")
@never_cache
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """What the link opens, or why it opens nothing. Its address is the key: for no search engine."""
    try:
        found = invitations.find_invitation(token)
    except NotFound as error:
        return _refused(request, error.message, 404)
    if (why := invitations.why_refused(found, timezone.now())) is not None:
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
        with form.refusing():
            user = invitations.accept_as_new(token, username=name, password=password)
            login(request, user, backend=BACKEND)
            request.session[SESSION_KEY] = found.project.slug
            messages.info(request, f"Welcome. You are {found.role} in {found.project}.")
            return redirect("overview")
    sign_in = redirect_to_login(request.path)["Location"]
    return _show(request, found, form=form, sign_in=sign_in, status=422 if form.errors else 200)


def _show(request: HttpRequest, found: Invitation, status: int = 200, **context: object) -> HttpResponse:
    return unlisted(render(request, "teams/invitation.html", context | {"invitation": found}, status=status))


def _refused(request: HttpRequest, why: str, status: int) -> HttpResponse:
    return unlisted(render(request, "teams/invitation_refused.html", {"why": why}, status=status))
