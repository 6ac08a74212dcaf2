"""Signing in: a password, a link for a new one, OpenID Connect. What comes after them is django-allauth's."""

from typing import Any, cast

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import views as auth_views
from django.contrib.auth.forms import AuthenticationForm
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render, resolve_url
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from webapp.base.errors import Conflict
from webapp.identity.accounts.log import record_refusal
from webapp.identity.accounts.models import User
from webapp.identity.signin import entry, passwords
from webapp.identity.signin.oidc import flow, people
from webapp.identity.signin.oidc.configuration import Configuration, configuration
from webapp.identity.signin.oidc.errors import NotAccepted, ProviderFailed
from webapp.interfaces.pages.forms import SignInForm
from webapp.interfaces.pages.profile.forms import ForgottenForm, NewPasswordForm

LINK_WANTED = "openid_link_wanted"


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
        entry.leave(request)
        return super().get(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        user = cast(User, form.get_user())
        return entry.enter(self.request, user, next_url=self.get_success_url())

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | _around()


def locked_out(request: HttpRequest, credentials: dict[str, Any] | None) -> HttpResponse:
    """django-axes' answer after too many wrong passwords or codes: the same page, saying when to try again."""
    minutes = round(settings.AXES_COOLOFF_TIME * 60)
    context = {"form": SignInForm(request), "locked_out": True, "cooloff_minutes": minutes}
    return render(request, "sign_in.html", context | _around(), status=429)


@never_cache
@require_http_methods(["GET", "POST"])
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
    found = configuration()
    if found is None:
        raise Http404("no provider is configured")
    return found


@never_cache
@require_safe
def openid_begin(request: HttpRequest) -> HttpResponse:
    """Off to the provider. A link is made only where the account page asked for it just before, by a POST."""
    it, wanted = _openid(), request.session.pop(LINK_WANTED, None)
    links = wanted if request.user.is_authenticated and wanted == request.user.pk else None
    try:
        return HttpResponseRedirect(flow.ask(request, it, next_url=_next(request), links=links))
    except ProviderFailed as error:
        return _no_provider(request, it, error)


def _next(request: HttpRequest) -> str:
    wanted = request.GET.get("next", "")
    safe = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if safe else resolve_url(settings.LOGIN_REDIRECT_URL)


@never_cache
@require_safe
def openid_callback(request: HttpRequest) -> HttpResponse:
    """Back from the provider: signed in, asked for the code, linked, or told why not."""
    it = _openid()
    try:
        asked, claims = flow.answer(request, it)
        if asked.links is not None:
            return _link(request, it, asked, claims)
        user = people.account_of(it, claims)
    except NotAccepted as error:
        record_refusal(error.account, how=it.name, why=str(error))
        return _not_in(request, str(error), 400)
    except ProviderFailed as error:
        return _no_provider(request, it, error)
    return entry.enter(request, user, next_url=asked.next)


def _link(request: HttpRequest, it: Configuration, asked: flow.Asked, claims: dict[str, Any]) -> HttpResponse:
    if not isinstance(request.user, User) or request.user.pk != asked.links:
        raise NotAccepted("You are signed in as somebody else meanwhile. Begin again on your account page.")
    try:
        people.link(it, request.user, claims)
    except Conflict as error:
        messages.error(request, error.message)
    else:
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
