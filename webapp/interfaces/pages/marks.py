"""Marks drawn on the server as inline SVG: the whisker, the sparkline, the small multiple, the legend's keys.

Pure functions from numbers to SVG; colours are classes of static/css/components.css, so both themes work.

Ties drawn as ties: a bar on the left of rows that cannot be told apart.

Spans of time in words, and how long ago something was, in the words of static/js/format.js.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

SCALE_MARGIN = 0.05
Scale = tuple[float, float]
WHISKER_WIDTH, WHISKER_MARGIN, WHISKER_HEIGHT = 190, 6, 18
SERIES = 6  # colours and shapes before they repeat

# Each around (0, 0), radius about 4: colour and shape change together.
SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",  # circle
    "M-3.8 -3.8h7.6v7.6h-7.6z",  # square
    "M0 -4.6l4.8 8.6h-9.6z",  # triangle up
    "M0 -5l5 5l-5 5l-5 -5z",  # diamond
    "M0 4.6l4.8 -8.6h-9.6z",  # triangle down
    "M-4.5 -2.2l2.3 -2.3l2.2 2.3l2.2 -2.3l2.3 2.3l-2.3 2.2l2.3 2.2l-2.3 2.3l-2.2 -2.3l-2.2 2.3l-2.3 -2.3l2.3 -2.2z",
)  # the last: cross
# Drawn in a box of 14 x 14. A triangle warns, an octagon is critical: shape and colour change together.
_ALARM_SHAPES = {
    "warning": "M7 1.2L13.4 12.6H.6z",
    "critical": "M4.3.6h5.4l3.7 3.7v5.4l-3.7 3.7H4.3L.6 9.7V4.3z",
}


def shape_path(index: int) -> SafeString:
    """The path of the shape of series `index`; where the colours start anew the shapes have moved on by one."""
    return mark_safe(SHAPES[(index + index // SERIES) % SERIES])  # nosec B308, B703  # digits and constants


def series_class(index: int) -> str:
    """The CSS class that sets the colour of series `index`."""
    return f"s{index % SERIES + 1}"


def whisker(
    ceiling: dict, scale: Scale = (0.0, 1.0), *, series: int = 0, published: bool = False
) -> SafeString:
    """A ceiling with its interval on a shared scale; where it is not known its range without a point, or an open arrow
    where only a lower bound is known.

    `ceiling` is a payload of `webapp.science.curves.answers.ceiling`. Without even a bound there is only the scale.
    """
    label = ", ".join(filter(None, (f"ceiling {ceiling['text']}", ceiling["interval_text"])))
    inner = _identified(ceiling, scale, series) if ceiling["identified"] else _open(ceiling, scale)
    css = f"whisker {series_class(series)}{' published' if published else ''}"
    ends = (WHISKER_MARGIN, WHISKER_WIDTH - WHISKER_MARGIN)
    return format_html(
        '<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>'
        '<line class="scale" x1="{}" x2="{}" y1="9" y2="9"/>{}</svg>',
        css, WHISKER_WIDTH, WHISKER_HEIGHT, label, label, *ends, inner,
    )  # fmt: skip


def labelled_whisker(ceiling: dict) -> SafeString:
    """A whisker that stands alone, on a scale of tenths around its interval whose ends are written below it."""
    ends = [ceiling[end] for end in ("lo", "hi") if ceiling[end] is not None]
    lo = max(0.0, math.floor(10 * min(ends) - 1) / 10) if ends else 0.0
    hi = min(1.0, math.ceil(10 * max(ends) + 1) / 10) if len(ends) == 2 else 1.0
    return format_html(
        '{}<span class="scale-ends" aria-hidden="true"><span>{}</span><span>{}</span></span>',
        whisker(ceiling, (lo, hi)), f"{lo:.1f}", f"{hi:.1f}",
    )  # fmt: skip


def _place(value: float, scale: Scale) -> float:
    """Pixels of `value` on the whisker's scale; beyond its ends, the end."""
    lo, hi = scale
    share = (value - lo) / (hi - lo) if hi > lo else 0.5
    width = WHISKER_WIDTH - 2 * WHISKER_MARGIN
    return round(WHISKER_MARGIN + width * min(1.0, max(0.0, share)), 1)


def _identified(ceiling: dict, scale: Scale, series: int) -> SafeString:
    lo = _place(scale[0] if ceiling["lo"] is None else ceiling["lo"], scale)
    hi = _place(scale[1] if ceiling["hi"] is None else ceiling["hi"], scale)
    return format_html(
        '<path class="span" d="M{} 9H{}"/><path class="cap" d="M{} 5v8M{} 5v8"/>'
        '<path class="dot" transform="translate({} 9) scale(.8)" d="{}"/>',
        lo, hi, lo, hi, _place(ceiling["value"], scale), shape_path(series),
    )  # fmt: skip


def _open(ceiling: dict, scale: Scale) -> SafeString:
    if ceiling["lo"] is None:
        return mark_safe("")  # nosec B308  # digits and constants
    end = WHISKER_WIDTH - WHISKER_MARGIN
    if ceiling["hi"] is not None:  # a range without a point in it
        lo, hi = _place(ceiling["lo"], scale), _place(ceiling["hi"], scale)
        return format_html('<path class="open" d="M{} 5v8M{} 9H{}M{} 5v8"/>', lo, lo, hi, hi)
    return format_html(
        '<path class="open" d="M{} 9H{}m-5 -4l5 4l-5 4"/>', min(_place(ceiling["lo"], scale), end - 10), end
    )


def key(series: int, *, hollow: bool = False) -> SafeString:
    """The mark of a series for legends and tables."""
    return format_html(
        '<span class="key {}{}"><svg viewBox="-6 -6 12 12" aria-hidden="true"><path d="{}"/></svg></span>',
        series_class(series),
        " hollow" if hollow else "",
        shape_path(series),
    )


def sparkline(values: Sequence[float]) -> SafeString:
    """Values in order as a thin line with a dot at the newest, on their own scale; nothing for fewer than two."""
    shown = [v for v in values if v is not None and math.isfinite(v)]
    if len(shown) < 2:
        return mark_safe('<span class="faint">–</span>')  # nosec B308  # digits and constants
    width, height, margin = 96, 24, 3
    xs = [margin + i * (width - 2 * margin) / (len(shown) - 1) for i in range(len(shown))]
    ys = _heights(shown, height, margin, min(shown), max(shown))
    label = f"pass rate from {shown[0]:.2f} to {shown[-1]:.2f}"
    return format_html(
        '<svg class="spark" viewBox="0 0 {} {}" role="img" aria-label="{}"><path d="{}"/>'
        '<circle cx="{}" cy="{}" r="2.2"/></svg>',
        width, height, label, _path(xs, ys), round(xs[-1], 1), round(ys[-1], 1),
    )  # fmt: skip


@dataclass(frozen=True)
class Limit:
    """A threshold in a small multiple; `upwards`: what lies above it is beyond it."""

    value: float
    upwards: bool
    level: str  # warning or critical: its colour and its dashes


def small_multiple(
    steps: Sequence[float],
    values: Sequence[float],
    *,
    label: str,
    limits: Sequence[Limit] = (),
    sight: Scale = (math.inf, -math.inf),
) -> SafeString:
    """A line over steps in a 200 x 56 box; beyond a limit the ground is tinted. From `sight` to its end all is seen,
    whatever the values are."""
    if len(values) < 2:
        return mark_safe("")  # nosec B308  # digits and constants
    width, height, margin = 200, 56, 4
    lo, hi = _sight(values, limits)
    lo, hi = min(lo, sight[0]), max(hi, sight[1])
    first, span = steps[0], (steps[-1] - steps[0]) or 1
    across = lambda step: (step - first) / span * width
    ys = _heights(values, height, margin, lo, hi)
    bands = format_html_join("", "{}", ((_band(limit, width, height, margin, lo, hi),) for limit in limits))
    return format_html(
        '<svg viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">{}<path d="{}"/></svg>',
        width, height, label, bands, _path([across(step) for step in steps], ys),
    )  # fmt: skip


def _sight(values: Sequence[float], limits: Sequence[Limit]) -> tuple[float, float]:
    """From the least to the greatest value drawn: every limit with some room beyond it."""
    lo, hi = min(values), max(values)
    for limit in limits:
        room = 0.4 * (abs(limit.value) or (hi - lo) or 1.0)
        if limit.upwards:
            lo, hi = min(lo, 0.0), max(hi, limit.value + room)
        else:
            lo, hi = min(lo, limit.value - room), max(hi, limit.value)
    return lo, hi


def _band(limit: Limit, width: int, height: int, margin: int, lo: float, hi: float) -> SafeString:
    """The tinted ground beyond a limit, and the limit as a dashed line."""
    border = round(_heights([limit.value], height, margin, lo, hi)[0], 1)
    top, tall = (0, border) if limit.upwards else (border, round(height - border, 1))
    return format_html(
        '<g class="limit {}"><rect class="alarm" y="{}" width="{}" height="{}"/><path d="M0,{}H{}"/></g>',
        limit.level, top, width, tall, border, width,
    )  # fmt: skip


def alarm_mark(level: str) -> SafeString:
    """The mark of an alarm's level; what it means stands beside it in words."""
    return format_html(
        '<svg class="alarm-mark {}" viewBox="0 0 14 14" aria-hidden="true"><path d="{}"/>'
        '<path class="bang" d="M7 4.6v4M7 10.6v.1"/></svg>',
        level, _ALARM_SHAPES[level],
    )  # fmt: skip


def _heights(values: Sequence[float], height: int, margin: int, lo: float, hi: float) -> list[float]:
    """Pixels from the top; a constant series runs through the middle."""
    span = hi - lo
    share = (lambda v: (v - lo) / span) if span > 0 else (lambda v: 0.5)
    return [height - margin - share(v) * (height - 2 * margin) for v in values]


def _path(xs: Sequence[float], ys: Sequence[float]) -> SafeString:
    points = " L".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
    return mark_safe(f"M{points}")  # nosec B308, B703  # digits and constants


def meter(share: float | None, label: str) -> SafeString:
    """Compute used of the budget as a thin bar; nothing without a budget."""
    if share is None:
        return mark_safe("")  # nosec B308  # digits and constants
    return format_html(
        '<svg class="meter" viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect width="{}" height="4"/></svg>',
        label, round(100 * min(1.0, max(0.0, share)), 1),
    )  # fmt: skip


def shared_scale(ceilings: Sequence[dict[str, Any] | None]) -> tuple[float, float]:
    """One scale for all whiskers of a column: from the least to the greatest end, with a margin, within [0, 1]."""
    ends = [c[end] for c in ceilings if c for end in ("lo", "hi") if c[end] is not None]
    if not ends:
        return 0.0, 1.0
    return max(0.0, min(ends) - SCALE_MARGIN), min(1.0, max(ends) + SCALE_MARGIN)


def tie_stripes(rows: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    """Each row with the class of its tie bar: neighbouring tie groups alternate, who is alone has none."""
    striped, current, parity = [], None, False
    for row in rows:
        if row["tied"] and row["tie_group"] != current:
            current, parity = row["tie_group"], not parity
        striped.append((row, ("odd" if parity else "even") if row["tied"] else ""))
    return striped


def age_words(moment: datetime, now: datetime | None = None) -> str:
    """ "now", "12 min", "3 h", "2 d": whole units, hours up to two days."""
    minutes = ((now or timezone.now()) - moment) // timedelta(minutes=1)
    if minutes < 1:
        return "now"
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // 1440} d"


def ago_words(moment: datetime, now: datetime | None = None) -> str:
    """As a sentence says it: "just now", "12 min ago"."""
    words = age_words(moment, now)
    return "just now" if words == "now" else f"{words} ago"


def duration(span: timedelta) -> str:
    """With two units at most: "40 s", "25 min", "3 h 20 min", "2 d 5 h"."""
    seconds = round(span.total_seconds())
    if seconds < 90:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
