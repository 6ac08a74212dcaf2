"""Stored fits as numbers, remembered by this process.

Thousands of them stand behind one leaderboard. A row never changes, so what was read once need not be read again: which
row is a run's newest is asked each time, its numbers are read where this process does not know them.
"""

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import NamedTuple

from cachetools import LRUCache

from webapp.science.curves import estimates
from webapp.science.curves.axes import DEFAULT_AXIS
from webapp.science.curves.estimates import RunFit
from webapp.science.curves.models import Fit
from webapp.science.curves.selectors import halfway_ids, latest_ids

MOST_FITS = 10_000

_fits: LRUCache[tuple[int, str], RunFit] = LRUCache(MOST_FITS)  # (row, run)
_lock = Lock()


class Stored(NamedTuple):
    """A stored fit by the number of its row."""

    pk: int
    fit: RunFit


def latest(run_ids: Iterable[str], *, x: str = DEFAULT_AXIS) -> dict[str, Stored]:
    """Of each run the newest fit of its whole curve. One query, and another where one is not known here."""
    return _stored(latest_ids(run_ids, x=x))


def halfway(limits: Mapping[str, float]) -> dict[str, Stored]:
    """Run -> the newest of its stored fits that had seen no more compute than its limit. Queries as `latest`."""
    return _stored(halfway_ids(limits))


def _stored(rows: Mapping[str, int]) -> dict[str, Stored]:
    wanted = [(pk, run_id) for run_id, pk in rows.items()]
    with _lock:
        known = {key: _fits[key] for key in wanted if key in _fits}
    read = _read([pk for pk, run_id in wanted if (pk, run_id) not in known])
    with _lock:
        _fits.update(read)
    known |= read
    return {run_id: Stored(pk, known[pk, run_id]) for pk, run_id in wanted if (pk, run_id) in known}


def _read(pks: list[int]) -> dict[tuple[int, str], RunFit]:
    rows = Fit.objects.filter(pk__in=pks) if pks else ()
    fits = ((row, estimates.of_stored(row)) for row in rows)
    return {(row.pk, row.run_id): fit for row, fit in fits if fit is not None}
