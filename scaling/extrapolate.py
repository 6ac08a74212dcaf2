"""What a run will do at compute it has not reached: saturating forms averaged, with what no form knows on top.

Eq. 1 (arXiv 2510.13786) approaches its ceiling as a power law; most real runs flatten sooner, some later. The largest
error of a forecast is therefore the form, and no interval of one form knows it. Here the mean pass rate is

    R(C) = R0 + (A - R0) s(C) + d(log C),    s = 1 - (1 + (2**nu - 1) (C / C_mid)**B) ** (-1 / nu)

- s: the share of the gain, 1/2 at C_mid, of Burr's type XII (Annals of Mathematical Statistics 13, 1942). `nu` is the
  tail: 1 is Eq. 1, and towards 0 it becomes Weibull's 1 - 2**-((C / C_mid)**B).
- d: what no smooth form follows (the discrepancy of Kennedy and O'Hagan, J. Royal Statistical Society B 63, 2001), an
  Ornstein-Uhlenbeck process in log C.
- A run may have stopped: it follows Eq. 1 up to a share of the compute seen, and stays there.
- Growth beyond the data, which say nothing about it, is that of the form times 1 + kappa l, where l is the share of the
  gain that the form has left: of a run that still rises less is known, and rather more is to come than the form says.

Tails (nu, and where a run stopped) and kinds of d are a few each; for each pair of them B and C_mid lie on a grid that
is drawn in around what the data say, since precise evaluations would fall between its nodes; R0 and A are integrated in
closed form under normal priors cut to 0 <= R0 <= A <= 1. The same data give the same numbers. What comes out is DRAWS
draws of the whole curve, spread evenly over the posterior by a lattice (no random numbers). docs/validation.md says how
good forecasts of real runs are, and how `Prior` was chosen.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.special import ndtr, ndtri

from scaling.curve import Array
from scaling.noise import noise, problem
from scaling.points import InputError, Points, check_fraction, prepare

DRAWS = 2000
MOST_POINTS = 64  # more are averaged within equal steps of log compute
PASSES = 3  # over the grid, each drawn in around what the one before found
WIDE = 3.0  # standard deviations of the posterior that the drawn-in grid spans to either side
UNSEEN = 0.5  # of the distance between nodes: a standard deviation that they cannot tell from none
SMALL_GAIN = 0.02
MAX_CEILING_WIDTH = 0.1  # of the ceiling's 90 % interval, to be called known


@dataclass(frozen=True)
class Prior:
    """nu: tails, and how likely each is. stopped: shares of the last compute at which a run along Eq. 1 may have
    stopped, and how likely that is. log_b, log_mid: mean and standard deviation of log B and of log(C_mid / last
    compute). discrepancy: standard deviation of d, its length in log compute, and how likely that is. r0, a: mean and
    standard deviation; the gain A - R0 is about as likely in each octave. start: standard deviation of a pass rate
    before the first update around R0; real runs do not rise from there as a form does. kappa: mean and standard
    deviation; the growth is multiplied by at least 0 and at most MOST_GROWTH.
    """

    nu: tuple[tuple[float, float], ...] = ((0.05, 0.5), (0.5, 1.0), (1.0, 1.0))
    stopped: tuple[tuple[float, float], ...] = ((0.45, 0.3), (0.65, 0.3), (0.85, 0.3))
    log_b: tuple[float, float] = (-0.4, 0.3)
    log_mid: tuple[float, float] = (0.6, 1.5)
    discrepancy: tuple[tuple[float, float, float], ...] = ((0.003, 4.0, 1.0), (0.015, 4.0, 2.0))
    r0: tuple[float, float] = (0.3, 0.4)
    start: float = 0.2
    a: tuple[float, float] = (0.6, 0.5)
    kappa: tuple[float, float] = (0.1, 0.3)
    reach: float = 5.0  # of the grid in B and C_mid, in standard deviations to either side
    steps: tuple[int, int] = (13, 17)  # of that grid

    @property
    def tails(self) -> Array:
        """[3, t]: nu, log of the share of the last compute where growth stops (infinity where it does not), weight."""
        stops = [(1.0, math.log(share), weight) for share, weight in self.stopped]
        return np.array([(nu, math.inf, weight) for nu, weight in self.nu] + stops).T


MOST_GROWTH = 1.5
PRIOR = Prior()


@dataclass(frozen=True)
class Extrapolation:
    """At each `at` [m]: `value` (median) and the interval [lo, hi] of `level`, of the mean pass rate there; single
    evaluations scatter around it. NaN, and None for the ceiling, where `status` is "failed".

    ceiling, ceiling_interval: for compute without bound. status: "ok", "not_identified" (the tail is not known yet:
    the ceiling's 90 % interval is wider than MAX_CEILING_WIDTH) or "failed"; message: why, in a sentence, else "".
    """

    at: Array
    value: Array
    lo: Array
    hi: Array
    ceiling: float | None
    ceiling_interval: tuple[float, float] | None
    status: str
    message: str
    level: float


def extrapolate(
    compute: ArrayLike,
    reward: ArrayLike,
    at: ArrayLike,
    *,
    level: float = 0.9,
    stderr: ArrayLike | None = None,
    r0_observed: float | Sequence[float] | None = None,
    work: ArrayLike | None = None,
    prior: Prior = PRIOR,
) -> Extrapolation:
    """Forecast the mean pass rate at compute `at` [m] (> 0, same unit) from evaluations [n].

    stderr: of the evaluations, else their scatter tells. r0_observed: pass rates before the first update, of little
    weight. work [n]: what had been done by then, such as tokens, where an hour of compute is not always worth the same:
    the forms go along it, and compute ahead is as much of it as the run's hours were on average. Raises InputError for
    data that cannot be used (as `scaling.fit`) or a level outside (0, 1). A curve that falls or jumps has status
    "failed": no saturating curve describes it.
    """
    (found,) = at_levels(
        compute, reward, at, (level,), stderr=stderr, r0_observed=r0_observed, work=work, prior=prior
    )
    return found


def at_levels(
    compute: ArrayLike,
    reward: ArrayLike,
    at: ArrayLike,
    levels: Sequence[float],
    *,
    stderr: ArrayLike | None = None,
    r0_observed: float | Sequence[float] | None = None,
    work: ArrayLike | None = None,
    prior: Prior = PRIOR,
) -> list[Extrapolation]:
    """As `extrapolate`, for each of `levels`: what the evaluations say is worked out once."""
    for level in levels:
        check_fraction("level", level)
    where = computes(at)
    start = [r0_observed] if isinstance(r0_observed, int | float) else r0_observed
    data = prepare(compute, reward, stderr=stderr, r0_observed=start, work=work)
    if why := problem(data):
        nothing = np.full(len(where), math.nan)
        return [
            Extrapolation(where, nothing, nothing, nothing, None, None, "failed", why, level)
            for level in levels
        ]
    if data.work is None:
        done = where
    else:
        done, data = _work_at(where, data), replace(data, compute=data.work)
    found = Posterior(data, prior)
    draws, ceilings = found.draws(done).T, found.ceilings()
    for drawn in (draws, ceilings):
        drawn.sort()
    low, _, high = _quantiles(ceilings, ends(0.9))
    known = high - low <= MAX_CEILING_WIDTH
    status, message = ("ok", "") if known else ("not_identified", not_known(low, high))
    said = []
    for level in levels:
        lo, value, hi = _quantiles(draws, ends(level))
        bottom, ceiling, top = (float(x) for x in _quantiles(ceilings, ends(level)))
        said.append(Extrapolation(where, value, lo, hi, ceiling, (bottom, top), status, message, level))
    return said


def _work_at(compute: Array, data: Points) -> Array:
    """Work [m] that is done at `compute` [m]: as it was up to the last evaluation, beyond it at the run's mean pace."""
    assert data.work is not None
    between = np.interp(compute, data.compute, data.work)
    outside = [data.work[k] / data.compute[k] * compute for k in (0, -1)]
    return np.where(
        compute < data.compute[0], outside[0], np.where(compute > data.compute[-1], outside[1], between)
    )


def computes(at: ArrayLike) -> Array:
    """`at` as computes [m]. Raises InputError where one is not above zero."""
    where = np.atleast_1d(np.asarray(at, dtype=float))
    if where.ndim != 1 or not (np.isfinite(where) & (where > 0)).all():
        raise InputError("at is not a list of computes above zero")
    return where


def not_known(lo: float, hi: float) -> str:
    """Why a ceiling within [lo, hi] is not called known."""
    return f"the tail is not known yet: the ceiling may lie between {lo:.3f} and {hi:.3f}"


def ends(level: float) -> list[float]:
    """Probabilities below the lower end, the median and the upper end of a central interval of `level`."""
    return [0.5 - 0.5 * level, 0.5, 0.5 + 0.5 * level]


class Posterior:
    """All that the evaluations say, as DRAWS equally likely curves."""

    def __init__(self, data: Points, prior: Prior = PRIOR) -> None:
        """`data` as `scaling.points.prepare` makes it."""
        self._last = math.log(data.compute[-1])
        self._u, self._y, self._variance = _few(np.log(data.compute) - self._last, data.reward, noise(data))
        self._prior = prior
        self._white = [self._whitening(*one[:2]) for one in prior.discrepancy]
        weights, shapes, linear = self._grid(data.r0_observed)
        self.log_evidence = float(np.logaddexp.reduce(weights))
        chosen = _evenly(np.exp(weights - self.log_evidence))
        drawn, self._node = np.unique(chosen, return_inverse=True)  # many draws share a shape
        self._nu, self._stop, self._b, self._mid, kind = shapes[:, drawn]
        bounds = np.searchsorted(kind[self._node], range(len(prior.discrepancy) + 1))  # nodes go by kind
        self._of = [slice(*pair) for pair in pairwise(bounds)]
        self._r0, self._a = _line_ends(linear[:, chosen], *_lattice()[:2])
        faster, self._normal = _normals()
        left = 1.0 - share(-self._mid, self._b, self._nu)[self._node]
        self._growth = np.clip(1.0 + left * (prior.kappa[0] + prior.kappa[1] * faster), 0.0, MOST_GROWTH)
        self._end = self._curve(np.zeros(1))[0]  # at the last evaluation
        self._left = self._y[:, None] - self._curve(self._u)

    def draws(self, at: Array) -> Array:
        """[DRAWS, m]: mean pass rates at compute `at` [m] > 0."""
        u = np.log(at) - self._last
        form = self._curve(u)
        beyond = u > 0
        form[beyond] = self._grown(form[beyond])
        for kind, own in enumerate(self._of):
            gain, sd = self._discrepancy(u, kind)
            form[:, own] += gain @ self._left[:, own]
            form[:, own] += np.outer(sd, self._normal[own])
        return np.clip(form, 0.0, 1.0, out=form).T

    def ceilings(self) -> Array:
        """[DRAWS]: for compute without bound."""
        form = self._grown(np.where(np.isinf(self._stop[self._node]), self._a, self._end))
        for (size, *_), own in zip(self._prior.discrepancy, self._of, strict=True):
            form[own] += size * self._normal[own]
        return np.clip(form, 0.0, 1.0)

    def log_mids(self) -> Array:
        """[DRAWS]: logarithms of C_mid, where half of the gain is reached."""
        return self._last + self._mid[self._node]

    def _grown(self, form: Array) -> Array:
        """What becomes of the form's values [..., DRAWS] beyond the data."""
        return self._end + self._growth * (form - self._end)

    def _curve(self, u: Array) -> Array:
        """[m, DRAWS] of R0 + (A - R0) s at log compute [m]."""
        seen = np.minimum(u[:, None], self._stop) - self._mid
        curve = share(seen, self._b, self._nu).take(self._node, axis=1)
        curve *= self._a - self._r0
        curve += self._r0
        return curve

    def _discrepancy(self, u: Array, kind: int) -> tuple[Array, Array]:
        """Of d at u [m], of one kind: what its mean gains [m, n] of what the curve leaves of the evaluations, and its
        standard deviation [m]."""
        size, length, _ = self._prior.discrepancy[kind]
        across = size**2 * np.exp(-np.abs(u[:, None] - self._u) / length)
        white = self._white[kind]
        gain = (across @ white.T) @ white
        return gain, np.sqrt(np.maximum(size**2 - (across * gain).sum(1), 0.0))

    def _whitening(self, size: float, length: float) -> Array:
        """[n, n]: lower triangular, makes independent unit errors of the evaluations' errors with d in them."""
        apart = np.abs(self._u[:, None] - self._u)
        root = np.linalg.cholesky(size**2 * np.exp(-apart / length) + np.diag(self._variance))
        return np.asarray(solve_triangular(root, np.eye(len(root)), lower=True, check_finite=False))

    def _grid(self, start: Array) -> tuple[Array, Array, Array]:
        """At each node: log weights [g], (nu, stop, B, log C_mid, kind of d) [5, g], and R0, A with their variances and
        covariance [5, g]. start: pass rates before the first update.

        For each tail and kind of d the nodes lie in a box that is drawn in around what the last pass found.
        """
        prior = self._prior
        kinds, (nu, stop, likely) = len(prior.discrepancy), prior.tails
        u = np.minimum(self._u, stop[:, None, None])
        often = np.log(np.outer([one[2] for one in prior.discrepancy], likely))
        often -= np.log(np.exp(often).sum())
        nodes, h = _nodes(prior.steps)
        centre, axes = np.zeros((1, len(nu), 2)), np.zeros((1, len(nu), 2, 2)) + prior.reach * np.eye(2)
        for last in (False,) * (PASSES - 1) + (True,):
            z = centre[:, :, None] + nodes @ np.swapaxes(axes, -1, -2)
            b = np.exp(prior.log_b[0] + prior.log_b[1] * z[..., 0])
            mid = prior.log_mid[0] + prior.log_mid[1] * z[..., 1]
            gained = share(u - mid[..., None], b[..., None], nu[:, None, None])
            gained = gained.reshape(len(gained), -1, len(self._u))  # [1, ...] while the kinds have one box
            found = [self._line(gained[min(k, len(gained) - 1)], k, start) for k in range(kinds)]
            weight = np.stack([one[0] for one in found]).reshape(kinds, *b.shape[1:]) - 0.5 * (z**2).sum(-1)
            if last:
                break
            centre, axes = _drawn_in(z, weight, axes, h)
        volume = np.log(np.abs(np.linalg.det(axes)))
        weight = weight + (often + volume)[..., None]
        shapes = [
            np.broadcast_to(x, weight.shape).ravel()
            for x in (nu[:, None], stop[:, None], b, mid, np.arange(kinds)[:, None, None])
        ]
        return weight.ravel(), np.stack(shapes), np.concatenate([one[1] for one in found], axis=1)

    def _line(self, gained: Array, kind: int, start: Array) -> tuple[Array, Array]:
        """Log of the evidence [g] for shares [g, n], with R0 and A integrated; and those [5, g] (see `_grid`)."""
        size, white = self._prior.discrepancy[kind][0], self._white[kind]
        y, g = white @ self._y, gained @ white.T
        h = white.sum(1) - g
        (m_r, s_r), (m_a, s_a) = self._prior.r0, self._prior.a
        precise = len(start) / (float(self._variance.mean()) + size**2 + self._prior.start**2)
        hh, gg, hg = (np.einsum("gn,gn->g", *pair) for pair in ((h, h), (g, g), (h, g)))
        hh, gg = hh + s_r**-2 + precise, gg + s_a**-2
        hy, gy = (
            h @ y + m_r / s_r**2 + precise * (float(start.mean()) if len(start) else 0.0),
            g @ y + m_a / s_a**2,
        )
        det = hh * gg - hg**2
        r0, a = (hy * gg - gy * hg) / det, (gy * hh - hy * hg) / det
        v_r, v_a, both = gg / det, hh / det, -hg / det
        inside = _mass(r0, v_r, 0.0, 1.0) * _mass(a, v_a, np.clip(r0, 0.0, 1.0), 1.0)
        log_likelihood = 0.5 * (r0 * hy + a * gy - np.log(det) - y @ y) + np.log(np.diag(white)).sum()
        log_gain = np.log(np.maximum(a - r0, 0.0) + SMALL_GAIN)
        return log_likelihood - log_gain + np.log(np.maximum(inside, 1e-300)), np.stack(
            [r0, a, v_r, v_a, both]
        )


def _nodes(steps: tuple[int, int]) -> tuple[Array, Array]:
    """[g, 2] in [-1, 1], and their distances [2]."""
    at = [np.linspace(-1.0, 1.0, n) if n > 1 else np.zeros(1) for n in steps]
    return np.stack([x.ravel() for x in np.meshgrid(*at, indexing="ij")], axis=1), np.array(
        [2.0 / max(n - 1, 1) for n in steps]
    )


def _drawn_in(z: Array, weight: Array, axes: Array, h: Array) -> tuple[Array, Array]:
    """Centres [..., 2] and axes [..., 2, 2] of boxes around what log weights [..., g] of nodes z [..., g, 2] say, in
    boxes of the given axes; h [2]: distances between nodes, in units of them."""
    w = np.exp(weight - weight.max(-1, keepdims=True))
    w /= w.sum(-1, keepdims=True)
    centre = (w[..., None] * z).sum(-2)
    off = z - centre[..., None, :]
    step = axes * (UNSEEN * h)
    covariance = np.swapaxes(off, -1, -2) @ (w[..., None] * off) + step @ np.swapaxes(step, -1, -2)
    return centre, WIDE * np.linalg.cholesky(covariance)


def share(log_ratio: Array, b: Array, nu: Array) -> Array:
    """Share of the gain at log(C / C_mid), good to 1e-16 / nu; has the shape of b * log_ratio. nu > 0."""
    z = np.asarray(b * log_ratio)
    z += np.log(np.expm1(nu * math.log(2.0)))
    with np.errstate(over="ignore"):  # far beyond C_mid: the share is 1
        np.exp(z, out=z)
    z += 1.0
    np.log(z, out=z)  # plain exp and log are several times as fast as expm1 and log1p
    z *= -1.0 / nu
    return np.subtract(1.0, np.exp(z, out=z), out=z)


def _few(u: Array, y: Array, variance: Array) -> tuple[Array, Array, Array]:
    """At most MOST_POINTS of them, by weighted means within equal steps of log compute."""
    if len(u) <= MOST_POINTS:
        return u, y, variance
    place = np.searchsorted(np.linspace(u[0], u[-1], MOST_POINTS + 1)[1:-1], u, side="right")
    weight, at, rate = (np.bincount(place, x / variance, MOST_POINTS) for x in (np.ones(len(u)), u, y))
    full = weight > 0
    return at[full] / weight[full], rate[full] / weight[full], 1.0 / weight[full]


def _quantiles(ascending: Array, probabilities: Sequence[float]) -> Array:
    """[k, ...] of the last axis [..., n], as `numpy.quantile` gives them."""
    n = ascending.shape[-1]
    at = np.array(probabilities) * (n - 1)
    low = np.floor(at).astype(int)
    below, above = ascending[..., low], ascending[..., np.minimum(low + 1, n - 1)]
    return np.moveaxis(below + (above - below) * (at - low), -1, 0)


def _mass(mean: Array, variance: Array, lo: Array | float, hi: float) -> Array:
    sd = np.sqrt(variance)
    return ndtr((hi - mean) / sd) - ndtr((lo - mean) / sd)


def _evenly(weights: Array) -> np.ndarray:
    """Indices [DRAWS], each as often as its weight says."""
    steps = np.cumsum(weights)
    return np.minimum(np.searchsorted(steps, (np.arange(DRAWS) + 0.5) / DRAWS * steps[-1]), len(weights) - 1)


def _cut_normal(mean: ArrayLike, sd: ArrayLike, lo: ArrayLike, hi: float, u: Array) -> Array:
    """Quantiles u in (0, 1) of normal distributions cut to [lo, hi]."""
    m, s, bottom = (np.asarray(x, dtype=float) for x in (mean, sd, lo))
    below, above = ndtr((bottom - m) / s), ndtr((hi - m) / s)
    p = np.clip(below + (above - below) * u, 1e-12, 1 - 1e-12)
    return np.clip(m + s * ndtri(p), bottom, hi)


def _line_ends(linear: Array, u: Array, v: Array) -> tuple[Array, Array]:
    """Draws of R0 and A, at their quantiles u and v, with 0 <= R0 <= A <= 1."""
    r0, a, v_r, v_a, both = linear
    low = np.clip(r0, 0.0, 1.0)
    ceiling = _cut_normal(a, np.sqrt(v_a), low, 1.0, v)
    mean = r0 + both / v_a * (ceiling - a)
    sd = np.sqrt(np.maximum(v_r - both**2 / v_a, 1e-18))
    return _cut_normal(mean, sd, 0.0, 1.0, u), ceiling


@cache
def _normals() -> tuple[Array, Array]:
    """[DRAWS] each: normal quantiles, for kappa and for d."""
    _, _, third, fourth = _lattice()
    return ndtri(third), ndtri(fourth)


@cache
def _lattice() -> Array:
    """[4, DRAWS]: points that fill the unit cube evenly (Roberts' R-sequence: powers of the root of x**5 = x + 1)."""
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** 0.2
    return (0.5 + np.outer(root ** -np.arange(1.0, 5.0), np.arange(1, DRAWS + 1))) % 1.0
