"""What was said of the ceiling when: every stored fit of a curve, and forecasts made again from earlier cutoffs."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from django.db.models import F

from scaling import forecast
from webapp.record.runs.models import Run
from webapp.science.curves import ahead, answers, words
from webapp.science.curves.fitting import Curve, Question, fitted_points, or_problem
from webapp.science.curves.models import Fit
from webapp.science.curves.words import AXES, DEFAULT_AXIS, Axis

Payload = dict[str, Any]
MOST_ROWS = 60
MOST_FITS = 2000
FORECAST = ("forecast_status", "forecast_ceiling", "forecast_interval", "forecast_level")


def whole_fits(run: Run, metric: str) -> list[Fit]:
    """The newest stored fits of the whole curve, oldest first. One query."""
    fits = Fit.objects.filter(
        run=run, metric=metric, x=DEFAULT_AXIS, cutoff=None, window_lo=None, form="sigmoid"
    )
    said = {name: F(f"forecast__{name.removeprefix('forecast_')}") for name in FORECAST}  # not the whole band
    return list(fits.defer("outlook", "forecast").annotate(**said).order_by("-id")[:MOST_FITS])[::-1]


def history_payload(fits: Sequence[Fit]) -> Payload:
    """{"rows", "sentence", "chart"} of stored fits, oldest first; rows are newest first."""
    said = [_entry(fit) for fit in fits]
    return {
        "rows": said[::-1],
        "sentence": sentence(said),
        "chart": _chart(said),
    }


def _entry(fit: Fit) -> Payload:
    """One stored fit: what was forecast of the ceiling, when, and from how much compute; and what A of Eq. 1 was."""
    ends = (fit.intervals or {}).get("A") or (None, None)
    interval = (ends[0], ends[1])
    value = fit.params["A"] if fit.params and fit.status == "ok" else None
    return {
        "id": fit.pk,
        "at": fit.created_at,
        "compute": fit.fitted_hi,
        "compute_text": AXES[fit.x].short_text(fit.fitted_hi),
        "n": fit.n,
        "status": fit.status,
        "message": fit.message,
        "ceiling": _forecast(fit),
        "paper": answers.ceiling(fit.status, interval, value, fit.level),
    }


def _forecast(fit: Fit) -> Payload:
    """The forecast ceiling as it was said then, without what later runs taught."""
    status, value, interval, level = (getattr(fit, name, None) for name in FORECAST)
    return ahead.ceiling_from(
        status, value, (interval[0], interval[1]) if interval else None, level or fit.level
    )


def sentence(said: Sequence[Payload]) -> str:
    """Since when the ceiling is known, and how many of the earlier intervals hold what is said now."""
    if not said:
        return "No fit is stored yet: one is made with each batch of evaluations, from the fifth on."
    if not (known := [entry for entry in said if entry["ceiling"]["identified"]]):
        return f"{words.count(len(said), 'forecast')} so far; of none was the ceiling known."
    first, newest = known[0], said[-1]
    since = f"The ceiling was first known at {first['compute_text']}: {first['ceiling']['text']}, "
    since += f"{first['ceiling']['interval_text']}."
    if not newest["ceiling"]["identified"]:
        return f"{since} By the newest forecast it is not known any more."
    if not (earlier := known[:-1]):
        return since
    value = newest["ceiling"]["value"]
    held = sum(_holds(entry["ceiling"], value) for entry in earlier)
    hold = "holds" if held == 1 else "hold"
    of = words.count(len(earlier), "earlier interval")
    return f"{since} Of {of}, {held} {hold} today's {newest['ceiling']['text']}."


def _holds(ceiling: Payload, value: float) -> bool:
    lo, hi = ceiling["lo"], ceiling["hi"]
    return (lo is None or lo <= value) and (hi is None or value <= hi)


def _chart(said: Sequence[Payload]) -> Payload | None:
    """Forecast ceilings with their intervals over compute, those that are not known without a point in them. None where
    nothing was ever said."""
    axis = AXES[DEFAULT_AXIS]
    shown = [entry for entry in said if entry["compute"] is not None]
    unknown = [e for e in shown if not e["ceiling"]["identified"] and e["ceiling"]["lo"] is not None]
    known = [e for e in shown if e["ceiling"]["identified"]]
    if not (unknown or known):
        return None
    return {
        "kind": "history",
        "x": {"key": axis.key, "label": f"{axis.label} at which it was forecast", "short": axis.short},
        "known": {
            "x": [e["compute"] for e in known],
            "y": [e["ceiling"]["value"] for e in known],
            "lo": [0.0 if e["ceiling"]["lo"] is None else e["ceiling"]["lo"] for e in known],
            "hi": [1.0 if e["ceiling"]["hi"] is None else e["ceiling"]["hi"] for e in known],
            "text": [f"{e['ceiling']['text']}, {e['ceiling']['interval_text']}" for e in known],
        },
        "open": {
            "x": [e["compute"] for e in unknown],
            "lo": [e["ceiling"]["lo"] for e in unknown],
            "hi": [e["ceiling"]["hi"] for e in unknown],
            "text": [e["ceiling"]["interval_text"] for e in unknown],
        },
    }


def hindsight_rows(curve: Curve, question: Question, axis: Axis) -> list[Payload]:
    """What fits up to 20 % ... 80 % of the compute would have said of the newest evaluation, against what came."""
    return or_problem(lambda: {"rows": _from_earlier(curve, question, axis)}, question)["rows"]


def _from_earlier(curve: Curve, question: Question, axis: Axis) -> list[Payload]:
    used = curve.only(fitted_points(curve, question))
    cutoffs = _rolling(tuple(used.x), tuple(used.y), used.start, question.level)
    return [_hindsight(row, axis) for row in cutoffs]


@lru_cache(maxsize=32)
def _rolling(x: tuple, y: tuple, start: tuple, level: float) -> tuple[forecast.Cutoff, ...]:
    return forecast.rolling(np.array(x), np.array(y), level=level, r0_observed=start or None)


def _hindsight(row: forecast.Cutoff, axis: Axis) -> Payload:
    known = row.status == "ok"
    interval = row.interval or (None, None)
    return {
        "cutoff": row.cutoff,
        "share": f"{100 * row.fraction:g} %",
        "from_text": axis.short_text(row.cutoff),
        "n": row.n,
        "predicted": words.rate(row.predicted, interval) if known else "–",
        "interval": "–" if row.interval is None else words.span(row.interval),
        "note": "" if known else "ceiling not identified" if row.interval else row.message,
        "came": words.rate(row.came),
        "inside": row.inside,
        "coverage": "–" if row.coverage is None else f"{round(row.coverage * row.n_later)} of {row.n_later}",
    }
