"""Alerts: looking at runs that changed, and sending what fired."""

from webapp.base import nudge
from webapp.reporting.alerts import delivery, firing, outbox
from webapp.reporting.alerts.defaults import ensure_for_everybody
from webapp.reporting.alerts.models import Delivery
from worker import names


def fire_wanted() -> int:
    """Fire rules on the runs that changed; returns how many runs were looked at."""
    ensure_for_everybody()
    return firing.check_changed()


def deliver_wanted() -> int:
    """Ask for a sender where something is due; returns how much. Sending waits for others: it is no part of a round."""
    delivery.drop_old()
    due = Delivery.objects.filter(outbox.due()).count()
    if due:
        nudge.send(names.DELIVER)
    return due
