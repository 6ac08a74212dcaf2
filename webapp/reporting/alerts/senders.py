"""Sending one message through one channel, and what came of it. Nothing is stored here."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from smtplib import SMTPException, SMTPRecipientsRefused, SMTPSenderRefused

from django.conf import settings
from django.core.mail import EmailMessage, get_connection

from webapp.base import outbound
from webapp.base.mail import NONE
from webapp.base.sealing import Unreadable, unseal
from webapp.reporting.alerts import messages
from webapp.reporting.alerts.messages import Message
from webapp.reporting.alerts.models import Channel

TIMEOUT_S = 10.0
TRY_AGAIN = {408, 425, 429}  # statuses of the caller's fault that may get better by waiting
NO_SERVER = "This server has no mail server: its operator sets HEADROOM_EMAIL_URL or HEADROOM_SMTP_HOST."


@dataclass(frozen=True)
class Outcome:
    """`status` of HTTP where there was an answer; `final`: trying again would not help; `seconds` it took."""

    ok: bool
    error: str = ""
    status: int | None = None
    final: bool = False
    seconds: float = 0.0


def send(channel: Channel, message: Message) -> Outcome:
    """Send for real. Never raises for what the other side, the network or the stored address does wrong."""
    started = time.monotonic()
    try:
        outcome = _SENDERS[channel.kind](channel, unseal(channel.sealed_address), message)
    except (outbound.Refused, Unreadable) as error:
        outcome = Outcome(False, str(error)[:300], final=True)
    except outbound.Failed as error:
        outcome = Outcome(False, str(error)[:300])
    return Outcome(outcome.ok, outcome.error, outcome.status, outcome.final, time.monotonic() - started)


def can_mail() -> bool:
    """Whether this server can send mail: not where it was told of none, and mail is swallowed unsaid."""
    if settings.EMAIL_BACKEND == NONE:
        return False
    return bool(settings.EMAIL_HOST) or not settings.EMAIL_BACKEND.endswith("smtp.EmailBackend")


def _mail(channel: Channel, address: str, message: Message) -> Outcome:
    if not can_mail():
        return Outcome(False, NO_SERVER)
    mail = EmailMessage(
        " ".join(message.title.split()), messages.as_text(message), settings.DEFAULT_FROM_EMAIL, [address],
        headers={messages.DELIVERY: message.id, "Auto-Submitted": "auto-generated"},
        connection=get_connection(timeout=TIMEOUT_S),
    )  # fmt: skip
    try:
        mail.send()
    except (SMTPRecipientsRefused, SMTPSenderRefused) as error:
        return Outcome(False, f"The mail server refused: {error}"[:300], final=True)
    except (SMTPException, OSError) as error:
        return Outcome(False, f"The mail server did not take it: {error or type(error).__name__}"[:300])
    return Outcome(True)


def _webhook(channel: Channel, url: str, message: Message) -> Outcome:
    body = messages.as_json(message)
    headers = {
        "Content-Type": "application/json",
        messages.DELIVERY: message.id,
        messages.SIGNATURE: messages.signature(unseal(channel.sealed_secret), int(time.time()), body),
    }
    return _answered(outbound.request("POST", url, data=body, headers=headers, timeout_s=TIMEOUT_S))


def _slack(channel: Channel, url: str, message: Message) -> Outcome:
    headers = {messages.DELIVERY: message.id}
    return _answered(
        outbound.request("POST", url, json=messages.as_slack(message), headers=headers, timeout_s=TIMEOUT_S)
    )


def _answered(response: outbound.Response) -> Outcome:
    if 200 <= response.status < 300:
        return Outcome(True, status=response.status)
    said = " ".join(response.body[:200].decode(errors="replace").split())
    error = f"It answered {response.status}{f': {said}' if said.isprintable() and said else ''}"
    final = 400 <= response.status < 500 and response.status not in TRY_AGAIN
    return Outcome(False, error[:300], response.status, final)


_SENDERS: dict[str, Callable[[Channel, str, Message], Outcome]] = {
    Channel.Kind.MAIL: _mail,
    Channel.Kind.WEBHOOK: _webhook,
    Channel.Kind.SLACK: _slack,
}
