"""Alerts: rules, channels, what fired; and the quiet hours of a person.

The bell: how many notices are unread, the newest of them, the page of all, and marking them as read.
"""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache

from webapp.base.errors import REFUSED, Conflict, InvalidInput
from webapp.base.formats import whole_in
from webapp.identity.accounts.permissions import Permission
from webapp.interfaces.pages.access import allow, current_project, granted, signed_in
from webapp.interfaces.pages.alert_forms import FORMS, ChannelForm, QuietForm, RuleForm, quiet_initial
from webapp.interfaces.pages.answers import telling
from webapp.record.runs.filtering import FilterError
from webapp.reporting.alerts import channels, conditions, delivery, preview, rules, selectors
from webapp.reporting.alerts.firing import mark_read
from webapp.reporting.alerts.models import AlertRule, Channel
from webapp.reporting.alerts.rules import ensure_defaults
from webapp.reporting.alerts.selectors import notices_of, unread_count

KINDS = {
    "state": "A run starts, ends or is lost",
    "metric": "A metric crosses a threshold",
    "alarm": "An alarm is raised",
    "fit": "A fit says something",
    "budget": "The budget is being spent",
    "outcome": "A prediction is scored",
}
FIRST_NAMES = {"mail": "My mail", "webhook": "Webhook", "slack": "Slack"}  # of a new channel
NEWEST = 30
UNDER_THE_BELL = 8
A_PAGE = 50


@never_cache
def alerts(request: HttpRequest) -> HttpResponse:
    """Rules, channels, and what fired, newest first (`before` an id: earlier ones)."""
    project, user = current_project(request), signed_in(request)
    own = selectors.rules_of(user, project, shared=False)
    if not any(row.rule.default_key for row in own):  # the worker has not met this member yet
        ensure_defaults(user, project)
        own = selectors.rules_of(user, project, shared=False)
    firings = selectors.firings_of(project, user).select_related("run", "rule")
    if (before := whole_in(request.GET.get("before", ""), 18)) is not None:
        firings = firings.filter(pk__lt=before)
    found = list(firings[: NEWEST + 1])
    context = {
        "own": own,
        "shared": selectors.rules_of(user, project, shared=True),
        "channels": [(c, selectors.quiet_words(c)) for c in selectors.channels_of(user, project)],
        "quiet": selectors.quiet_words(selectors.preferences_of(user)),
        "firings": found[:NEWEST],
        "earlier": found[NEWEST - 1].pk if len(found) > NEWEST else None,
        "before": before,
    }
    return render(request, "alerts/page.html", context)


@never_cache
def new_rule(request: HttpRequest) -> HttpResponse:
    """A rule of the kind that the query names; first of all the choice of a kind."""
    project, user = current_project(request), signed_in(request)
    on, shared = request.GET.get("on", ""), request.GET.get("for") == "project"
    if shared:
        allow(request, project, Permission.ADMIN)
    if on not in KINDS:
        return render(request, "alerts/new_rule.html", {"kinds": KINDS, "shared": shared})
    form = _rule_form(request, on, shared)
    context = {"form": form, "on": on, "title": KINDS[on], "shared": shared, "metrics": _metrics(request, on)}
    if request.method == "POST" and form.is_valid():
        with form.refusing():
            rule = rules.create_rule(user=user, project=project, wanted=form.wanted(), shared=shared)
            messages.info(
                request, f"The rule “{rule.name}” watches from now on; what happened before does not fire."
            )
            return redirect("alerts")
    return render(request, "alerts/rule.html", context, status=422 if form.errors else 200)


@never_cache
def rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    """A rule in its form; what a member may not change is shown, and cannot be sent."""
    project, user = current_project(request), signed_in(request)
    found = selectors.rule_by_id(user, project, rule_id)
    shared = found.owner_id is None
    form = _rule_form(request, found.on, shared, found)
    if request.method == "POST" and form.is_valid():
        with form.refusing(REFUSED):
            rules.change_rule(
                rule_id,
                user=user,
                project=project,
                version=form.cleaned_data["version"],
                wanted=form.wanted(),
            )
            messages.info(request, "The rule is changed.")
            return redirect("alerts")
    may_write = not shared or Permission.ADMIN in granted(request)
    context = {
        "form": form, "rule": found, "on": found.on, "title": KINDS.get(found.on, "Predictions"), "shared": shared,
        "may_write": may_write, "metrics": _metrics(request, found.on),
        "words": conditions.read(found.on, found.condition).words(),
    }  # fmt: skip
    return render(request, "alerts/rule.html", context, status=422 if form.errors else 200)


@never_cache
def check(request: HttpRequest) -> HttpResponse:
    """What the rule in the form would do: runs that it watches, and when it would have fired in the last week."""
    project, user = current_project(request), signed_in(request)
    on, shared = request.GET.get("on", ""), request.GET.get("for") == "project"
    if on not in KINDS:
        raise Http404("no such kind of rule")
    form = FORMS[on](request.GET, channels=[])
    context: dict[str, Any] = {}
    try:
        runs = request.GET.get("runs", "")[:1000]
        condition = conditions.read(on, form.condition_given())
        cooldown = form.cooldown_given()
        context["it"] = preview.preview(
            project=project,
            user=None if shared else user,
            condition=condition,
            runs=runs,
            cooldown_minutes=cooldown,
        )
        context["words"] = condition.words()
    except FilterError as error:
        context |= {"problem": error.message, "pointer": error.pointer}
    except InvalidInput as error:
        not_said_yet = error.field is not None and not request.GET.get(error.field, "").strip()
        context |= {"not_said_yet": True} if not_said_yet else {"problem": error.message}
    return render(request, "alerts/_check.html", context)


def test_rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    """A test each way that the rule tells by, and what came of each."""
    tried = preview.try_rule(rule_id, user=signed_in(request), project=current_project(request))
    if request.htmx:  # type: ignore[attr-defined]
        return render(request, "alerts/_tried.html", {"tried": tried})
    for one in tried:
        tell = messages.info if one.ok else messages.error
        tell(request, f"{one.way}: {'the test went through.' if one.ok else one.error}")
    return redirect("alert-rule", rule_id)


def turn_rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    """On or off; a repeated request changes nothing."""
    on = request.POST.get("to") == "on"
    rules.turn(rule_id, user=signed_in(request), project=current_project(request), on=on)
    return redirect("alerts")


def delete_rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Gone for good; what it found stays in the history."""
    with telling(request, REFUSED):
        rules.delete_rule(rule_id, user=signed_in(request), project=current_project(request))
        messages.info(request, "The rule is deleted. What it found stays in the history.")
    return redirect("alerts")


@never_cache
def new_channel(request: HttpRequest) -> HttpResponse:
    """A channel. The secret of a webhook is shown once, in the answer to its creation, and nowhere else."""
    project, user = current_project(request), signed_in(request)
    shared, kind = request.GET.get("for") == "project", request.GET.get("kind", "mail")
    if kind not in Channel.Kind.values:
        raise Http404("no such kind of channel")
    allow(request, project, _needed(kind, shared))
    form = ChannelForm(request.POST or None, kind=kind, shared=shared, initial={"name": FIRST_NAMES[kind]})
    context: dict[str, Any] = {
        "form": form, "kind": kind, "shared": shared, "account_mail": user.email,
        "no_mail": kind == "mail" and not settings.EMAIL_CONFIGURED, "no_mail_words": delivery.NO_SERVER,
    }  # fmt: skip
    if request.method == "POST" and form.is_valid():
        with form.refusing():
            channel, secret = channels.create_channel(
                user=user, project=project, kind=kind, shared=shared, **form.channel_fields()
            )
            if not secret:
                messages.info(
                    request, f"The channel {channel.name} is there. Send a test, then name it in a rule."
                )
                return redirect("alerts")
            context |= {"secret": secret, "channel": channel}
    return render(request, "alerts/new_channel.html", context, status=422 if form.errors else 200)


@never_cache
def channel(request: HttpRequest, channel_id: int) -> HttpResponse:
    """Name and quiet hours of a channel."""
    project, user = current_project(request), signed_in(request)
    found = selectors.channel_by_id(user, project, channel_id)
    shared = found.owner_id is None
    if shared:
        allow(request, project, Permission.ADMIN)
    initial = {"name": found.name, "critical_through": found.critical_through, "version": found.version}
    form = ChannelForm(
        request.POST or None, kind=found.kind, shared=shared, old=True, initial=initial | quiet_initial(found)
    )
    if request.method == "POST" and form.is_valid():
        with form.refusing():
            channels.change_channel(
                channel_id,
                user=user,
                project=project,
                version=form.cleaned_data["version"],
                **form.channel_fields(),
            )
            messages.info(request, "The channel is changed.")
            return redirect("alerts")
    context = {"form": form, "channel": found, "shared": shared}
    return render(request, "alerts/channel.html", context, status=422 if form.errors else 200)


def test_channel(request: HttpRequest, channel_id: int) -> HttpResponse:
    """Send a test for real; the answer is the outcome, for htmx or as a page's message."""
    outcome, problem = None, ""
    try:
        outcome = channels.send_test(channel_id, user=signed_in(request), project=current_project(request))
    except Conflict as error:
        problem = error.message
    return render(request, "alerts/_tested.html", {"outcome": outcome, "problem": problem})


def resume_channel(request: HttpRequest, channel_id: int) -> HttpResponse:
    """A paused channel is tried again."""
    channels.resume_channel(channel_id, user=signed_in(request), project=current_project(request))
    messages.info(request, "The channel is tried again; what waited less than a day goes out.")
    return redirect("alerts")


def delete_channel(request: HttpRequest, channel_id: int) -> HttpResponse:
    """Gone; a rule that had no other way to anybody goes to the page."""
    channels.delete_channel(channel_id, user=signed_in(request), project=current_project(request))
    messages.info(request, "The channel is deleted. Rules that named only it go to the page now.")
    return redirect("alerts")


@never_cache
def preferences(request: HttpRequest) -> HttpResponse:
    """Quiet hours of a person."""
    current_project(request)
    user = signed_in(request)
    stored = selectors.preferences_of(user)
    form = QuietForm(request.POST or None, initial=quiet_initial(stored))
    if request.method == "POST" and form.is_valid():
        with form.refusing():
            channels.set_quiet_hours(user=user, quiet=form.quiet())
            messages.info(request, "Your quiet hours are stored.")
            return redirect("alert-preferences")
    context = {"form": form, "now": selectors.quiet_words(stored)}
    return render(request, "alerts/preferences.html", context, status=422 if form.errors else 200)


def _rule_form(request: HttpRequest, on: str, shared: bool, found: AlertRule | None = None) -> RuleForm:
    known = selectors.channels_of(signed_in(request), current_project(request), shared=shared)
    runs = request.GET.get("runs", "" if shared else "by:me")[
        :1000
    ]  # what the list of runs shows, from its button
    initial = RuleForm.initial_of(found) if found is not None else {"runs": runs, "to_page": True}
    return FORMS[on](request.POST or None, channels=known, initial=initial)


def _metrics(request: HttpRequest, on: str) -> list[str]:
    return preview.metric_names(current_project(request)) if on == "metric" else []


def _needed(kind: str, shared: bool) -> Permission:
    if shared:
        return Permission.ADMIN
    return Permission.VIEW if kind == Channel.Kind.MAIL else Permission.CONTRIBUTE


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
    notice, up_to = (whole_in(request.POST.get(name, ""), 18) for name in ("notice", "up_to"))
    if notice is not None or up_to is not None:
        mark_read(signed_in(request), notice_id=notice, up_to=up_to)
    target = request.POST.get("next", "")
    if url_has_allowed_host_and_scheme(target, allowed_hosts=None) and target.startswith("/"):
        return redirect(target)
    return bell(request) if getattr(request, "htmx", False) else redirect("notices")
