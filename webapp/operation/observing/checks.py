"""What is said at start of variables that cannot be used."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from webapp.operation.observing.exposition import networks_of, wanted_address

TAG = "headroom"
LEAST_TOKEN = 16
HINT = "docs/observability.md says who may read /metrics."


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
