"""Panels of any metrics: what the address asks for, and what the script of the panels draws.

All of the layout is in the query, under the names of FIELDS; on a page with other questions they have a prefix.
"""

import math
from collections.abc import Sequence
from typing import Any

from django.http import QueryDict

from webapp.base.errors import InvalidInput
from webapp.record.runs.models import Run
from webapp.record.runs.thinned import EVERYWHERE, Window
from webapp.science.curves.comparison.panels import MOST_PATTERNS, OVER, panels_of

FIELDS = ("m", "x", "cols", "smooth", "lo", "hi")
WIDTHS = {"1": "One", "2": "Two", "3": "Three"}  # columns of panels
ENDS = {"lo": "Axis from", "hi": "Axis to"}  # the part of the axis that is drawn
LONGEST_PATTERNS, LONGEST_AXIS = 2000, 250


def panels_context(query: QueryDict, url: str, prefix: str = "") -> dict[str, Any]:
    """What the page has before its script asks for the panels at `url`."""
    cols = query.get(f"{prefix}cols")
    return {
        "url": url,
        "prefix": prefix,
        "patterns": " ".join(_patterns(query, prefix)),
        "x": _axis(query, prefix),
        "axes": OVER,
        "cols": cols if cols in WIDTHS else "3",
        "widths": WIDTHS,
        "smooth": _smoothing(query.get(f"{prefix}smooth", "0")),
        "ends": [(name, title, _end(query.get(f"{prefix}{name}", ""))) for name, title in ENDS.items()],
    }


def panels_payload(runs: Sequence[Run], query: QueryDict, prefix: str = "", **asked: Any) -> dict[str, Any]:
    """The panels that the query asks for; over steps, and why, where it names no axis and no metric. asked: as of
    `panels_of`."""
    window = window_of(query, prefix)
    patterns = _patterns(query, prefix)
    try:
        return panels_of(runs, patterns, x=_axis(query, prefix), window=window, **asked) | {"problem": ""}
    except InvalidInput as error:
        return panels_of(runs, patterns, **asked) | {"problem": f"{error} These are over steps."}


def window_of(query: QueryDict, prefix: str = "") -> Window:
    """The part of the axis that the query asks for."""
    lo, hi = (_end(query.get(f"{prefix}{name}", "")) for name in ENDS)
    window = (float(lo) if lo else -math.inf, float(hi) if hi else math.inf)
    return window if window[0] < window[1] else EVERYWHERE


def _patterns(query: QueryDict, prefix: str) -> list[str]:
    text = query.get(f"{prefix}m", "")[:LONGEST_PATTERNS]
    return text.replace(",", " ").split()[:MOST_PATTERNS]


def _axis(query: QueryDict, prefix: str) -> str:
    return query.get(f"{prefix}x", "")[:LONGEST_AXIS] or "step"


def _smoothing(text: str) -> str:
    """The weight of what came before, from 0 to 0.95."""
    try:
        weight = float(text)
    except ValueError:
        return "0"
    return f"{weight:g}" if 0 <= weight <= 0.95 else "0"


def _end(text: str) -> str:
    """A finite number as it was typed, else nothing."""
    text = text.strip()[:30]
    try:
        return text if math.isfinite(float(text)) else ""
    except ValueError:
        return ""
