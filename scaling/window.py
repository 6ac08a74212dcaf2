"""Where the fit should start: the paper's rule, a rule that asks the data, and how much the answer matters.

A run may rise fast and nearly linearly at first and follow the sigmoid only afterwards (arXiv 2510.13786, A.4). Early
points of such a run pull the whole curve. But each point left out is information lost, and the early part of a clean
sigmoid is what shows its bend, so points are left out only where the data clearly say that they do not belong.

`propose` asks for every start in turn. Each dropped point counts as a parameter of its own (it is then fitted
perfectly), so the windows have one likelihood and can be compared:

    criterion(k) = n_eff log(sse_k / sse_0) + k (n_eff / n) log(n_eff)

with sse_k of the curve fitted to all but the first k points: the Bayesian information criterion (Schwarz 1978),
counting n_eff = n (1 - rho) / (1 + rho) effective points (rho: median over the starts tried). Only those starts count
that are CLEARLY better than none and pass Chow's predictive test (Econometrica 28, 1960), with Bonferroni's correction
for the number of starts tried: F = ((sse_0 - sse_k) / k) / variance, inflated for autocorrelation. The variance is what
the k-window leaves or, if more, what the scatter of the early points says, and the share ONE_SIDE of the points dropped
must lie on one side of the curve, because evaluations that are merely noisier at the start are no other phase. Such
noise can still mislead it: where it falls to a quarter over the run, about one clean curve in fifty is shortened.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import fdtrc

from scaling.curve import Array
from scaling.fitting import fit, fit_points
from scaling.identifiability import MIN_POINTS_TO_IDENTIFY
from scaling.intervals import Interval
from scaling.models import Fit
from scaling.noise import scatter
from scaling.points import InputError, Points, Window, check_fraction, prepare

MAX_SHARE = 0.25  # of the points that may be left out
ALPHA = 0.005  # chance at which a clean curve may lose points, over all the starts tried
CLEARLY = 2.0  # of the criterion: "positive evidence" in Raftery, Sociological Methodology 25, 1995
AHEAD = 8  # points after the start whose scatter also tells how noisy the beginning is
ONE_SIDE = 0.8
PAPER_GPU_HOURS = 1500.0  # arXiv 2510.13786, A.4: "about 1.5k GPU-hours", about one epoch of its data
MOST_STARTS = 12


@dataclass(frozen=True)
class Start:
    """One start that was tried: `dropped` points before compute `lo`; p: of Chow's test, None for the whole curve.

    criterion: difference to the whole curve's, below zero is better. a: ceiling with its interval, at the level of the
    fits; None where that window does not identify it (`status`).
    """

    lo: float
    dropped: int
    criterion: float
    p: float | None
    status: str
    a: float | None
    a_interval: Interval


@dataclass(frozen=True)
class Proposal:
    """lo: first compute to use, None to use every point. reason: why, in words. table: what was tried."""

    lo: float | None
    reason: str
    table: tuple[Start, ...] = ()

    @property
    def window(self) -> Window:
        """As `scaling.fit` takes it."""
        return self.lo, None


def propose(
    compute: ArrayLike,
    reward: ArrayLike,
    *,
    form: str = "sigmoid",
    r0: float | None = None,
    stderr: ArrayLike | None = None,
    bounded: bool = True,
    level: float = 0.9,
    max_share: float = MAX_SHARE,
    alpha: float = ALPHA,
) -> Proposal:
    """The start of the window that the data ask for; the whole curve unless they ask clearly (see the module).

    compute [n] > 0 in any unit, reward [n]. At most `max_share` of the points are left out, and never so many that
    fewer than MIN_POINTS_TO_IDENTIFY stay. `alpha`: chance that points of one clean curve are left out.
    The test says that early points do not lie on the curve of the later ones, not why. Raises InputError.
    """
    check_fraction("alpha", alpha)
    check_fraction("max_share", max_share)
    data = prepare(compute, reward, stderr=stderr, bounded=bounded)
    if not (cuts := _cuts(data, max_share)):
        return Proposal(None, f"{len(data.compute)} evaluations are too few to leave any out")
    options = {"form": form, "r0": r0, "bounded": bounded, "level": level}
    fits = {k: fit_points(data.of(np.arange(k, len(data.compute))), **options) for k in (0, *cuts)}  # type: ignore[arg-type]
    return _decide(data, fits, alpha, max_share)


def _cuts(data: Points, max_share: float) -> list[int]:
    """Numbers of points that may be dropped, at most MOST_STARTS, never between points of equal compute."""
    n = len(data.compute)
    most = min(int(max_share * n), n - MIN_POINTS_TO_IDENTIFY)
    allowed = [k for k in range(1, most + 1) if data.compute[k] > data.compute[k - 1]]
    if len(allowed) <= MOST_STARTS:
        return allowed
    return [allowed[i] for i in np.linspace(0, len(allowed) - 1, MOST_STARTS).round().astype(int)]


def _decide(data: Points, fits: dict[int, Fit], alpha: float, max_share: float) -> Proposal:
    n, cuts = len(data.compute), [k for k in fits if k]
    if fits[0].likelihood is None:
        return Proposal(None, f"the whole curve cannot be fitted ({fits[0].message}), so nothing can be said")
    inflation = _inflation(fits)
    table = tuple(_start(data, fits, k, inflation) for k in fits)
    needed = alpha / len(cuts)
    limit = f"of at most {cuts[-1]} of {n} points ({100 * max_share:.3g} %)"
    worth = [(start.criterion, start.p, start) for start in table if start.p is not None]
    worth = [(criterion, p, start) for criterion, p, start in worth if criterion < -CLEARLY]
    if not worth:
        return Proposal(None, f"every point is used: leaving out any {limit} does not pay for itself", table)
    if not (passing := [(criterion, p, start) for criterion, p, start in worth if p <= needed]):
        _, p, first = min(worth, key=lambda found: found[1])
        why = f"the first {first.dropped} fit a little badly, but chance may do that (p {p:.2g}, needed"
        return Proposal(
            None, f"every point is used: {why} {needed:.2g} with {len(cuts)} starts tried)", table
        )
    _, p, best = min(passing, key=lambda found: found[0])
    why = f"they do not lie on the curve of the later ones (Chow's test, p {p:.1g}, needed {needed:.1g})"
    more = ""
    if best.dropped == cuts[-1]:
        more = f"; that is the most that may be left out ({100 * max_share:.3g} %), so the misfit may go on further"
    return Proposal(
        best.lo,
        f"the first {best.dropped} of {n} points are left out: {why}{more}{_moved(fits, best)}",
        table,
    )


def _moved(fits: dict[int, Fit], best: Start) -> str:
    """What leaving out does to the ceiling, in words."""
    return f". The ceiling: {_ceiling(fits[0])} with them, {_ceiling(fits[best.dropped])} without"


def _ceiling(one: Fit) -> str:
    if one.status != "ok" or one.params is None:
        return "not identified"
    return f"{one.params['A']:.3f} ({_ends(one.interval('A'))})"


def _ends(interval: Interval) -> str:
    return " to ".join("open" if end is None else f"{end:.3f}" for end in interval)


def _start(data: Points, fits: dict[int, Fit], k: int, inflation: float) -> Start:
    one, whole = fits[k], fits[0]
    assert whole.likelihood is not None
    known = one.status == "ok" and one.params is not None
    like = one.likelihood
    return Start(
        lo=float(data.compute[k]),
        dropped=k,
        criterion=math.inf if like is None else _criterion(fits, k, len(data.compute), inflation),
        p=None if k == 0 else 1.0 if like is None else _chow(data, fits, k, inflation),
        status=one.status,
        a=one.params["A"] if known and one.params is not None else None,
        a_interval=one.interval("A") if known else (None, None),
    )


def _criterion(fits: dict[int, Fit], k: int, n: int, inflation: float) -> float:
    """Information criterion of dropping k points, less that of dropping none."""
    n_eff = n / inflation
    whole = fits[0].likelihood
    assert whole is not None
    floor = 1e-6 * n * whole.noise.variance  # exact data leave nothing to compare
    gain = math.log((fits[k].weighted_sse + floor) / (fits[0].weighted_sse + floor))
    return n_eff * gain + k * n_eff / n * math.log(n_eff)


def _inflation(fits: dict[int, Fit]) -> float:
    """Median inflation of variances by autocorrelation, over the windows that leave points out."""
    return statistics.median(
        one.likelihood.noise.inflation if one.likelihood else 1.0 for k, one in fits.items() if k
    )


def _chow(data: Points, fits: dict[int, Fit], k: int, inflation: float) -> float:
    """p of the first k points lying on the curve of the others; 1 where they lie on both sides of it."""
    like = fits[k].likelihood
    assert like is not None
    inflation = max(like.noise.inflation, inflation)
    e = _early_residuals(data, fits[k], k)
    if max((e[:k] < 0).mean(), (e[:k] > 0).mean()) < ONE_SIDE:
        return 1.0
    rho = (inflation - 1.0) / (inflation + 1.0)
    variance = max(like.noise.variance, scatter(e, rho))
    f = max(fits[0].weighted_sse - fits[k].weighted_sse, 0.0) / k / variance / inflation
    return float(fdtrc(k, like.noise.dof, f))


def _early_residuals(data: Points, one: Fit, k: int) -> Array:
    """The first k + AHEAD points against the curve of those after k, in standard errors if they are known."""
    first = slice(0, k + AHEAD)
    e = data.reward[first] - one.predict(data.compute[first])
    return e if data.stderr is None else e / data.stderr[first]


@dataclass(frozen=True)
class Row:
    """One window of a sensitivity table; B and A with their intervals, None where the window does not give them."""

    window: Window
    n: int
    status: str
    message: str
    b: float | None
    b_interval: Interval
    a: float | None
    a_interval: Interval


@dataclass(frozen=True)
class Sensitivity:
    """rows: one a window, the first is the reference. moves: greatest less least A over the windows that identify
    it; width: of the reference's interval of A; None where there is none. verdict: both in words."""

    rows: tuple[Row, ...]
    moves: float | None
    width: float | None
    verdict: str


def sensitivity(compute: ArrayLike, reward: ArrayLike, windows: Sequence[Window], **options) -> Sensitivity:
    """Fits over several windows, side by side (the robustness table of arXiv 2510.13786, A.7).

    windows: (lo, hi) in compute, either end None; the first is the reference. `options` are those of `scaling.fit`. A
    window with too few points is a row with status "failed". Raises InputError without windows.
    """
    if not windows:
        raise InputError("no windows to compare")
    rows = tuple(_row(compute, reward, window, options) for window in windows)
    found = [row.a for row in rows if row.a is not None]
    lo, hi = rows[0].a_interval
    width = hi - lo if rows[0].a is not None and lo is not None and hi is not None else None
    moves = max(found) - min(found) if len(found) > 1 else None
    return Sensitivity(rows, moves, width, _verdict(rows, found, moves, width))


def _row(compute: ArrayLike, reward: ArrayLike, window: Window, options: dict) -> Row:
    none: Interval = (None, None)
    try:
        one = fit(compute, reward, **{**options, "window": window})
    except InputError as error:
        return Row(window, 0, "failed", error.reason, None, none, None, none)
    if one.params is None:
        return Row(window, one.n, one.status, one.message, None, none, None, none)
    a = one.params["A"] if one.status == "ok" else None
    return Row(
        window, one.n, one.status, one.message, one.params["B"], one.interval("B"), a, one.interval("A")
    )


def _verdict(rows: tuple[Row, ...], found: list[float], moves: float | None, width: float | None) -> str:
    silent = len(rows) - len(found)
    rest = (
        f"; {silent} of {len(rows)} windows {'does' if silent == 1 else 'do'} not identify A"
        if silent
        else ""
    )
    if rows[0].a is None:
        return f"the first window does not identify A, so there is nothing to compare with{rest}"
    if moves is None or width is None:
        return f"fewer than two windows give A an interval, so nothing can be said{rest}"
    text = f"A moves by {moves:.3f} over the windows that identify it; its interval is {width:.3f} wide"
    if moves <= 0.5 * width:
        return f"{text}: the choice of window matters less than the noise{rest}"
    if moves <= width:
        return f"{text}: the choice of window matters about as much as the noise{rest}"
    return f"{text}: A depends on the window more than its interval tells, so state the window with it{rest}"
