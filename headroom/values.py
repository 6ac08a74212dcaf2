"""Turns what a trainer passes to `log` into plain JSON values; what cannot be used is named, never raised."""

from collections.abc import Callable, Mapping
from math import isfinite
from reprlib import repr as shown  # of whatever it is, some words; never an exception
from typing import Any

from headroom.adapters.naming import PART_PASS_RATE

COMPUTE_KEYS = ("device_hours", "flops", "tokens")
MAX_NAME_LENGTH = 250  # the server's limits
MAX_METRICS = 1000  # of a record
MIN_STEP, MAX_STEP = -(2**63), 2**63 - 1
MOST_NAMES = 10_000  # that are remembered as usable
_usable_names: set[str] = set()
Complain = Callable[[str, str], None]  # (kind, message): a kind is reported once


def to_number(value: Any) -> int | float | None:
    """A finite number out of a Python, numpy or zero-dimensional tensor value; None for everything else."""
    if type(value) is float:  # most are
        return value if isfinite(value) else None
    if isinstance(value, (str, bytes)) or value is None:
        return None
    try:
        if isinstance(value, int):
            return (
                int(value) if abs(value) <= MAX_STEP else float(value)
            )  # JSON's readers take larger ones so
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
    return number if isfinite(number) else None


def is_number(value: Any) -> bool:
    """Whether it is one, finite or not."""
    return to_number(value) is not None or _is_not_finite(value)


def _is_not_finite(value: Any) -> bool:
    if value is None or isinstance(value, str | bytes | int):
        return False
    try:
        return not isfinite(float(value))
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return False


def clean_metrics(
    metrics: Mapping[str, Any], complain: Complain, refuse: Complain | None = None
) -> dict[str, int | float | None]:
    """The numbers of `metrics`, NaN and infinity as None; the others are dropped, with one complaint per name. `refuse`
    is told of each that is dropped although it says something: a name that cannot be one, a number too large, a pass
    rate that is none."""
    refuse = refuse or complain
    cleaned: dict[str, int | float | None] = {}
    for name, value in metrics.items():
        number = to_number(value)
        if name not in _usable_names and not _is_usable(name):
            refuse(
                f"name {shown(name)}",
                f"a metric's name has 1 to {MAX_NAME_LENGTH} printable characters, not {shown(name)}: dropped",
            )
        elif number is None and _is_not_finite(value):
            complain(
                f"metric {name}", f"metric {name!r} is {_shown(value)}, no finite number: recorded as null"
            )
            cleaned[name] = None
        elif number is None:
            (refuse if isinstance(value, int) else complain)(
                f"metric {name}",
                f"metric {name!r} has the value {_shown(value)}, which is no number: dropped",
            )
        elif not 0 <= number <= 1 and PART_PASS_RATE.fullmatch(name):
            refuse(
                f"metric {name}",
                f"metric {name!r} is {number:g}, not between 0 and 1, and no pass rate: dropped",
            )
        else:
            cleaned[name] = number
    return cleaned


def _shown(value: Any) -> str:
    """Python refuses to write integers of more than some thousand digits."""
    try:
        return shown(value)
    except ValueError:
        return "a number of very many digits"


def parts_of(metrics: Mapping[str, Any], most: int = MAX_METRICS) -> list[Mapping[str, Any]]:
    """`metrics` in as many records as the server needs, one where there are few. A standard error stays beside its
    value."""
    if len(metrics) <= most:
        return [metrics]
    parts: list[dict[str, Any]] = [{}]
    for name in metrics:
        if name.endswith("_stderr") and name.removesuffix("_stderr") in metrics:
            continue
        here = {key: metrics[key] for key in (name, f"{name}_stderr") if key in metrics}
        if len(parts[-1]) + len(here) > most:
            parts.append({})
        parts[-1] |= here
    return [*parts]


def _is_usable(name: Any) -> bool:
    """As a metric's name; looked at once, as a training logs the same ones in every step."""
    usable = isinstance(name, str) and 1 <= len(name) <= MAX_NAME_LENGTH and name.isprintable()
    if usable and len(_usable_names) < MOST_NAMES:
        _usable_names.add(name)
    return usable


def clean_compute(
    compute: Mapping[str, Any] | None, last: Mapping[str, int | float | None], complain: Complain
) -> dict[str, int | float | None]:
    """All of COMPUTE_KEYS, cumulative; a key that is missing or not a number >= 0 keeps its `last` value. None:
    unknown."""
    cleaned = dict(last)
    for name, value in (compute or {}).items():
        number = to_number(value)
        if name not in COMPUTE_KEYS:
            complain(
                f"compute {name}",
                f"compute {shown(name)} is unknown (known: {', '.join(COMPUTE_KEYS)}): dropped",
            )
        elif value is None:
            cleaned[name] = None
        elif number is None or number < 0:
            complain(
                f"compute {name}",
                f"compute {name!r} has the value {_shown(value)}, which is not >= 0: dropped",
            )
        else:
            cleaned[name] = number
    return cleaned


def sound_records(record: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """A record that was refused as the server may take it, in several where it has too many metrics; the later ones
    have no place in the attempt yet. Beside them, what of it cannot be stored."""
    problems: list[str] = []
    say = lambda kind, message: problems.append(message)
    step, compute = record.get("step"), record.get("compute")
    fields = {
        **record,
        "step": min(max(step, MIN_STEP), MAX_STEP) if isinstance(step, int) else step,
        "compute": clean_compute(
            compute if isinstance(compute, dict) else None, dict.fromkeys(COMPUTE_KEYS), say
        ),
    }
    given = record.get("metrics")
    metrics = given if isinstance(given, dict) else {}
    values = {name: value for name, value in metrics.items() if value is not None}
    nulls = {name: None for name in metrics.keys() - values.keys() if _is_usable(name)}
    first, *others = [
        {**fields, "metrics": part}
        for part in parts_of({**nulls, **clean_metrics(values, lambda *_: None, say)})
    ]
    placeless = [{name: each for name, each in other.items() if name != "seq"} for other in others]
    return [first, *placeless], problems
