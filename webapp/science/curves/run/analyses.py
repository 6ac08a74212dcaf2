"""Analyses of one curve. How much the choice of the fitted window matters: fits over several windows, and the start
that the data ask for.

Sigmoid, power law and logistic on the same points: parameters, quality of fit, and who forecasts best.

What was said of the ceiling when: every stored fit of a curve, and forecasts made again from earlier cutoffs.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from django.db.models import F

import scaling
from scaling import forecast, forms, window
from webapp.record.runs.models import Run
from webapp.science.curves import ahead, answers, words
from webapp.science.curves.fitting import Curve, Question, fitted_points, or_problem, remembered, try_fit
from webapp.science.curves.models import Fit
from webapp.science.curves.words import AXES, DEFAULT_AXIS, Axis, Payload

Window = tuple[float | None, float | None]
LEFT_OUT = (0.05, 0.1, 0.2, 0.33)  # shares of the evaluations left out at the start
CUTOFFS = (0.5, 0.75)  # shares of the greatest compute
LABELS = {"sigmoid": "Sigmoid", "power": "Power law", "logistic": "Logistic"}
GRID_POINTS = 80
MOST_ROWS = 60
MOST_FITS = 2000
FORECAST = ("forecast_status", "forecast_ceiling", "forecast_interval", "forecast_level")


def window_payload(curve: Curve, question: Question, axis: Axis) -> Payload:
    """{"problem", "rows", "verdict", "proposal"}; the first row is the window that the page shows."""
    return or_problem(lambda: _compared(curve, question, axis), question)


def _compared(curve: Curve, question: Question, axis: Axis) -> Payload:
    whole = Question(question.x, level=question.level, metric=question.metric, robust=question.robust)
    curve = curve.only(fitted_points(curve, whole))  # what crashed is left out of every window
    x, y = tuple(curve.x), tuple(curve.y)
    proposal = remembered(window.propose, x, y, level=question.level)
    windows = sensible_windows(curve, question, proposal.lo, axis)
    found = remembered(
        window.sensitivity,
        x,
        y,
        windows=tuple(windows),
        level=question.level,
        r0_observed=curve.start or None,
    )
    return {
        "rows": [
            _row(row, label, question, axis) for row, label in zip(found.rows, windows.values(), strict=True)
        ],
        "verdict": _sentence(found.verdict),
        "proposal": {"lo": proposal.lo, "text": _sentence(proposal.reason)},
    }


def sensible_windows(
    curve: Curve, question: Question, proposed: float | None, axis: Axis
) -> dict[Window, str]:
    """Window -> why it is there: the one shown first, then the whole curve, the proposal, later starts, cutoffs.

    Windows that hold the same points as an earlier one, or fewer than a fit needs, are left out.
    """
    wanted: list[tuple[Window, str]] = [((question.window_lo, question.cutoff), "shown above")]
    wanted.append(((None, None), "every evaluation"))
    if proposed is not None:
        wanted.append(((proposed, None), "proposed start"))
    if axis.key == "device_hours":
        wanted.append(((window.PAPER_GPU_HOURS, None), "the paper's start, 1,500 GPU-hours"))
    starts = [(share, _start(curve, share)) for share in LEFT_OUT]
    wanted += [((lo, None), f"without the first {100 * share:g} %") for share, lo in starts if lo is not None]
    last = float(curve.x[-1]) if len(curve.x) else 0.0
    wanted += [((None, share * last), f"up to {100 * share:g} % of the compute") for share in CUTOFFS]
    return _distinct(curve, question, wanted)


def _start(curve: Curve, share: float) -> float | None:
    """The compute of the first evaluation that stays."""
    dropped = int(share * len(curve.x))
    return float(curve.x[dropped]) if dropped else None


def _distinct(curve: Curve, question: Question, wanted: list[tuple[Window, str]]) -> dict[Window, str]:
    """One window for each set of points, under the first of its names; the window shown may have a second one."""
    kept: dict[Window, str] = {}
    known: dict[bytes, Window] = {}
    shown = (question.window_lo, question.cutoff)
    for (lo, hi), label in wanted:
        inside = curve.inside(Question(question.x, hi, lo))
        points = inside.tobytes()
        if known.get(points) == shown:
            kept[shown] += f", {label}"
        elif points not in known and (not kept or inside.sum() >= scaling.MIN_POINTS):
            known[points] = lo, hi
            kept[lo, hi] = label
    return kept


def _row(row: window.Row, label: str, question: Question, axis: Axis) -> Payload:
    lo, cutoff = row.window
    bound = row.a_interval[0] if row.status == "not_identified" else None
    interval = row.a_interval if row.status == "ok" else (bound, None)
    b_lo, b_hi = row.b_interval
    return {
        "label": label,
        "shown": (lo, cutoff) == (question.window_lo, question.cutoff),
        "lo": lo,
        "cutoff": cutoff,
        "window_text": _window_text(lo, cutoff, axis),
        "n": row.n,
        "status": row.status,
        "message": row.message,
        "ceiling": answers.ceiling(row.status, interval, row.a, question.level),
        "b_text": "–" if row.b is None or row.status != "ok" else f"{row.b:.2f}",
        "b_interval": "not identified"
        if row.b is None or row.status != "ok"
        else " to ".join("open" if end is None else f"{end:.2f}" for end in (b_lo, b_hi)),
    }


def _window_text(lo: float | None, cutoff: float | None, axis: Axis) -> str:
    start = "the start" if lo is None else axis.amount(lo)
    end = "the newest" if cutoff is None else axis.short_text(cutoff)
    return f"{start} to {end}"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


def forms_payload(curve: Curve, question: Question, axis: Axis, end_x: float | None) -> Payload:
    """{"problem", "rows", "sentence", "reason", "chart"}; rows in the order of `scaling.FORMS`."""
    return or_problem(lambda: _side_by_side(curve, question, axis, end_x), question)


def _side_by_side(curve: Curve, question: Question, axis: Axis, end_x: float | None) -> Payload:
    used = curve.only(fitted_points(curve, question))  # the same points for all of them
    choice = remembered(
        forms.choose, tuple(used.x), tuple(used.y), level=question.level, r0_observed=used.start or None
    )
    plain = replace(question, robust=False)
    fits = {form: try_fit(used, replace(plain, form=form))[0] for form in scaling.FORMS}
    return {
        "rows": [_form_row(choice.row(form), fits[form], curve, question) for form in scaling.FORMS],
        "sentence": _best(choice),
        "reason": choice.reason[0].upper() + choice.reason[1:] + ".",
        "cutoffs": [words.percent(one.cutoff) for one in choice.rows[0].held_out],
        "chart": _chart(fits, curve, question, axis, end_x),
    }


def _best(choice: forms.Choice) -> str:
    """Which form forecasts later points best, as far as the data tell."""
    ranked = sorted((row.forecast_rmse, row.form) for row in choice.rows if row.forecast_rmse is not None)
    if len(ranked) < 2:
        return "The evaluations do not tell which form forecasts best."
    said = ", ".join(f"{LABELS[form].lower()} {rmse:.4f}" for rmse, form in ranked)
    if choice.by_forecast is None:
        return f"Which form forecasts later evaluations best cannot be told yet: errors {said}."
    return f"The {LABELS[choice.by_forecast].lower()} forecasts later evaluations best: errors {said}."


def _form_row(row: forms.FormRow, fit: "scaling.Fit | None", curve: Curve, question: Question) -> Payload:
    return {
        "form": row.form,
        "label": LABELS[row.form],
        "status": row.status,
        "message": row.message,
        "ceiling": answers.ceiling_of(fit, question.level),
        "parameters": answers.parameter_rows(fit, question.level) if fit else [],
        "r2": _digits(fit.r2 if fit else None),
        "sse": _digits(row.sse),
        "aicc": "–" if row.delta is None else f"{row.delta:.1f}",
        "held_out": [_digits(one.rmse) for one in row.held_out],
        "after": _after(fit, curve, question),
    }


def _after(fit: "scaling.Fit | None", curve: Curve, question: Question) -> str:
    """Error on the evaluations past the cutoff that the reader set; empty without any."""
    later = curve.after(question)
    if not later.any():
        return ""
    if fit is None or fit.params is None:
        return "–"
    return _digits(forecast.score(fit, curve.x[later], curve.y[later]).rmse)


def _digits(value: float | None) -> str:
    return "–" if value is None or not np.isfinite(value) else f"{value:.4f}"


def _chart(
    fits: "dict[str, scaling.Fit | None]", curve: Curve, question: Question, axis: Axis, end_x: float | None
) -> Payload:
    """The forms over the points: each line is solid as far as points were fitted."""
    inside = curve.inside(question)
    role = np.where(inside, "fitted", np.where(curve.after(question), "after", "excluded"))
    return {
        "kind": "forms",
        "x": {"key": axis.key, "label": axis.label, "short": axis.short},
        "points": {"x": curve.x.tolist(), "y": curve.y.tolist(), "role": role.tolist()},
        "lines": [_line(form, fit, curve, end_x) for form, fit in fits.items() if fit and fit.params],
    }


def _line(form: str, fit: "scaling.Fit", curve: Curve, end_x: float | None) -> Payload:
    lo, hi = fit.window
    last = max(end_x or 0.0, 1.25 * float(curve.x[-1]), 1.25 * hi)
    solid, dashed = np.geomspace(lo, hi, GRID_POINTS), np.geomspace(hi, last, GRID_POINTS // 2)
    return {
        "form": form,
        "label": LABELS[form],
        "solid": {"x": solid.tolist(), "y": np.asarray(fit.predict(solid)).tolist()},
        "dashed": {"x": dashed.tolist(), "y": np.asarray(fit.predict(dashed)).tolist()},
    }


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
        "sentence": _said_before(said),
        "chart": _history_chart(said),
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


def _said_before(said: Sequence[Payload]) -> str:
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


def _history_chart(said: Sequence[Payload]) -> Payload | None:
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
    cutoffs = remembered(
        forecast.rolling, tuple(used.x), tuple(used.y), level=question.level, r0_observed=used.start or None
    )
    return [_hindsight(row, axis) for row in cutoffs]


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
