"""Turns what a trainer passes to `log` into plain JSON values; what cannot be used is named, never raised."""

from collections.abc import Callable, Mapping
from math import isfinite
from reprlib import repr as shown  # of whatever it is, some words; never an exception
from typing import Any

COMPUTE_KEYS = ("device_hours", "flops", "tokens")
MAX_NAME_LENGTH = 250  # the server's limit
MOST_NAMES = 10_000  # that are remembered as usable
_usable_names: set[str] = set()
Complain = Callable[[str, str], None]  # (kind, message): a kind is reported once


def to_number(value: Any) -> int | float | None:
    """A finite number out of a Python, numpy or zero-dimensional tensor value; None for everything else."""
    if type(value) is float:  # most are
        return value if isfinite(value) else None
    if isinstance(value, (str, bytes)) or value is None:
        return None
    if isinstance(value, int):
        return value if type(value) is int else int(value)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
    return number if isfinite(number) else None


def clean_metrics(metrics: Mapping[str, Any], complain: Complain) -> dict[str, int | float]:
    """The finite numbers of `metrics`; the others are dropped with one complaint per name."""
    cleaned: dict[str, int | float] = {}
    for name, value in metrics.items():
        number = to_number(value)
        if name not in _usable_names and not _is_usable(name):
            complain(
                "name",
                f"a metric's name has 1 to {MAX_NAME_LENGTH} printable characters, not {shown(name)}: dropped",
            )
        elif number is None:
            complain(
                f"metric {name}",
                f"metric {name!r} has the value {shown(value)}, which is no finite number: dropped",
            )
        else:
            cleaned[name] = number
    return cleaned


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
                f"compute {name!r} has the value {shown(value)}, which is not >= 0: dropped",
            )
        else:
            cleaned[name] = number
    return cleaned
