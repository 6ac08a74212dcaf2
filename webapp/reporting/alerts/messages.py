"""What is sent: one message of one or several firings (a digest), or a test, as each kind of channel wants it. Pure."""

import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from webapp.base.formats import utc

MOST_SHOWN = 20
SIGNATURE = "X-Headroom-Signature"
DELIVERY = "X-Headroom-Delivery"


@dataclass(frozen=True)
class Item:
    """One firing as it is sent. `url` is absolute."""

    rule: str
    project: str
    run: str | None
    text: str
    url: str
    critical: bool
    at: datetime
    on: str | None = None  # kind of the rule; None: of a test, or of a rule that is gone
    event: str | None = None  # one thing that happened, e.g. "fit:12"; the same in every message about it


@dataclass(frozen=True)
class Message:
    """`id` is the same at each try of the same delivery. kind: "alert", "digest" or "test"."""

    id: str
    kind: str
    items: Sequence[Item]

    @property
    def title(self) -> str:
        """One line."""
        if self.kind == "test":
            return "Headroom: a test"
        first = " ".join(self.items[0].text.split())
        if len(self.items) == 1:
            return f"Headroom: {'critical: ' if self.items[0].critical else ''}{first}"[:200]
        return f"Headroom: {len(self.items)} alerts from your quiet hours"


def as_text(message: Message) -> str:
    """The body of a mail."""
    parts = [
        f"{'CRITICAL: ' if item.critical else ''}{item.text}\n{item.at:%Y-%m-%d %H:%M} UTC\n{item.url}"
        for item in message.items
    ]
    reasons = sorted({f"{item.rule} ({item.project})" for item in message.items})
    return "\n\n".join(parts) + f"\n\n-- \nYou get this by the rule {', '.join(reasons)}.\n"


def as_json(message: Message) -> bytes:
    """The body of a webhook, byte for byte as it is signed."""
    items = [
        {
            "rule": item.rule, "project": item.project, "run": item.run, "text": item.text, "url": item.url,
            "critical": item.critical, "happened_at": utc(item.at), "on": item.on, "event": item.event,
        }
        for item in message.items
    ]  # fmt: skip
    return json.dumps(
        {"id": message.id, "kind": message.kind, "items": items}, separators=(",", ":")
    ).encode()


def as_slack(message: Message) -> dict[str, Any]:
    """The body for a hook of Slack, or of what understands its {"text", "blocks"}: Mattermost, Rocket.Chat."""
    texts = [f"*{_plain(message.title)}*"] if len(message.items) > 1 else []
    for item in message.items[:MOST_SHOWN]:
        mark = ":rotating_light: " if item.critical else ""
        text = f"{mark}<{_address(item.url)}|{_plain(item.text)}>"
        texts.append(f"{text}\n_{_plain(item.rule)} · {_plain(item.project)}_")
    if len(message.items) > MOST_SHOWN:
        texts.append(f"and {len(message.items) - MOST_SHOWN} more")
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": text[:2900]}} for text in texts]
    return {"text": _plain(message.title), "blocks": blocks}


def _plain(text: str) -> str:
    """Text that Slack shows as it is: no mention of a channel, no link, no bold from a run's name."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("*", "∗").replace("_", "_\u200b").replace("`", "'").replace("|", "¦")


def _address(url: str) -> str:
    return url.replace("&", "&amp;").replace("<", "%3C").replace(">", "%3E").replace("|", "%7C")


def signature(secret: str, at: int, body: bytes) -> str:
    """Value of the signature's header: "t=UNIX,v1=HEX", HEX the HMAC-SHA256 of "UNIX.BODY" with the channel's secret.

    The receiver computes it anew over the bytes that came and compares in constant time; an old t is a replay.
    """
    mac = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={mac}"
