"""The rules in force: the defaults with what the setting HEADROOM_ALARMS changes.

It names a YAML or JSON file, or is JSON itself: a rule's name -> "off", or the fields that differ among threshold,
level, records and early.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings

from webapp.record.alarm_rules.rules import ANY_METRIC, DEFAULTS, Comparison, Level, Rule


class AlarmSettingsError(ValueError):
    """HEADROOM_ALARMS cannot be used; the message names the rule and says why."""


def rules() -> tuple[Rule, ...]:
    """The rules in force. Raises AlarmSettingsError."""
    return _rules(settings.HEADROOM_ALARMS)


def rules_by_name() -> dict[str, Rule]:
    """The rules in force by name. Raises AlarmSettingsError."""
    return {rule.name: rule for rule in rules()}


def watched_metrics() -> list[str]:
    """Every metric that a rule names."""
    return sorted({rule.metric for rule in rules()} - {ANY_METRIC})


@lru_cache(maxsize=4)
def _rules(setting: str) -> tuple[Rule, ...]:
    return overridden(DEFAULTS, _read(setting)) if setting.strip() else DEFAULTS


def _read(setting: str) -> Any:
    """What the setting says: inline JSON starts with a brace, everything else is a file's name."""
    inline = setting.lstrip().startswith("{")
    try:
        return yaml.safe_load(setting if inline else Path(setting).read_text())  # JSON is YAML
    except (OSError, UnicodeDecodeError) as error:
        raise AlarmSettingsError(f"{setting} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise AlarmSettingsError(f"neither YAML nor JSON: {str(error).splitlines()[0]}") from None


def overridden(defaults: tuple[Rule, ...], changes: Any) -> tuple[Rule, ...]:
    """The defaults with these changes. Raises AlarmSettingsError."""
    if changes is None:
        return defaults
    if not isinstance(changes, Mapping):
        raise AlarmSettingsError("must be a mapping from rules' names to what differs")
    unknown = [str(name) for name in changes if name not in {rule.name for rule in defaults}]
    if unknown:
        raise AlarmSettingsError(f"{unknown[0]}: there is no rule of this name; see docs/alarms.md")
    changed = [_changed(rule, changes[rule.name]) if rule.name in changes else rule for rule in defaults]
    return tuple(rule for rule in changed if rule is not None)


def _changed(rule: Rule, change: Any) -> Rule | None:
    if change is False or change == "off":  # YAML reads a bare off as False
        return None
    if not isinstance(change, Mapping):
        raise AlarmSettingsError(f'{rule.name}: must be "off" or a mapping')
    checked = {str(key): _checked(rule, str(key), value) for key, value in change.items()}
    return replace(rule, **checked)


def _checked(rule: Rule, key: str, value: Any) -> Any:
    """The value of one field as the rule holds it."""
    if key == "level":
        if value not in [level.value for level in Level]:
            raise AlarmSettingsError(f"{rule.name}: level must be warning or critical, not {value!r}")
        return Level(value)
    if key in ("records", "early"):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise AlarmSettingsError(f"{rule.name}: {key} must be a whole number from 1 on, not {value!r}")
        return value
    if key != "threshold":
        raise AlarmSettingsError(f"{rule.name}: {key} is not one of threshold, level, records, early")
    return _threshold(rule, value)


def _threshold(rule: Rule, value: Any) -> float:
    if rule.comparison is Comparison.NOT_FINITE:
        raise AlarmSettingsError(f"{rule.name}: has no threshold")
    if isinstance(value, bool) or not isinstance(value, int | float) or value - value != 0:
        raise AlarmSettingsError(f"{rule.name}: threshold must be a finite number, not {value!r}")
    if rule.comparison.relative and value <= 0:
        raise AlarmSettingsError(
            f"{rule.name}: threshold is a factor of the early median and must be above 0"
        )
    return float(value)
