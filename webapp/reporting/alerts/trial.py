"""A rule tried out: a test goes where the rule would send, for real."""

from dataclasses import dataclass

from django.urls import reverse

from webapp.base.errors import Conflict
from webapp.identity.accounts.models import Project, User
from webapp.reporting.alerts import channels, rules
from webapp.reporting.alerts.models import Notice

PAGE = "page"


@dataclass(frozen=True)
class Tried:
    """What came of one way: "page", or a channel's name. error: why it did not go through; empty where it did."""

    way: str
    error: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.error


def try_rule(rule_id: int, *, user: User, project: Project) -> list[Tried]:
    """Send a test each way that the rule tells by; on the page it stands under the bell of who asked, nobody else's.

    Raises NotFound and Forbidden as a change of the rule would.
    """
    rule = rules.writable_rule(rule_id, user=user, project=project)
    found = []
    if rule.to_page:
        text = f"A test of the rule {rule.name}: this is where its alerts stand."
        Notice.objects.create(user=user, project=project, kind="alert", text=text, url=reverse("alerts"))
        found.append(Tried(PAGE))
    return found + [_through(channel.pk, channel.name, user, project) for channel in rule.channels.all()]


def _through(channel_id: int, name: str, user: User, project: Project) -> Tried:
    try:
        outcome = channels.send_test(channel_id, user=user, project=project)
    except Conflict as error:  # tested a moment ago
        return Tried(name, error.message)
    return Tried(name, "" if outcome.ok else outcome.error or "It was not delivered.", outcome.seconds)
