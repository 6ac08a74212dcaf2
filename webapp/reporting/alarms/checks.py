"""Django system check: a wrong HEADROOM_ALARMS is said at start, naming the rule and the reason."""

from typing import Any

from django.core.checks import CheckMessage, Error, register

from webapp.record.alarm_rules.rules import AlarmSettingsError, rules

TAG = "headroom"


@register(TAG)
def alarm_settings(**_: Any) -> list[CheckMessage]:
    """An error where the rules' overrides cannot be used."""
    try:
        rules()
    except AlarmSettingsError as error:
        return [
            Error(f"HEADROOM_ALARMS: {error}", hint="The rules are in docs/alarms.md.", id="headroom.E001")
        ]
    return []
