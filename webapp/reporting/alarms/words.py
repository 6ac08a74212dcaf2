"""Alarms in words, for pages and the API. Pure functions of a stored alarm and its rule."""

from typing import Any

from headroom.adapters.naming import SYSTEM
from webapp.record.alarm_rules.configured import rules_by_name
from webapp.record.alarm_rules.rules import Comparison, Rule
from webapp.reporting.alarms.models import Alarm
from webapp.science.curves import words


def is_share(metric: str) -> bool:
    """Whether a metric is shown in percent."""
    return metric.endswith(("_rate", "_fraction", "_idle"))


def number(metric: str, value: float | None) -> str:
    """A value of a metric with three significant digits: "12 %", "0.31", "6,120"."""
    if value is None:
        return "not finite"
    if is_share(metric):
        return f"{100 * value:.3g} %"
    return f"{value:.3g}" if 0.001 <= abs(value) < 1000 else words.amount(value)


def threshold(rule: Rule, limit: float | None) -> str:
    """The threshold as an alarm names it: "at or above 10 %", "at or above 4.1 (10 times its early median)"."""
    if rule.comparison is Comparison.NOT_FINITE:
        return "not a finite number"
    side = "at or above" if rule.comparison.upwards else "at or below"
    factor = f" ({rule.threshold:g} times its early median)" if rule.comparison.relative else ""
    return f"{side} {number(rule.metric, limit)}{factor}"


def title(alarm: Alarm) -> str:
    """The metric's name for people, in the middle of a sentence. Raises KeyError as below."""
    rule = rules_by_name()[alarm.rule]
    if rule.comparison is Comparison.NOT_FINITE:
        return alarm.metric
    return rule.title if rule.title.startswith("KL") else rule.title[0].lower() + rule.title[1:]


def alarm_payload(alarm: Alarm) -> dict[str, Any]:
    """An alarm as the API gives it. Raises KeyError for a rule that is not in force."""
    rule = rules_by_name()[alarm.rule]
    return {
        "rule": alarm.rule,
        "metric": alarm.metric,
        "level": alarm.level,
        "active": alarm.active,
        "threshold": alarm.threshold,
        "value": alarm.value,
        "latest": alarm.latest,
        "first_step": alarm.first_step,
        "last_step": alarm.last_step,
        "times": alarm.times,
        "raised_at": alarm.raised_at,
        "message": message(alarm, rule),
        "meaning": rule.meaning,
        "look_at": rule.look_at,
    }


def message(alarm: Alarm, rule: Rule) -> str:
    """What is or was beyond which threshold, since when, and how it is now. One sentence."""
    what = alarm.metric if rule.comparison is Comparison.NOT_FINITE else rule.title
    if alarm.metric.startswith(SYSTEM):
        what += f" on {alarm.metric.split('/')[1]}"
    where = threshold(rule, alarm.threshold)
    again = f", {alarm.times} times so far" if alarm.times > 1 else ""
    if not alarm.active:
        worst = f", worst {number(alarm.metric, alarm.value)}" if alarm.value is not None else ""
        return f"{what} was {where} from step {alarm.first_step:,} to {alarm.last_step:,}{worst}{again}."
    latest = f", now {number(alarm.metric, alarm.latest)}" if alarm.latest is not None else ""
    return f"{what} is {where} since step {alarm.first_step:,}{latest}{again}."
