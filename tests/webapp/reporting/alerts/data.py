"""Records with times of now, and rules made through the service."""

from datetime import timedelta

from django.utils import timezone

from training.records import Record
from webapp.record.runs import ingest
from webapp.reporting.alerts.models import AlertRule
from webapp.reporting.alerts.rules import Wanted, create_rule

PAST = timedelta(hours=1)


def records(values, *, metric="train/entropy", first=1, minutes=0.0, hours=0.1):
    """One record a value, at steps from `first`; the last is `minutes` ago, each a second after the one before."""
    now = timezone.now() - timedelta(minutes=minutes)
    return [
        Record.model_validate(
            {
                "attempt": 1,
                "seq": first + place,
                "step": first + place,
                "time": (now - timedelta(seconds=len(values) - place)).isoformat(),
                "compute": {"device_hours": hours * (first + place), "flops": 1.0, "tokens": 1.0},
                "metrics": {metric: value},
            }
        )
        for place, value in enumerate(values)
    ]


def report(run, values, **options):
    """Store such records."""
    ingest.store_records(run, records(values, **options))


def make_rule(user, project, on, condition, *, since=PAST, shared=False, **fields) -> AlertRule:
    """A rule that watches since `since` ago."""
    wanted = Wanted(**{"name": f"a rule on {on}", "on": on, "condition": condition} | fields)
    rule = create_rule(user=user, project=project, wanted=wanted, shared=shared)
    AlertRule.objects.filter(pk=rule.pk).update(since=timezone.now() - since)
    rule.refresh_from_db()
    return rule


def entropy_below(value=0.1, in_a_row=3):
    """The condition of a metric's rule."""
    return {"metric": "train/entropy", "comparison": "<", "threshold": value, "in_a_row": in_a_row}
