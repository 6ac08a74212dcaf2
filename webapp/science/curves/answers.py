"""What a fit of Eq. 1 answers, as payloads with words: its ceiling A, how well it fits, and the sentence to paste.

A ceiling never comes without its interval; where the data do not identify it, the answer says so instead.

The parameters of a fit as rows of words: value, interval, and what is not identified said so.

A stored fit: the same question on the same data is the same row, with the digest of the points it used.

What a stored fit knows beyond its parameters: its band, and the compute to 90 % of its gain.

Parameters and their own intervals do not give these, for the parameters' errors go together. They are worked out once,
when the fit is stored, so that a page with a hundred recipes reads them instead of fitting again.
"""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import scaling
from scaling.course import NODES, REACH
from webapp.base import metrics
from webapp.record.runs.models import Run
from webapp.science.curves import words
from webapp.science.curves.fitting import Curve, Question, fit_curve, forecast_of, short
from webapp.science.curves.models import Fit
from webapp.science.curves.words import AXES, Axis, Payload

SHARE_OF_GAIN = 0.9


@dataclass(frozen=True)
class Outlook:
    """Band of the curve at `compute` [n]: lo, hi [n] at the level of the fit. quantile: standard errors in the half
    width of an interval. c90: (value, lo, hi), None where the fit does not identify its ceiling."""

    compute: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    quantile: float
    c90: tuple[float, float | None, float | None] | None

    def band(
        self, at: np.ndarray, curve: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """(lo, hi) at computes, NaN outside what was kept. Between the nodes the distances from `curve`, which is known
        everywhere, are interpolated in log compute."""
        x, nodes = np.log(np.asarray(at, float)), np.log(self.compute)
        outside = (x < nodes[0] - 1e-9) | (x > nodes[-1] + 1e-9)
        value, known = curve(at), curve(self.compute)
        below, above = (np.interp(x, nodes, gap) for gap in (known - self.lo, self.hi - known))
        return np.where(outside, np.nan, value - below), np.where(outside, np.nan, value + above)


def outlook_of(fit: "scaling.Fit") -> Payload | None:
    """What is stored, JSON-ready; None for a failed fit."""
    if fit.params is None or fit.likelihood is None:
        return None
    grid = np.geomspace(REACH[0] * fit.window[0], REACH[1] * fit.window[1], NODES)
    lo, hi = fit.predict_interval(grid)
    return {
        "compute": short(grid),
        "lo": short(lo),
        "hi": short(hi),
        "quantile": fit.likelihood.noise.quantile(fit.level),
        "c90": _compute_to_share(fit),
    }


def read(stored: Payload | None) -> Outlook | None:
    """The stored payload as arrays."""
    if not stored:
        return None
    compute, lo, hi = (np.asarray(stored[name], float) for name in ("compute", "lo", "hi"))
    return Outlook(compute, lo, hi, stored["quantile"], tuple(stored["c90"]) if stored["c90"] else None)


def _compute_to_share(fit: "scaling.Fit") -> list[float | None] | None:
    """Compute to 90 % of the gain A - R0 with its interval; an end that is never reached is None."""
    if fit.status != "ok" or fit.params is None:
        return None
    goal = fit.params["R0"] + SHARE_OF_GAIN * (fit.params["A"] - fit.params["R0"])
    lo, hi = fit.compute_for_interval(goal)
    value = fit.compute_for(goal)
    return [value, None if lo is None else min(lo, value), None if hi is None else max(hi, value)]


TOO_EARLY = "Too early to say: a fit needs at least five evaluations after the first update."
# the target cell asks for the compute to this share of the gain A - R0
UNITS = {key: axis.unit for key, axis in AXES.items()}
HTML_NAMES = {"C_mid": "C<sub>mid</sub>", "R0": "R<sub>0</sub>"}
MEANINGS = {
    "A": "ceiling",
    "B": "steepness",
    "C_mid": "compute at half of the gain",
    "R0": "pass rate at the start",
}
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Goal:
    """A target: `value` in (0, 1), a pass rate (of="rate") or a share of the gain A - R0 (of="gain")."""

    value: float = SHARE_OF_GAIN
    of: str = "gain"

    @property
    def text(self) -> str:
        """After "to": "reach 0.60", "90 % of the gain"."""
        return f"reach {self.value:.4g}" if self.of == "rate" else f"{100 * self.value:.4g} % of the gain"


DEFAULT_GOAL = Goal()


def ceiling(status: str, interval: words.Interval | None, value: float | None, level: float) -> Payload:
    """A as it may be shown. `status` is the fit's; only "ok" gives a value."""
    if status == "ok" and value is not None and interval is not None:
        return {
            "identified": True,
            "value": value,
            "lo": interval[0],
            "hi": interval[1],
            "text": words.rate(value, interval),
            "interval_text": words.between(interval, level),
        }
    lo = interval[0] if interval else None
    return {
        "identified": False,
        "value": None,
        "lo": lo,
        "hi": None,
        "text": "not identified yet",
        "interval_text": f"{words.percent(level)} at least {floored(lo)}" if lo is not None else "no fit yet",
    }


def ceiling_of(fit: "scaling.Fit | None", level: float) -> Payload:
    """The ceiling of a fit, or of no fit at all."""
    if fit is None or fit.params is None:
        return ceiling("failed", None, None, level)
    if fit.status != "ok":
        return ceiling(fit.status, (fit.at_least(), None), None, level)
    return ceiling("ok", fit.interval("A"), fit.params["A"], level)


def shown_intervals(fit: "scaling.Fit") -> dict[str, words.Interval] | None:
    """The intervals of all parameters; that of a ceiling which is not identified is its one-sided bound."""
    if not fit.params:
        return None
    intervals = {name: fit.interval(name) for name in fit.params}
    if fit.status != "ok":
        intervals["A"] = (fit.at_least(), None)
    return intervals


def newest(curve: Curve, question: Question) -> Payload:
    """The newest evaluation, of which nothing is forecast yet."""
    if not len(curve.y):
        none = (
            f"of no evaluation the {UNITS[question.x]} are known"
            if curve.unknown
            else "no evaluation after the first update yet"
        )
        return {"value_text": "–", "sentence": none}
    value, se = float(curve.y[-1]), curve.se[-1]
    text = words.rate(value, (value - se, value + se)) if np.isfinite(se) else words.rate(value)
    return {"value_text": text, "sentence": f"nothing forecast yet{not_known_since(curve, question)}"}


def not_known_since(curve: Curve, question: Question) -> str:
    """How many evaluations came after those that this axis can show: after a sentence, or nothing."""
    n = curve.newer_unknown
    return f"; {words.count(n, 'evaluation')} since, {UNITS[question.x]} not known" if n else ""


def unknown(curve: Curve, axis: Axis) -> str:
    """How many evaluations this axis cannot show, and that no fit on it knows them; empty where it shows all."""
    if not (n := len(curve.unknown)):
        return ""
    of = n + len(curve.x) + len(curve.start)
    those = f"The {UNITS[axis.key]} of {n:,} of {words.count(of, 'evaluation')} are not known"
    return f"{those}: {'it is' if n == 1 else 'they are'} not drawn here and not in the fit. Steps are known of all."


def without_unknown(curve: Curve, axis: Axis) -> str:
    """The same after a summary, which travels without its page: a sentence after a space, or nothing."""
    n = len(curve.unknown)
    said = f" {words.count(n, 'evaluation')} without known {UNITS[axis.key]} {'is' if n == 1 else 'are'} left out."
    return said if n else ""


def compute_between(interval: words.Interval, level: float, axis: Axis) -> str:
    """An interval of the compute to a target: an end that is open is never reached."""
    lo, hi = (("never" if end is None else axis.amount(end)) for end in interval)
    return f"{words.percent(level)} {lo} to {hi}"


def fit_title(fit: "scaling.Fit | None", axis: Axis) -> str:
    """ "Eq. 1 fitted on 0.1 to 0.9 device-hours": the window, in the axis' own unit."""
    if fit is None:
        return "Eq. 1"
    return f"Eq. 1 fitted on {axis.amount(fit.window[0])} to {axis.text(fit.window[1])}"


def fit_sentence(fit: "scaling.Fit | None", message: str = "") -> str:
    """What was fitted and how well."""
    if fit is None:
        return message or "No fit yet."
    r2 = f", R² {fit.r2:.3f}" if fit.r2 is not None and np.isfinite(fit.r2) else ""
    message = f" {fit.message[0].upper()}{fit.message[1:]}." if fit.message else ""
    return f"{words.count(fit.n, 'point')}{r2}.{message}"


def ceiling_sentence(ceiling: Payload, level: float) -> str:
    """ "A 0.610, 90 % 0.596 to 0.627", or "A not identified yet: at least 0.48 (90 %)"."""
    if ceiling["identified"]:
        return f"A {ceiling['text']}, {ceiling['interval_text']}"
    if ceiling["lo"] is None:
        return "A not identified: no fit yet"
    return f"A not identified yet: at least {floored(ceiling['lo'])} ({words.percent(level)})"


def floored(bound: float) -> str:
    """A lower bound with two decimals, rounded down: rounding up would promise more than is known."""
    return f"{math.floor(100 * bound) / 100:.2f}"


def summary(fit: "scaling.Fit | None", axis: Axis, level: float) -> str:
    """The parameters of Eq. 1 with their intervals, and from what, for a sentence that is pasted."""
    if fit is None or fit.params is None:
        return "No curve of Eq. 1 is fitted."
    said, unit = f"Eq. 1: {ceiling_sentence(ceiling_of(fit, level), level)}", UNITS[axis.key]
    if fit.status == "ok":
        two = lambda value: f"{value:.2f}"
        b = _with_interval(two(fit.params["B"]), fit.interval("B"), two)
        c_mid = _with_interval(words.amount(fit.params["C_mid"]), fit.interval("C_mid"), words.amount)
        said += f"; B {b}; half of the gain at {c_mid} {unit}"
    span = " to ".join(axis.amount(end) for end in fit.window)
    left = f", {words.count(len(fit.left_out), 'outlier')} left out" if fit.left_out else ""
    return f"{said}. From {words.count(fit.n, 'evaluation')}, {span} {unit}{left}."


def _with_interval(value: str, interval: words.Interval, show) -> str:
    lo, hi = ("open" if end is None else show(end) for end in interval)
    return f"{value} ({lo} to {hi})"


def parameter_rows(fit: "scaling.Fit", level: float) -> list[dict[str, str]]:
    """Parameters with their intervals in words; A without a point where it is not identified."""
    intervals, params = shown_intervals(fit) or {}, fit.params or {}
    return [
        {"name": name, "html_name": HTML_NAMES.get(name, name), "meaning": meaning}
        | shown(name, params[name], intervals[name], known=fit.status == "ok")
        for name, meaning in MEANINGS.items()
        if params
    ]


def shown(name: str, value: float, interval: words.Interval, *, known: bool = True) -> dict[str, str]:
    """ "value_text" and "interval_text" of a parameter of a fit whose ceiling is `known`, or is not identified."""
    if not known and name != "R0":  # where the curve starts is known before where it ends
        bound = interval[0] if name == "A" else None
        text = f"at least {floored(bound)}" if bound is not None else "not identified"
        return {"value_text": "–", "interval_text": text}
    ends = [_text(name, end, interval) if end is not None else "open" for end in interval]
    return {"value_text": _text(name, value, interval), "interval_text": f"{ends[0]} to {ends[1]}"}


def _text(name: str, value: float, interval: words.Interval) -> str:
    if name == "B":
        return f"{value:.2f}"
    return words.amount(value) if name == "C_mid" else words.rate(value, interval)


@dataclass(frozen=True)
class Refit:
    """What a refit did: the stored fit (None: too few points) and whether it is new."""

    fit: Fit | None
    created: bool


def store_fit(run: Run, curve: Curve, question: Question) -> Refit:
    """Fit and keep; the same question on the same data is the same row."""
    try:
        fit = fit_curve(curve, question)
    except scaling.InputError as error:
        log.info("run %s: no fit yet: %s", run.pk, error)
        return Refit(None, created=False)
    same: dict[str, Any] = {
        "run": run,
        "metric": question.metric,
        "x": question.x,
        "form": question.form,
        "method": fit.method,
        "level": question.level,
        "window_lo": question.window_lo,
        "cutoff": question.cutoff,
        "data_digest": fit.digest,
    }
    row, created = Fit.objects.filter(**same).first(), False
    if row is None:
        row, created = Fit.objects.get_or_create(**same, defaults=outcome_of(fit))
    if row.forecast is None:  # stored by a release that knew none
        row.forecast = forecast_of(fit)
        row.save(update_fields=["forecast"])
    if created:
        metrics.FITS.labels(row.status).inc()
    return Refit(row, created)


def outcome_of(fit: "scaling.Fit") -> dict[str, Any]:
    """The columns of a stored fit that say what came out."""
    return {
        "status": fit.status,
        "message": fit.message,
        "params": fit.params,
        "intervals": shown_intervals(fit),
        "sse": fit.sse,
        "r2": fit.r2,
        "n": fit.n,
        "fitted_lo": fit.window[0],
        "fitted_hi": fit.window[1],
        "outlook": outlook_of(fit),
        "forecast": forecast_of(fit),
    }
