"""What a run's fit says at any compute, whether it was made just now or stored, and what several runs say together.

A number is the same on every page: the comparison and the leaderboard both ask here.

Stored fits as numbers, remembered by this process.

Thousands of them stand behind one leaderboard. A row never changes, so what was read once need not be read again: which
row is a run's newest is asked each time, its numbers are read where this process does not know them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

import numpy as np
from cachetools import LRUCache

import scaling
from scaling import curve
from scaling.course import Course, normal_quantile
from scaling.recipes import Columns, cut_to_rates, log_columns, pool_columns
from webapp.science.curves import answers, fitting
from webapp.science.curves.models import Fit
from webapp.science.curves.selectors import halfway_ids, latest_ids
from webapp.science.curves.words import DEFAULT_AXIS, DEFAULT_LEVEL, Interval, Payload

PARAMETERS = ("A", "B", "C_mid", "R0")
LOGARITHMIC = ("B", "C_mid")
Estimate = tuple[float, float | None, float | None]  # value, lo, hi; an end is None where it is open
MOST_FITS = 10_000
_lock = Lock()


@dataclass(frozen=True)
class RunFit:
    """One run's fit. window: first and last compute used; quantile: standard errors in half an interval; live: the fit
    itself where it was made now; outlook: what was stored beside it otherwise; forecast: forms averaged, as stored."""

    status: str
    params: dict[str, float] | None
    intervals: dict[str, Interval]
    window: tuple[float, float]
    n: int
    r2: float | None
    message: str
    quantile: float
    live: "scaling.Fit | None" = None
    outlook: answers.Outlook | None = None
    forecast: Course | None = None

    @property
    def identified(self) -> bool:
        """Whether the ceiling is pinned, with an interval that is closed."""
        ends = self.intervals.get("A", (None, None))
        return self.status == "ok" and self.params is not None and None not in ends

    def values(self, at: np.ndarray) -> np.ndarray:
        """The curve at computes; NaN without one."""
        if self.params is None:
            return np.full(len(at), np.nan)
        p = self.params
        return np.asarray(curve.curve(at, r0=p["R0"], a=p["A"], b=p["B"], c_mid=p["C_mid"]))

    def band(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The curve's interval at computes; NaN where it is not known."""
        if self.live is not None and self.params is not None:
            return self.live.predict_interval(at)
        if self.outlook is None:
            return np.full(len(at), np.nan), np.full(len(at), np.nan)
        lo, hi = self.outlook.band(at, self.values)
        value = self.values(at)
        return np.minimum(lo, value), np.maximum(hi, value)


def of_live(fit: "scaling.Fit | None") -> RunFit | None:
    """A fit that was made now."""
    if fit is None:
        return None
    quantile = fit.likelihood.noise.quantile(fit.level) if fit.likelihood else normal_quantile(fit.level)
    return RunFit(
        fit.status, fit.params, answers.shown_intervals(fit) or {}, fit.window, fit.n, fit.r2, fit.message,
        quantile, live=fit,
    )  # fmt: skip


def of_crash(n: int) -> RunFit:
    """In place of a fit of n points that crashed."""
    return RunFit("failed", None, {}, (0.0, 0.0), n, None, fitting.CRASHED, normal_quantile(DEFAULT_LEVEL))


def of_stored(row: Fit | None) -> RunFit | None:
    """A stored fit."""
    if row is None:
        return None
    outlook = answers.read(row.outlook)
    ends: dict[str, Interval] = {name: (lo, hi) for name, (lo, hi) in (row.intervals or {}).items()}
    return RunFit(
        row.status, row.params, ends, (row.fitted_lo or 0.0, row.fitted_hi or 0.0), row.n, row.r2, row.message,
        outlook.quantile if outlook else normal_quantile(row.level), outlook=outlook,
        forecast=fitting.read(row.forecast),
    )  # fmt: skip


def identified(fits: Sequence[RunFit | None]) -> list[RunFit]:
    """Those that pin their ceiling."""
    return [fit for fit in fits if fit is not None and fit.identified]


def curve_at(fits: Sequence[RunFit | None], at: np.ndarray) -> Columns:
    """The mean curve of the runs at computes [m] with its interval; of one run, its own. NaN without a curve."""
    if not (usable := [fit for fit in fits if fit is not None and fit.params is not None]):
        nothing = np.full((1, len(at)), np.nan)
        return pool_columns(nothing, nothing, nothing, quantile=1.0)
    bands = [fit.band(at) for fit in usable]
    return cut_to_rates(
        pool_columns(
            [fit.values(at) for fit in usable],
            [_open(lo, -np.inf) for lo, _ in bands],
            [_open(hi, np.inf) for _, hi in bands],
            quantile=[fit.quantile for fit in usable],
            level=DEFAULT_LEVEL,
        )
    )


def pooled(
    groups: Sequence[Sequence[RunFit]], one: Callable[[RunFit], Estimate], *, log: bool
) -> list[Estimate]:
    """What the runs of each group say together, from what `one` of them says; as logarithms where `log`.

    The value is NaN for a group where no run says anything with a closed interval. All groups in one go.
    """
    most = max((len(group) for group in groups), default=0)
    shape = (max(most, 1), len(groups))
    value, lo, hi, quantile = (np.full(shape, fill) for fill in (np.nan, np.nan, np.nan, 1.0))
    show = (lambda v: np.log(v) if v > 0 else -np.inf) if log else float
    for column, group in enumerate(groups):
        for row, fit in enumerate(group):
            said = one(fit)
            value[row, column], quantile[row, column] = show(said[0]), fit.quantile
            lo[row, column] = -np.inf if said[1] is None else show(said[1])
            hi[row, column] = np.inf if said[2] is None else show(said[2])
    columns = pool_columns(value, lo, hi, quantile=quantile, level=DEFAULT_LEVEL)
    columns = log_columns(columns) if log else cut_to_rates(columns)
    return [_said(*ends) for ends in zip(columns.value, columns.lo, columns.hi, strict=True)]


def _said(value: float, lo: float, hi: float) -> Estimate:
    ends = (float(end) if np.isfinite(end) else None for end in (lo, hi))
    return float(value), *ends  # type: ignore[return-value]


def parameters(groups: Sequence[Sequence[RunFit]], name: str) -> list[Estimate]:
    """A, B, C_mid or R0 of the runs of each group together: what `scaling.seeds.joint` gives."""
    said = lambda fit: ((fit.params or {})[name], *fit.intervals[name])
    return pooled(groups, said, log=name in LOGARITHMIC)


def ceilings(groups: Sequence[Sequence[RunFit | None]]) -> list[Payload]:
    """The ceiling of each group, from its runs that pin one, as it may be shown; a run that does not leaves its upper
    end open. Where none does, the least that any allows."""
    found = parameters([identified(group) for group in groups], "A")
    return [_ceiling(group, *said) for group, said in zip(groups, found, strict=True)]


def _ceiling(fits: Sequence[RunFit | None], a: float, lo: float | None, hi: float | None) -> Payload:
    if np.isfinite(a):
        return answers.ceiling("ok", (lo, None if _leaves_open(fits) else hi), a, DEFAULT_LEVEL)
    bounds = [fit.intervals["A"][0] for fit in fits if fit is not None and "A" in fit.intervals]
    known = [bound for bound in bounds if bound is not None]
    return answers.ceiling("not_identified", (min(known) if known else None, None), None, DEFAULT_LEVEL)


def computes_to_share(groups: Sequence[Sequence[RunFit | None]]) -> list[Estimate | None]:
    """Compute to 90 % of the gain of each group, from its runs that pin a ceiling, open as `ceilings` are; None without
    one."""
    pinned = [identified(group) for group in groups]
    found = pooled(pinned, _own_compute_to_share, log=True)
    shares = [_share(group, said) if group else None for group, said in zip(pinned, found, strict=True)]
    return [
        share and (share[0], share[1], None if _leaves_open(group) else share[2])
        for group, share in zip(groups, shares, strict=True)
    ]


def _leaves_open(fits: Sequence[RunFit | None]) -> bool:
    """Whether a run may rise beyond all that the others say: it has a fit and no ceiling."""
    return any(fit is not None and not fit.identified for fit in fits)


def _share(fits: Sequence[RunFit], said: Estimate) -> Estimate:
    if np.isfinite(said[0]):
        return said
    middle = float(np.median([_own_compute_to_share(fit)[0] for fit in fits]))  # every interval is open
    return middle, None, None


def _own_compute_to_share(fit: RunFit) -> Estimate:
    if fit.outlook is not None and fit.outlook.c90 is not None:
        return fit.outlook.c90
    p = fit.params or {}
    goal = answers.SHARE_OF_GAIN
    value = curve.compute_for(goal, r0=0.0, a=1.0, b=p["B"], c_mid=p["C_mid"])
    if fit.live is None:
        return value, None, None
    lo, hi = fit.live.compute_for_interval(p["R0"] + goal * (p["A"] - p["R0"]))
    return value, None if lo is None else min(lo, value), None if hi is None else max(hi, value)


def _open(ends: np.ndarray, value: float) -> np.ndarray:
    return np.where(np.isnan(ends), value, ends)


_fits: LRUCache[tuple[int, str], RunFit] = LRUCache(MOST_FITS)  # (row, run)


class Stored(NamedTuple):
    """A stored fit by the number of its row."""

    pk: int
    fit: RunFit


def latest(run_ids: Iterable[str], *, x: str = DEFAULT_AXIS) -> dict[str, Stored]:
    """Of each run the newest fit of its whole curve. One query, and another where one is not known here."""
    return _stored(latest_ids(run_ids, x))


def halfway(limits: Mapping[str, float]) -> dict[str, Stored]:
    """Run -> the newest of its stored fits that had seen no more compute than its limit. Queries as `latest`."""
    return _stored(halfway_ids(limits))


def _stored(rows: Mapping[str, int]) -> dict[str, Stored]:
    wanted = [(pk, run_id) for run_id, pk in rows.items()]
    with _lock:
        known = {key: _fits[key] for key in wanted if key in _fits}
    pks = [pk for pk, run_id in wanted if (pk, run_id) not in known]
    made = ((row, of_stored(row)) for row in (Fit.objects.filter(pk__in=pks) if pks else ()))
    fresh = {(row.pk, row.run_id): fit for row, fit in made if fit is not None}
    with _lock:
        _fits.update(fresh)
    known |= fresh
    return {run_id: Stored(pk, known[pk, run_id]) for pk, run_id in wanted if (pk, run_id) in known}
