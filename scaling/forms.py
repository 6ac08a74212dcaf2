"""Which form of curve: sigmoid, power law and logistic side by side, by fit and by forecast.

Two criteria, because they can disagree, and each is blind to something:

1. How well it fits all points, paid for by its parameters (Hurvich and Tsai, Biometrika 76, 1989):

       AICc = n_eff log(sse / n) + 2 k + 2 k (k + 1) / (n_eff - k - 1)

   with k the free parameters of the curve plus one for the noise, and n_eff = n (1 - rho) / (1 + rho) evaluations'
   worth of information under autocorrelation rho, which is that of the best fitting form for all of them, so that a
   bad form cannot pass its misfit off as correlated noise. Less than TOLD_APART between two forms says nothing.
2. How well it forecasts points it has not seen: fitted up to a share of the compute, scored on the rest (the paper's
   protocol, section 2.1, takes half). Two forms are told apart by the mean difference of their squared errors, against
   its standard error (Diebold and Mariano, J. Business and Economic Statistics 13, 1995). One curve is one sample of
   what a form does: the held-out points share the errors of one fit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from scaling.curve import FORMS, Array
from scaling.fitting import fit
from scaling.forecast import score
from scaling.intervals import Interval
from scaling.models import Fit
from scaling.points import InputError, Points, check_fraction, prepare

CUTOFFS = (0.5, 0.7)  # of the greatest compute
TOLD_APART = 2.0  # Burnham and Anderson, Model Selection and Multimodel Inference, 2.6

Difference = tuple[float, float, float]


@dataclass(frozen=True)
class HeldOut:
    """A form fitted up to `compute` (the share `cutoff` of all) and scored on the n points after it.

    rmse, mean_error (came less predicted), coverage of the band for new evaluations: None without a curve. status
    and a, a_interval: of that fit; a is None where it does not identify its ceiling. errors: [n], for comparing.
    """

    cutoff: float
    compute: float
    n: int
    status: str
    rmse: float | None
    mean_error: float | None
    coverage: float | None
    a: float | None
    a_interval: Interval
    errors: tuple[float, ...] = ()


@dataclass(frozen=True)
class FormRow:
    """One form: its fit to all points, and its forecasts, one a cutoff.

    aicc, delta (to the least) and weight (Akaike's, of all forms 1): None for a failed fit or where n_eff has no room
    for the parameters. a: None where the ceiling is not identified.
    """

    form: str
    status: str
    message: str
    a: float | None
    a_interval: Interval
    sse: float | None
    aicc: float | None
    delta: float | None
    weight: float | None
    held_out: tuple[HeldOut, ...]

    @property
    def forecast_rmse(self) -> float | None:
        """Root of the mean square over the cutoffs; None where one of them has no forecast."""
        found = [one.rmse for one in self.held_out if one.rmse is not None]
        if not found or len(found) < len(self.held_out):
            return None
        return math.sqrt(sum(x * x for x in found) / len(found))


@dataclass(frozen=True)
class Choice:
    """rows: one a form. by_criterion, by_forecast: the form that each prefers, None where it cannot tell the best two
    apart. disagree: both tell, and differ. form: what the two support together, else None. reason: in words."""

    rows: tuple[FormRow, ...]
    n: int
    n_effective: float
    by_criterion: str | None
    by_forecast: str | None
    reason: str

    @property
    def disagree(self) -> bool:
        return None not in (self.by_criterion, self.by_forecast) and self.by_criterion != self.by_forecast

    @property
    def form(self) -> str | None:
        return None if self.disagree else self.by_criterion or self.by_forecast

    def row(self, form: str) -> FormRow:
        """The row of one form; KeyError for another name."""
        found = {row.form: row for row in self.rows}
        return found[form]


def choose(
    compute: ArrayLike,
    reward: ArrayLike,
    *,
    forms: Sequence[str] = FORMS,
    cutoffs: Sequence[float] = CUTOFFS,
    level: float = 0.9,
    **options,
) -> Choice:
    """Fit every form to the same points and say which the data support (see the module).

    `options` are those of `scaling.fit` but `form` and `method`; the points outside `window` are left out of
    everything. A cutoff before which there are too few points, or after which there are none, has no
    forecast. Raises InputError for unusable points or options.
    """
    for cutoff in cutoffs:
        check_fraction("cutoff", cutoff)
    if not forms:
        raise InputError("no forms to choose from")
    data = _prepare(compute, reward, options)
    options["level"] = level
    fits = [_fit(data, form, options) for form in forms]
    n_eff = _effective(fits)
    criteria = [_aicc(one, n_eff) for one in fits]
    held = [tuple(_held_out(data, form, cutoff, options) for cutoff in cutoffs) for form in forms]
    rows = _rows(fits, criteria, held)
    by_criterion, first = _by_criterion(rows)
    by_forecast, second = _by_forecast(rows, level, _inflation(fits))
    reason = _reason(by_criterion, by_forecast, first, second)
    return Choice(rows, len(data.compute), n_eff, by_criterion, by_forecast, reason)


def _prepare(compute: ArrayLike, reward: ArrayLike, options: dict) -> Points:
    """The points; their options leave the dictionary, what `fit` needs of them comes back through the points."""
    return prepare(
        compute,
        reward,
        window=options.pop("window", None),
        stderr=options.pop("stderr", None),
        r0_observed=options.pop("r0_observed", None),
        bounded=options.get("bounded", True),
    )


def _fit(data: Points, form: str, options: dict, until: float | None = None) -> Fit:
    return fit(
        data.compute,
        data.reward,
        form=form,
        window=(None, until),
        stderr=data.stderr,
        r0_observed=data.r0_observed.tolist(),
        **options,
    )


def _best(fits: Sequence[Fit]) -> Fit | None:
    """The form that fits all points best."""
    found = [one for one in fits if one.likelihood is not None]
    return min(found, key=lambda one: one.weighted_sse) if found else None


def _inflation(fits: Sequence[Fit]) -> float:
    best = _best(fits)
    return 1.0 if best is None or best.likelihood is None else best.likelihood.noise.inflation


def _effective(fits: Sequence[Fit]) -> float:
    one = fits[0]
    given = 0 if one.data is None else len(one.data.r0_observed)
    return (one.n + given) / _inflation(fits)


def _aicc(one: Fit, n_eff: float) -> float | None:
    if one.likelihood is None or one.data is None:
        return None
    k = 4 + (one.options.get("r0") is None)  # A, B, C_mid, the noise, and R0
    if n_eff - k - 1 <= 0:
        return None
    p = one.likelihood.problem
    floor = 1e-12 * float(np.ptp(one.data.reward)) ** 2 * float(p.w.mean())  # exact data have no noise
    n = one.n + len(one.data.r0_observed)
    return n_eff * math.log(one.weighted_sse / n + floor) + 2 * k + 2 * k * (k + 1) / (n_eff - k - 1)


def _held_out(data: Points, form: str, cutoff: float, options: dict) -> HeldOut:
    limit = cutoff * float(data.compute[-1])
    later = data.compute > limit
    n = int(later.sum())
    none = HeldOut(cutoff, limit, n, "failed", None, None, None, None, (None, None))
    try:
        one = _fit(data, form, options, limit)
    except InputError:
        return none
    if one.params is None or n == 0:
        return none
    c, r = data.compute[later], data.reward[later]
    scored = score(one, c, r)
    known = one.status == "ok"
    return HeldOut(
        cutoff,
        limit,
        n,
        one.status,
        scored.rmse,
        scored.mean_error,
        scored.coverage,
        one.params["A"] if known else None,
        one.interval("A"),
        tuple((r - one.predict(c)).tolist()),
    )


def _rows(
    fits: Sequence[Fit], criteria: Sequence[float | None], held: Sequence[tuple[HeldOut, ...]]
) -> tuple[FormRow, ...]:
    least = min((c for c in criteria if c is not None), default=0.0)
    deltas = [None if c is None else c - least for c in criteria]
    total = sum(math.exp(-0.5 * d) for d in deltas if d is not None)
    return tuple(
        FormRow(
            form=one.form,
            status=one.status,
            message=one.message,
            a=one.params["A"] if one.params is not None and one.status == "ok" else None,
            a_interval=one.interval("A"),
            sse=one.sse,
            aicc=c,
            delta=d,
            weight=None if d is None else math.exp(-0.5 * d) / total,
            held_out=h,
        )
        for one, c, d, h in zip(fits, criteria, deltas, held, strict=True)
    )


def _by_criterion(rows: Sequence[FormRow]) -> tuple[str | None, str]:
    """(the form that fits best or None, in words)."""
    if not (order := sorted((row.delta, row.form) for row in rows if row.delta is not None)):
        return None, "there are too few evaluations to compare fits"
    if len(order) == 1:
        return order[0][1], f"only the {order[0][1]} can be fitted"
    (_, best), (delta, second) = order[:2]
    if delta < TOLD_APART:
        return None, f"{best} and {second} fit about equally well (AICc {delta:.1f} apart)"
    return best, f"the {best} fits best (AICc lower than the {second}'s by {delta:.1f})"


def _by_forecast(rows: Sequence[FormRow], level: float, inflation: float) -> tuple[str | None, str]:
    """(the form that forecasts best or None, in words)."""
    order = sorted((row.forecast_rmse, row.form, row) for row in rows if row.forecast_rmse is not None)
    if len(order) < 2:
        return None, "there are too few evaluations to compare forecasts"
    (rmse, best, leader), (other, second, runner_up) = order[:2]
    text = f"{other:.4f} for the {second}, over {_shares(leader)} of the compute"
    if not _beats(leader, runner_up, level, inflation):
        return None, f"the forecasts cannot be told apart (RMSE {rmse:.4f} for the {best}, {text})"
    return best, f"the {best} forecasts best (RMSE {rmse:.4f}, {text})"


def _shares(row: FormRow) -> str:
    return "cutoffs at " + " and ".join(f"{100 * one.cutoff:.3g} %" for one in row.held_out)


def _beats(one: FormRow, other: FormRow, level: float, inflation: float) -> bool:
    """Whether `one` is clearly better at some cutoff and clearly worse at none."""
    pairs = zip(one.held_out, other.held_out, strict=True)
    found = [difference(np.array(a.errors), np.array(b.errors), level, inflation) for a, b in pairs]
    return any(hi < 0 for _, _, hi in found) and not any(lo > 0 for _, lo, _ in found)


def difference(one: Array, other: Array, level: float, inflation: float = 1.0) -> Difference:
    """(mean of one**2 - other**2, lo, hi) of forecast errors [n] of the same points; `inflation` of the variance of a
    mean by autocorrelation, (1 + rho) / (1 - rho). Unbounded for fewer than three points."""
    d = one**2 - other**2
    n = len(d)
    mean = float(d.mean()) if n else 0.0
    if n < 3:
        return mean, -math.inf, math.inf
    se = float(d.std(ddof=1)) * math.sqrt(inflation / n)
    reach = float(stdtrit(max(n / inflation - 1.0, 1.0), 0.5 + 0.5 * level)) * se
    return mean, mean - reach, mean + reach


def _reason(by_criterion: str | None, by_forecast: str | None, first: str, second: str) -> str:
    if by_criterion is None and by_forecast is None:
        return f"the data do not choose: {first}, and {second}"
    if by_criterion is None or by_forecast is None:
        return f"{first}; {second}"
    if by_criterion == by_forecast:
        return f"both criteria choose the {by_criterion}: {first}; {second}"
    return f"the criteria disagree: {first}, but {second}; trust neither ceiling without its forecast"
