"""Unhandled errors to Sentry, or what speaks its protocol (GlitchTip), where SENTRY_DSN names a project there.

An error goes with its type, message, stack and ids, and without what a request, a user or a variable held. Texts that
are known to be secret are taken out. Without the variable sentry-sdk is not imported.
"""

import logging
import os
import re
import sys
from collections.abc import Iterable
from typing import Any

from observability import context, logs

VARIABLE = "SENTRY_DSN"
REPORTING = ("web", "worker", "beat", "driver")  # not commands that somebody runs by hand, and sees
FLUSH_SECONDS = 2.0
REMOVED = "[removed]"
SHORTEST = 6  # shorter values are words
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|_HEADERS|DSN", re.IGNORECASE)
_IN_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_BEARER = re.compile(r"(?i)(?<=bearer )[^\s'\",]+")
_hidden: set[str] = set()
_is_on = False

log = logging.getLogger(__name__)


def install(part: str = "") -> bool:
    """Report from now on, where the variable is set; whether it is. Raises nothing."""
    global _is_on
    part = part or logs.part_of(sys.argv)
    dsn = os.environ.get(VARIABLE, "").strip()
    if not dsn or part not in REPORTING or _is_on:
        return _is_on
    try:
        _init(dsn, part)
    except ImportError:
        log.warning("%s is set, but sentry-sdk is not installed here: no errors are reported", VARIABLE)
    except ValueError:  # its message may hold the key
        log.error("%s is no DSN, such as https://KEY@sentry.example/1: no errors are reported", VARIABLE)
    else:
        _is_on = True
    return _is_on


def report(error: BaseException) -> None:
    """An error that was handled so far as to end the program in good order."""
    if _is_on:
        import sentry_sdk

        sentry_sdk.capture_exception(error)
        sentry_sdk.flush(FLUSH_SECONDS)


def hide(values: Iterable[str]) -> None:
    """Texts that must not be in a report, beside the values of variables with a name like TOKEN."""
    _hidden.update(value for value in values if len(value) >= SHORTEST)


def without_secrets(value: Any) -> Any:
    """The same, with every secret in a text of it replaced."""
    return _cleaned(value, sorted(_hidden | _of_variables(), key=len, reverse=True))


def _init(dsn: str, part: str) -> None:
    import sentry_sdk
    from sentry_sdk.integrations import Integration
    from sentry_sdk.integrations.atexit import AtexitIntegration
    from sentry_sdk.integrations.dedupe import DedupeIntegration
    from sentry_sdk.integrations.excepthook import ExcepthookIntegration
    from sentry_sdk.integrations.logging import LoggingIntegration, ignore_logger
    from sentry_sdk.integrations.threading import ThreadingIntegration

    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # tells of each try
    ignore_logger("django.security.DisallowedHost")  # whoever asks under a wrong name is no error of ours
    ours: list[Integration] = [
        AtexitIntegration(callback=lambda pending, timeout: None),  # sends the rest, and says nothing
        DedupeIntegration(),
        ExcepthookIntegration(),
        ThreadingIntegration(),
        LoggingIntegration(level=None, event_level=logging.ERROR),
    ]
    if part != "driver":
        from sentry_sdk.integrations.celery import CeleryIntegration
        from sentry_sdk.integrations.django import DjangoIntegration

        django = DjangoIntegration(transaction_style="url", middleware_spans=False, signals_spans=False)
        ours += [django, CeleryIntegration(propagate_traces=False)]
    sentry_sdk.init(
        dsn=dsn,
        default_integrations=False,  # they would add command lines, requests of ours, and what other packages do
        auto_enabling_integrations=False,
        integrations=ours,
        before_send=lambda event, hint: _reduced(dict(event), part),  # type: ignore[arg-type,return-value]
        send_default_pii=False,
        include_local_variables=False,
        max_request_body_size="never",
        max_breadcrumbs=0,
        traces_sample_rate=None,
        propagate_traces=False,
        auto_session_tracking=False,
        send_client_reports=False,
        shutdown_timeout=FLUSH_SECONDS,
    )


def _reduced(event: dict[str, Any], part: str) -> dict[str, Any]:
    """What is sent: of a request its method alone, of a user nothing. The route is the event's transaction."""
    for unwanted in ("user", "modules", "breadcrumbs"):
        event.pop(unwanted, None)
    if "request" in event:
        event["request"] = {"method": (event["request"] or {}).get("method")}
    event["tags"] = {**(event.get("tags") or {}), "part": part, **context.ids()}
    return without_secrets(event)


def _of_variables() -> set[str]:
    return {
        value for name, value in os.environ.items() if _SECRET_NAME.search(name) and len(value) >= SHORTEST
    }


def _cleaned(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, REMOVED)
        return _BEARER.sub(REMOVED, _IN_URL.sub(REMOVED, value))
    if isinstance(value, dict):
        return {key: _cleaned(each, secrets) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(each, secrets) for each in value]
    return value
