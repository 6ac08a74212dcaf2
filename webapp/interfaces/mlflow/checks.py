"""What requests of MLflow's protocol may hold: MLflow's own limits, and a sentence that names the field."""

from collections.abc import Mapping
from typing import Any

from webapp.base.errors import InvalidInput
from webapp.interfaces.tracking.lines import Value
from webapp.interfaces.tracking.translate import to_value

MAX_BODY = 1_000_000  # bytes
MAX_METRICS, MAX_PARAMS, MAX_TAGS, MAX_ENTITIES = 1000, 100, 100, 1000
MAX_KEY, MAX_PARAM, MAX_TAG, MAX_GROUP_TAG = 250, 6000, 8000, 20_000
MAX_TIME = 253_402_300_799_999  # the last millisecond of the year 9999
INT64 = 2**63  # of steps, too


def text(body: Mapping[str, Any], *names: str, default: str | None = None) -> str:
    """The first of these fields that is there. Raises InvalidInput where none is (and there is no default)."""
    for name in names:
        value = body.get(name)
        if value is not None and value != "":
            if not isinstance(value, str):
                raise InvalidInput(name, f"{name} must be text.")
            return value
    if default is None:
        raise InvalidInput(names[0], f"Missing value for required parameter '{names[0]}'.")
    return default


def whole(
    body: Mapping[str, Any], name: str, *, default: int | None, least: int = 0, most: int = INT64 - 1
) -> int:
    """A whole number; protobuf's JSON may write it as text. Raises InvalidInput."""
    value = body.get(name)
    if value is None and default is not None:
        return default
    try:
        number = int(value) if isinstance(value, str) else value
        if isinstance(number, float) and number == int(number):
            number = int(number)
    except (ValueError, OverflowError):
        number = None
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
        raise InvalidInput(name, f"{name} must be a whole number from {least} to {most}.")
    return number


def items(body: Mapping[str, Any], name: str, most: int) -> list[Mapping[str, Any]]:
    """A list of objects. Raises InvalidInput."""
    found = body.get(name) or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InvalidInput(name, f"{name} must be a list of objects.")
    if len(found) > most:
        raise InvalidInput(name, f"{name} may have at most {most} items in a request, not {len(found)}.")
    return found


def metric(body: Mapping[str, Any], path: str = "") -> Value:
    """One value. Raises InvalidInput."""
    name = key(body, path)
    value = to_value(body.get("value"))
    if value is None:
        raise InvalidInput(f"{path}value", f"{path}value of the metric {name!r} must be a number.")
    placed = {f"{path}{field}": body.get(field) for field in ("step", "timestamp")}
    return Value(
        name,
        value,
        whole(placed, f"{path}step", default=0, least=-INT64),
        whole(placed, f"{path}timestamp", default=None, most=MAX_TIME),
    )


def key(body: Mapping[str, Any], path: str = "") -> str:
    """The name of a metric, param or tag. Raises InvalidInput."""
    name = body.get("key")
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidInput(f"{path}key", f"{path}key must be a name of printable characters.")
    if len(name) > MAX_KEY:
        raise InvalidInput(
            f"{path}key", f"{path}key may have at most {MAX_KEY} characters, not {len(name):,}."
        )
    return name


def pair(body: Mapping[str, Any], most: int, path: str = "") -> tuple[str, str]:
    """Key and value of a param or tag. Raises InvalidInput."""
    name, value = key(body, path), body.get("value", "")
    if not isinstance(value, str):
        raise InvalidInput(f"{path}value", f"{path}value of {name!r} must be text.")
    if len(value) > most:
        message = f"{path}value of {name!r} may have at most {most} characters, not {len(value):,}."
        raise InvalidInput(f"{path}value", message)
    return name, value


def pairs(body: Mapping[str, Any], name: str, count: int, most: int) -> dict[str, str]:
    """A list of params or tags as one dictionary. Raises InvalidInput, also for a key with two values."""
    found: dict[str, str] = {}
    for i, item in enumerate(items(body, name, count)):
        given, value = pair(item, most, f"{name}[{i}].")
        if found.setdefault(given, value) != value:
            raise InvalidInput(
                f"{name}[{i}].key", f"{name}[{i}].key: {given!r} has two values in this request."
            )
    return found


def batch(body: Mapping[str, Any]) -> tuple[list[Value], dict[str, str], dict[str, str]]:
    """Metrics, params and tags of a log-batch. Raises InvalidInput."""
    found = items(body, "metrics", MAX_METRICS)
    params = pairs(body, "params", MAX_PARAMS, MAX_PARAM)
    tags = pairs(body, "tags", MAX_TAGS, MAX_TAG)
    if len(found) + len(params) + len(tags) > MAX_ENTITIES:
        raise InvalidInput(
            "metrics", f"metrics, params and tags together may have at most {MAX_ENTITIES} items."
        )
    return [metric(item, f"metrics[{i}].") for i, item in enumerate(found)], params, tags
