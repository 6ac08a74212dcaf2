"""`fit`: validate, find the global optimum, measure the noise, judge what the data pin."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from scaling import identifiability
from scaling.curve import FORMS, NAMES, Array, curve
from scaling.models import Fit, Likelihood
from scaling.noise import Noise, estimate
from scaling.outliers import inliers
from scaling.points import InputError, Points, Window, check_fraction, prepare
from scaling.ridge import take
from scaling.solve import Problem, Solutions, basins, design, is_flat, scan, solve, window_rise

METHODS = ("fast", "paper")
NOT_BENT = "the curve has not bent enough to pin its ceiling"
MIN_COMPUTES = 4  # different computes; the curve has four parameters

_B_RANGE = (0.02, 50.0)
_B_PER_SPACING = 10.0  # a step between two neighbouring points is as steep as data can show
_BEYOND = 7.0  # C_mid is sought this many e-folds (a factor of 1100) before and after the points
_UNBOUNDED = 10.0  # with the box lifted, R0 and A are sought this many ranges of the data beyond them
_NOISE_FLOOR = 1e-6  # of the range of the rewards
_LOG_MAX = 700.0
_ALIKE = 0.5  # autocorrelation from which a rise that is not established is blamed on it
_MAX_RESTARTS = 3  # the way along the ridge may find a lower basin than the grid did


def fit(
    compute: ArrayLike,
    reward: ArrayLike,
    *,
    form: str = "sigmoid",
    window: Window | None = None,
    r0: float | None = None,
    level: float = 0.9,
    stderr: ArrayLike | None = None,
    r0_observed: Sequence[float] | None = None,
    method: str = "fast",
    bounded: bool = True,
    robust: bool = False,
    work: ArrayLike | None = None,
) -> Fit:
    """Fit a saturating curve (Eq. 1 of arXiv 2510.13786 for "sigmoid") by least squares.

    compute [n]: > 0, any unit, any order; reward [n]: pass rates in [0, 1] (any with `bounded=False`).
    window: (lo, hi) in compute, either may be None. r0: None is free, a number is held fixed.
    stderr [n]: standard errors, if known. r0_observed: rewards measured before the first update, at zero compute.
    robust: leave out crashed evaluations (`scaling.outliers`); `Fit.left_out` and the message name them.
    work [n]: as of `scaling.extrapolate`, for the forecast from this fit.
    level: of the intervals. method: "fast", or "paper" for the procedure of the paper (section A.5).

    The box 0 <= R0 <= A <= 1 holds unless `bounded` is False. Raises InputError for data or options that
    cannot be used; everything else is a Fit whose status says what the data pin.
    """
    _check_options(form, method, r0, bounded)
    level = check_fraction("level", level)
    data = prepare(
        compute, reward, window=window, stderr=stderr, r0_observed=r0_observed, bounded=bounded, work=work
    )
    data, left_out = _without_outliers(data, form, r0, bounded) if robust else (data, ())
    if method == "paper":
        from scaling.paper import fit_paper

        first = float(np.asarray(reward, dtype=float)[np.argmin(np.asarray(compute, dtype=float))])
        fitted = fit_paper(data, form=form, r0=r0, first_reward=first, level=level)
    else:
        fitted = fit_points(data, form=form, r0=r0, level=level, bounded=bounded)
    if not left_out:
        return fitted
    note = f"{len(left_out)} left out as outliers, at compute {', '.join(f'{c:.4g}' for c in left_out)}"
    return replace(fitted, left_out=left_out, message="; ".join(filter(None, [fitted.message, note])))


def _without_outliers(
    data: Points, form: str, r0: float | None, bounded: bool
) -> tuple[Points, tuple[float, ...]]:
    """The points without crashed evaluations, and the computes of those."""
    if hopeless(data):
        return data, ()
    keep = inliers(make_problem(data, form, r0, None, bounded)[0])
    return data.of(keep), tuple(float(c) for c in data.compute[~keep])


def fit_points(
    data: Points,
    *,
    form: str = "sigmoid",
    r0: float | None = None,
    a: float | None = None,
    level: float = 0.9,
    bounded: bool = True,
) -> Fit:
    """Fit prepared points; `a` holds the ceiling fixed, as the comparison of two tied recipes needs."""
    options = {"r0": r0, "a": a, "bounded": bounded}
    blank = _blank(data, form, level, options)
    if reason := hopeless(data):
        return replace(blank, message=reason)
    like = _likelihood(data, form, r0, a, bounded)
    best = like.best
    if is_flat(window_rise(like.problem, best), float(np.ptp(data.reward)))[0]:
        return replace(blank, message="the reward does not rise over the window, so there is no curve to fit")
    params = _params(like, r0, a)
    sse, r2 = goodness(data, form, params)
    result = replace(
        blank,
        params=params,
        sse=sse,
        r2=r2,
        bounds_hit=_bounds_hit(like),
        noise_sd=_noise_sd(like, data),
        autocorrelation=like.noise.rho,
        likelihood=like,
    )
    return _judge(result, like)


def _check_options(form: str, method: str, r0: float | None, bounded: bool) -> None:
    if form not in FORMS:
        raise InputError(f"unknown form {form!r}: use one of {', '.join(FORMS)}")
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}: use one of {', '.join(METHODS)}")
    if method == "paper" and (form != "sigmoid" or not bounded):
        raise InputError("the paper's method fits the sigmoid to pass rates only")
    if r0 is not None:
        if not math.isfinite(r0):
            raise InputError(f"r0 {r0!r} is not a finite number")
        if bounded and not 0.0 <= r0 < 1.0:
            raise InputError(f"r0 {r0:g} is not in [0, 1)")


def _blank(data: Points, form: str, level: float, options: dict) -> Fit:
    return Fit(
        form=form,
        method="fast",
        status="failed",
        message="",
        params=None,
        level=level,
        sse=None,
        r2=None,
        n=len(data.compute),
        window=(float(data.compute[0]), float(data.compute[-1])),
        digest=data.digest,
        data=data,
        options=options,
    )


def hopeless(data: Points) -> str:
    """Why no curve can be fitted to these points at all; empty where one can."""
    if len(np.unique(data.compute)) < MIN_COMPUTES:
        return f"fewer than {MIN_COMPUTES} different computes, so there is no curve to fit"
    if np.ptp(data.reward) == 0:
        return "every reward is the same, so there is no curve to fit"
    return ""


def _likelihood(data: Points, form: str, r0: float | None, a: float | None, bounded: bool) -> Likelihood:
    problem, offset, shift = make_problem(data, form, r0, a, bounded)
    grid = scan(problem)
    ends = basins(problem, grid)
    best = take(ends, np.array([ends.best()]))
    for _ in range(_MAX_RESTARTS):
        like = Likelihood(problem, grid, best, _noise(problem, best, data), offset, shift, ends)
        better = take(like.ridge, np.array([like.ridge.best()]))
        if better.sse[0] >= best.sse[0] * (1.0 - 1e-9):
            break
        best = solve(problem, grid, also=better)
    return like


def _noise(problem: Problem, best: Solutions, data: Points) -> Noise:
    jacobian, residuals = design(problem, best)
    floor = _NOISE_FLOOR * max(float(np.ptp(data.reward)), 1e-9) * math.sqrt(float(problem.w.mean()))
    return estimate(residuals, jacobian, n_chain=len(problem.u), known=data.stderr is not None, floor=floor)


def make_problem(
    data: Points, form: str, r0: float | None, a: float | None, bounded: bool
) -> tuple[Problem, float, float]:
    """The problem in shifted units, with the offset of log compute and the shift of the reward."""
    log_c = np.log(data.compute)
    offset = float(0.5 * (log_c[0] + log_c[-1]))
    shift = float(data.reward.mean())
    u = log_c - offset
    weight = np.ones_like(u) if data.stderr is None else data.stderr**-2.0
    everything = np.concatenate([data.reward, data.r0_observed])
    low, high = float(everything.min()), float(everything.max())
    reach = _UNBOUNDED * max(high - low, 1e-9)
    floor, cap = (0.0, 1.0) if bounded else (low - reach, high + reach)
    problem = Problem(
        form=form,
        u=u,
        y=data.reward - shift,
        w=weight,
        start_y=data.r0_observed - shift,
        start_w=np.full(len(data.r0_observed), np.median(weight)),
        floor=floor - shift,
        cap=cap - shift,
        r0=None if r0 is None else r0 - shift,
        a=None if a is None else a - shift,
        b_range=_b_range(u),
        m_range=_m_range(u, offset),
    )
    return problem, offset, shift


def _b_range(u: Array) -> tuple[float, float]:
    steepest = _B_PER_SPACING * len(u) / float(u[-1] - u[0])
    return math.log(_B_RANGE[0]), math.log(min(max(_B_RANGE[1], steepest), 1e8))


def _m_range(u: Array, offset: float) -> tuple[float, float]:
    """Kept inside what exp() can hold, so that C_mid is always a finite number above zero."""
    return (max(u[0] - _BEYOND, -_LOG_MAX - offset), min(u[-1] + _BEYOND, _LOG_MAX - offset))


def _params(like: Likelihood, r0: float | None, a: float | None) -> dict[str, float]:
    p, best = like.problem, like.best
    values = (
        float(best.r0[0]) + like.shift if r0 is None else r0,
        float(best.a[0]) + like.shift if a is None else a,
        math.exp(float(best.b[0])),
        math.exp(float(best.m[0]) + like.offset),
    )
    params = dict(zip(NAMES, values, strict=True))
    if p.cap + like.shift <= 1.0 + 1e-12 and p.floor + like.shift >= -1e-12:  # the shift rounds
        params["R0"], params["A"] = max(params["R0"], 0.0), min(params["A"], 1.0)
    return params


def goodness(data: Points, form: str, params: dict[str, float]) -> tuple[float, float | None]:
    """(unweighted sum of squared residuals over the points used, R2 or None where all are equal)."""
    fitted = curve(
        data.compute, r0=params["R0"], a=params["A"], b=params["B"], c_mid=params["C_mid"], form=form
    )
    sse = float(((data.reward - fitted) ** 2).sum())
    total = float(((data.reward - data.reward.mean()) ** 2).sum())
    return sse, 1.0 - sse / total if total > 0 else None


def _bounds_hit(like: Likelihood) -> tuple[str, ...]:
    p, best = like.problem, like.best
    hit = []
    if p.r0 is None and best.r0[0] <= p.floor:
        hit.append("R0")
    if p.a is None and best.a[0] >= p.cap:
        hit.append("A")
    for name, value, ends in (("B", best.b[0], p.b_range), ("C_mid", best.m[0], p.m_range)):
        if value <= ends[0] or value >= ends[1]:
            hit.append(name)
    return tuple(hit)


def _noise_sd(like: Likelihood, data: Points) -> float:
    typical = 1.0 if data.stderr is None else float(np.median(data.stderr))
    return math.sqrt(like.noise.variance) * typical


def _judge(result: Fit, like: Likelihood) -> Fit:
    if like.problem.a is not None:
        return replace(result, status="ok", message="the ceiling was held fixed")
    n_shape = 2 + (like.problem.r0 is None)
    rising = identifiability.rises(like, n_shape)
    enough = result.n >= identifiability.MIN_POINTS_TO_IDENTIFY
    bent = enough and rising and identifiability.has_bent(like)
    agree = not bent or identifiability.starts_agree(like)
    if bent and agree:
        remark = f"on its bound: {', '.join(result.bounds_hit)}" if result.bounds_hit else ""
        return replace(result, status="ok", message=remark)
    lower = result.at_least()
    if not enough:
        why = f"{result.n} evaluations; a ceiling takes {identifiability.MIN_POINTS_TO_IDENTIFY}"
    elif not agree:
        why = "another curve with another ceiling fits as well"
    elif rising:
        why = NOT_BENT
    elif like.noise.rho > _ALIKE:
        why = "successive evaluations are too alike to tell a rise from a drift"
    else:
        why = "no rise beyond the noise yet"
    bound = f"A is at least {_floor2(lower or 0.0)} at {100 * result.level:.3g} %"
    return replace(result, status="not_identified", message=f"not identified: {bound} ({why})")


def _floor2(value: float) -> str:
    """Rounded down, because the statement is a lower bound."""
    return f"{math.floor(value * 100) / 100:.2f}"
