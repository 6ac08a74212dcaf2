"""What the run page says of alarms: the banner above the chart, and the words in its head.

What a run's page says of policies that acted in its current attempt.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.template.loader import render_to_string
from django.utils import timezone

from headroom.adapters.naming import SYSTEM
from webapp.record.runs.models import Run
from webapp.reporting.alarms import words
from webapp.reporting.alarms.models import Alarm
from webapp.reporting.alarms.selectors import most_severe
from webapp.reporting.policies.selectors import acted_on

UNJUDGED_AFTER = timedelta(seconds=60)


def banner(alarms: Sequence[Alarm]) -> str:
    """The banner as HTML: active alarms in full, past ones collapsed; empty without any."""
    shown = most_severe(alarms)
    context: dict[str, Any] = {
        "active": [_item(alarm) for alarm in shown if alarm.active],
        "past": [_item(alarm) for alarm in shown if not alarm.active],
    }
    return render_to_string("run/_alarms.html", context).strip() if shown else ""


def headline(alarms: Sequence[Alarm]) -> str:
    """The worst active alarm in a few words: "truncation rate 12 %, and 1 more"; empty without one."""
    active = [alarm for alarm in most_severe(alarms) if alarm.active]
    if not active:
        return ""
    more = f", and {len(active) - 1} more" if len(active) > 1 else ""
    return f"{words.title(active[0])} {words.number(active[0].metric, active[0].latest)}{more}"


def worst_level(alarms: Sequence[Alarm]) -> str:
    """The level of that alarm; empty without one."""
    return next((alarm.level for alarm in alarms if alarm.active), "")


def _item(alarm: Alarm) -> dict[str, Any]:
    tab = "machines" if alarm.metric.startswith(SYSTEM) else "diagnostics"
    return words.alarm_payload(alarm) | {"panel": alarm.metric.replace("/", "-"), "tab": tab}


def mark_words(alarms: Sequence[Alarm]) -> str:
    """What the mark in the list of runs means, one alarm after the other."""
    return " ".join(words.alarm_payload(alarm)["message"] for alarm in alarms)


def is_unjudged(run: Run) -> bool:
    """Whether nobody has judged the run's newest records for a minute: no mark then means nothing."""
    wanted = run.alarms_wanted_at
    return wanted is not None and timezone.now() - wanted > UNJUDGED_AFTER


def acted(run: Run) -> str:
    """As HTML; empty where none did. What was done in earlier attempts is in their tab."""
    actions = [action for action in acted_on(run) if action.attempt == run.attempt_number]
    return render_to_string("run/_policies.html", {"actions": actions}).strip() if actions else ""
