"""What is said at start of variables that cannot be used."""

import os
from typing import Any

from django.core.checks import CheckMessage, Error, register

from observability import logs

TAG = "headroom"


@register(TAG)
def log_format(**_: Any) -> list[CheckMessage]:
    """The form of the log lines is one of two words."""
    asked = os.environ.get(logs.VARIABLE, "").strip().lower()
    if asked in ("", *logs.FORMATS):
        return []
    said = f"{logs.VARIABLE} must be {' or '.join(logs.FORMATS)}, not {asked!r}."
    return [Error(said, hint="docs/observability.md says what they look like.", id="headroom.E010")]
