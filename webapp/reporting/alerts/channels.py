"""Every write to channels and quiet hours, and the test of a channel."""

import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import F
from django.urls import reverse
from django.utils import timezone

from webapp.base import outbound
from webapp.base.errors import Conflict, InvalidInput
from webapp.base.sealing import seal
from webapp.identity.accounts.models import Project, User
from webapp.identity.accounts.permissions import Permission, require
from webapp.identity.audit.services import record
from webapp.reporting.alerts import delivery, hours
from webapp.reporting.alerts.messages import Item, Message
from webapp.reporting.alerts.models import Channel, Delivery, Preferences
from webapp.reporting.alerts.selectors import channel_by_id

MAX_CHANNELS = 20  # of one person, or of a project
TEST_EVERY = timedelta(seconds=5)


@transaction.atomic
def create_channel(
    *,
    user: User,
    project: Project,
    kind: str,
    name: str,
    address: str = "",
    shared: bool = False,
    quiet: Mapping[str, Any] | None = None,
) -> tuple[Channel, str]:
    """(channel, secret): the secret signs what a webhook gets, and is never shown again; "" for the other kinds.

    A person's own mail goes to the address of the account. Raises InvalidInput (kind, name, address, quiet hours) and
    Forbidden: hooks need CONTRIBUTE, what is shared with the project ADMIN.
    """
    if kind not in Channel.Kind.values:
        raise InvalidInput("kind", f"kind must be one of {', '.join(Channel.Kind.values)}.")
    own = Permission.VIEW if kind == Channel.Kind.MAIL else Permission.CONTRIBUTE
    require(user, project, Permission.ADMIN if shared else own)
    home: dict[str, Any] = {"project": project} if shared else {"owner": user}
    if Channel.objects.filter(**home).count() >= MAX_CHANNELS:
        raise InvalidInput(None, f"There are {MAX_CHANNELS} channels already; delete one first.")
    checked, shown = _address(kind, address, None if shared else user)
    secret = secrets.token_urlsafe(32) if kind == Channel.Kind.WEBHOOK else ""
    channel = Channel.objects.create(
        kind=kind, name=clean_name("channel", name, 60), shown=shown, sealed_address=seal(checked),
        sealed_secret=seal(secret) if secret else "", **home, **_quiet_fields(quiet or {}),
    )  # fmt: skip
    _record("created", channel, user, project)
    return channel, secret


def _quiet_fields(quiet: Mapping[str, Any]) -> dict[str, Any]:
    """Quiet hours as they are stored, and whether critical alerts come through them."""
    said = dict(quiet)
    through = said.pop("critical_through", False)
    return {"critical_through": through, **hours.fields_from(**said)}


@transaction.atomic
def change_channel(
    channel_id: int,
    *,
    user: User,
    project: Project,
    version: int,
    name: str,
    quiet: Mapping[str, Any],
) -> Channel:
    """Its name and quiet hours; another address is another channel.

    Raises InvalidInput, NotFound, Forbidden, Conflict.
    """
    channel = _writable(channel_id, user, project)
    fields = {"name": clean_name("channel", name, 60), **_quiet_fields(quiet)}
    if not Channel.objects.filter(pk=channel.pk, version=version).update(version=F("version") + 1, **fields):
        raise Conflict(
            "This channel was changed meanwhile, perhaps in another tab. Nothing was saved; look at it again."
        )
    channel.refresh_from_db()
    _record("changed", channel, user, project)
    return channel


@transaction.atomic
def delete_channel(channel_id: int, *, user: User, project: Project) -> None:
    """What waited for it is given up. Raises NotFound, also where it was deleted before, and Forbidden."""
    channel = _writable(channel_id, user, project)
    for rule in channel.rules.filter(to_page=False):
        if not rule.channels.exclude(pk=channel.pk).exists():  # its last way to anybody
            rule.to_page, rule.version = True, rule.version + 1
            rule.save(update_fields=["to_page", "version"])
    _record("deleted", channel, user, project)
    channel.delete()


@transaction.atomic
def resume_channel(channel_id: int, *, user: User, project: Project) -> Channel:
    """Try again: what waited less than a day goes out. Safe to repeat. Raises NotFound, Forbidden."""
    channel = _writable(channel_id, user, project)
    if channel.paused_at is not None:
        Channel.objects.filter(pk=channel.pk).update(paused_at=None, failures=0)
        waiting = Delivery.objects.filter(channel=channel, state=Delivery.State.WAITING)
        waiting.filter(next_at__gt=timezone.now(), held=False).update(next_at=timezone.now())
        channel.refresh_from_db()
        _record("resumed", channel, user, project)
    return channel


def send_test(
    channel_id: int, *, user: User, project: Project, now: datetime | None = None
) -> delivery.Outcome:
    """Send a test for real, quiet hours or not, and say what came of it. A test that goes through ends a pause.

    Raises NotFound, Forbidden, and Conflict within some seconds of the last test.
    """
    now = now or timezone.now()
    with transaction.atomic():
        channel = _writable(channel_id, user, project)
        if channel.tested_at is not None and now - channel.tested_at < TEST_EVERY:
            raise Conflict("A test was sent a moment ago; wait some seconds.")
        Channel.objects.filter(pk=channel.pk).update(tested_at=now)
        _record("tested", channel, user, project)
    text = f"A test of the channel {channel.name}, sent by {user.get_username()}. Alerts will look like this."
    item = Item("Test", project.name, None, text, delivery.absolute(reverse("alerts")), False, now)
    outcome = delivery.send(channel, Message(str(uuid4()), "test", [item]))
    if outcome.ok:
        Channel.objects.filter(pk=channel.pk).update(
            failures=0, last_error="", paused_at=None, sent_at=timezone.now()
        )
    else:
        Channel.objects.filter(pk=channel.pk).update(last_error=outcome.error)
    return outcome


def set_quiet_hours(*, user: User, quiet: Mapping[str, Any]) -> Preferences:
    """The person's quiet hours, for all own channels that have none of their own. Raises InvalidInput."""
    fields = hours.fields_from(**quiet)
    return Preferences.objects.update_or_create(user=user, defaults=dict(fields))[0]


def _writable(channel_id: int, user: User, project: Project) -> Channel:
    channel = channel_by_id(user, project, channel_id)
    require(user, project, Permission.ADMIN if channel.owner_id is None else Permission.VIEW)
    return channel


def _address(kind: str, address: str, owner: User | None) -> tuple[str, str]:
    """(address, as pages show it). Raises InvalidInput (address)."""
    text = address.strip()
    if kind == Channel.Kind.MAIL:
        if owner is not None:
            text = owner.email
            if not text:
                raise InvalidInput("address", "address: your account has no mail address yet.")
        try:
            validate_email(text)
        except ValidationError:
            raise InvalidInput("address", "address: this is not a mail address.") from None
        return text, text
    try:
        outbound.check_url(text)
    except outbound.Refused as error:
        raise InvalidInput("address", f"address: {error}") from None
    return text, f"{urlsplit(text).hostname}/…"[:254]


def clean_name(of: str, name: str, most: int) -> str:
    """The name of a rule or channel without odd spaces. Raises InvalidInput (name)."""
    text = " ".join(name.split())
    if not text or len(text) > most or not text.isprintable():
        raise InvalidInput("name", f"name: a {of} needs a name of at most {most} printable characters.")
    return text


def _record(verb: str, channel: Channel, user: User, project: Project) -> None:
    record(
        f"alert_channel.{verb}", actor=user, project=project, kind="alert_channel", key=channel.pk, name=channel.name,
        channel=channel.kind, shared=channel.owner_id is None,
    )  # fmt: skip
