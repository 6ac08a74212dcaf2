"""What is said at start of variables that cannot be used."""

import os
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from observability import logs
from webapp.operation.observing.exposition import networks_of
from webapp.operation.observing.serving import wanted_address

TAG = "headroom"
LEAST_TOKEN = 16
HINT = "docs/observability.md says who may read /metrics."


@register(TAG)
def log_format(**_: Any) -> list[CheckMessage]:
    """The form of the log lines is one of two words."""
    asked = os.environ.get(logs.VARIABLE, "").strip().lower()
    if asked in ("", *logs.FORMATS):
        return []
    said = f"{logs.VARIABLE} must be {' or '.join(logs.FORMATS)}, not {asked!r}."
    return [Error(said, hint="docs/observability.md says what they look like.", id="headroom.E010")]


@register(TAG)
def metrics_door(**_: Any) -> list[CheckMessage]:
    """Who may read /metrics must be clear, and must not be everybody."""
    found: list[CheckMessage] = []
    token = settings.METRICS_TOKEN
    if token and (len(token) < LEAST_TOKEN or token != token.strip()):
        said = (
            f"HEADROOM_METRICS_TOKEN must have at least {LEAST_TOKEN} characters, and no space around them."
        )
        found.append(Error(said, hint=HINT, id="headroom.E011"))
    try:
        networks_of(settings.METRICS_ALLOW)
    except ValueError as error:
        found.append(Error(f"HEADROOM_METRICS_ALLOW: {error}.", hint=HINT, id="headroom.E012"))
    try:
        wanted_address()
    except ValueError as error:
        found.append(Error(f"{error}.", hint=HINT, id="headroom.E013"))
    return found
