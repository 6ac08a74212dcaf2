"""The stored fits of made runs: those that refits would have stored at parts of the way and at the end."""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, NamedTuple

import django
import numpy as np

if TYPE_CHECKING:
    from webapp.science.curves.fitting import Curve

STAGES = (0.5, 1.0)  # shares of the evaluations that a run had when it was fitted
FEWEST = 5
CHUNK = 128  # runs that are read, fitted and stored together


class Part(NamedTuple):
    """What is fitted: the evaluations of a run up to a stage."""

    run_id: str
    curve: "Curve"


def fit_parts(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """The columns of a stored fit for each part, in its order."""
    from scaling.many import fit_many
    from webapp.science.curves.answers import outcome_of

    if not parts:
        return []
    curves = [part.curve for part in parts]
    many = fit_many(
        [(curve.x, curve.y) for curve in curves],
        r0_observed=[curve.start for curve in curves],
        work=[curve.work for curve in curves],
    )
    fits = [many.fit(index) for index in range(len(many))]
    return [
        {
            "run_id": part.run_id,
            "form": fit.form,
            "method": fit.method,
            "level": fit.level,
            "data_digest": fit.digest,
        }
        | outcome_of(fit)
        for part, fit in zip(parts, fits, strict=True)
    ]


def store_fits(run_ids: Iterable[str], *, processes: int = 1, at_once: int = CHUNK) -> Iterator[int]:
    """Fit the runs as they would have been at each of STAGES, and store that; yields how many runs were looked at."""
    from webapp.science.curves.models import Fit

    chunks = _chunks(run_ids, at_once)
    for chunk, rows in fitted_by(chunks, processes):
        Fit.objects.bulk_create(Fit(**row) for row in rows)
        yield len(chunk)


def fitted_by(
    chunks: Iterator[list[str]], processes: int
) -> Iterator[tuple[list[str], list[dict[str, Any]]]]:
    if processes == 1:
        for chunk in chunks:
            yield chunk, fit_parts(parts_of(chunk))
        return
    # Not forked: a child must not hold our connection to the database.
    with ProcessPoolExecutor(processes, get_context("spawn"), initializer=_begin) as pool:
        waiting: list[tuple[list[str], Any]] = []
        for chunk in chunks:
            waiting.append((chunk, pool.submit(fit_parts, parts_of(chunk))))
            if len(waiting) > processes:
                done, future = waiting.pop(0)
                yield done, future.result()
        for done, future in waiting:
            yield done, future.result()


def _begin() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    django.setup()


def _chunks(run_ids: Iterable[str], size: int) -> Iterator[list[str]]:
    ids = iter(run_ids)
    while chunk := list(islice(ids, size)):
        yield chunk


def parts_of(run_ids: Sequence[str]) -> list[Part]:
    """What each run had been fitted to, the earliest first: ids of stored fits grow with time. One query."""
    from webapp.science.curves.fitting import curves_of

    found, parts = curves_of(run_ids), []
    for run_id in run_ids:
        if (curve := found.get(run_id)) is None:
            continue
        for stage in STAGES:
            known = round(stage * len(curve.x))
            if known >= FEWEST:
                parts.append(Part(run_id, curve.only(np.arange(known))))
    return parts
