"""What a run's page says of its whole curve, kept by the refit, so that an open page need not fit again.

Kept is what was said of exactly these points, by this release: anything else has another key and is never shown
as if it were the answer. While the refit of newer points is on its way, what is kept may be shown beside them; it then
says which points it does not know.
"""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
from django.db import DataError, IntegrityError, transaction
from django.utils import timezone

from headroom.version import __version__
from webapp.record.runs.models import Run
from webapp.record.runs.states import ENDED
from webapp.science.curves import words
from webapp.science.curves.fitting import CRASHED, Curve
from webapp.science.curves.models import KeptFigure

log = logging.getLogger(__name__)
Payload = dict[str, Any]
LATE = timedelta(seconds=2)  # workers refit a run once a second; whoever looks after this fits for them
FORM = 1  # grows with each change of what is said
WRITTEN_BY = f"{__version__}.{FORM} "  # what other code said is not shown as the answer of this one
WAITING = "waiting"  # the role of a point that the shown fit does not know


def kept_or_made(run: Run, curve: Curve, make: Callable[[], Payload], *, may_wait: bool) -> Payload:
    """What is kept of exactly this, else what `make` says of it now, which is then kept.

    `may_wait`: while a refit is on its way, what is kept of fewer points, with "waiting", how many it does not know.
    """
    key = key_of(run, curve)
    row = KeptFigure.objects.filter(run=run.pk).values_list("key", "said").first()
    if row is not None:
        if row[0] == key:
            return row[1]
        if may_wait and is_on_its_way(run) and row[0].startswith(WRITTEN_BY):
            older = beside(row[1], curve)
            if older is not None:
                return older
    said = make()
    keep(run, key, said)
    return said


def keep(run: Run, key: str, said: Payload) -> None:
    """Store what was said; nothing without a fit, which is said again as fast, and nothing of a crash."""
    if said["fit"] is None or said["fit_sentence"] == CRASHED:
        return
    try:
        with transaction.atomic():
            KeptFigure.objects.bulk_create(
                [KeptFigure(run_id=run.pk, key=key, said=said)],
                update_conflicts=True,
                unique_fields=["run"],
                update_fields=["key", "said", "made_at"],
            )
    except (IntegrityError, DataError) as error:  # the run was deleted meanwhile, or a number cannot be kept
        log.warning("what is said of run %s is not kept: %s", run.pk, error)


def is_on_its_way(run: Run) -> bool:
    """Whether a worker was asked for the fit a moment ago."""
    return run.refit_wanted_at is not None and timezone.now() - run.refit_wanted_at < LATE


def key_of(run: Run, curve: Curve) -> str:
    """All that the answer rests on: the release, the points, and what of the run it mentions."""
    of_run = json.dumps([run.name, run.seed, run.budget_hours, run.state in ENDED])
    start = json.dumps([curve.start, curve.start_se, curve.unknown])
    columns = (np.asarray(getattr(curve, name), "<f8") for name in ("x", "y", "se", "step", "hours"))
    parts = [column.tobytes() for column in columns] + [start.encode(), of_run.encode()]
    return WRITTEN_BY + hashlib.sha256(b"|".join(parts)).hexdigest()


def beside(said: Payload, curve: Curve) -> Payload | None:
    """What was said of some of the points, beside all of them; None where it knew a point that is not among them."""
    known = Counter(zip(said["points"]["x"], said["points"]["y"], said["points"]["role"], strict=True))
    roles = [_role(known, x, y) for x, y in zip(curve.x.tolist(), curve.y.tolist(), strict=True)]
    n = roles.count(WAITING)
    if known.total() or not n:  # superseded points, or not the points but the run has changed
        return None
    newer = words.count(n, "newer evaluation is", "newer evaluations are")
    return said | {
        "points": points(curve, roles),
        "fit_sentence": f"{said['fit_sentence']} {newer} not in it yet: the fit is being made anew.",
        "waiting": n,
    }


def _role(known: "Counter[tuple[float, float, str]]", x: float, y: float) -> str:
    for role in ("fitted", "outlier"):
        if known[x, y, role] > 0:
            known[x, y, role] -= 1
            return role
    return WAITING


def points(curve: Curve, roles: list[str]) -> Payload:
    """All points with their roles."""
    return {
        "x": curve.x.tolist(),
        "y": curve.y.tolist(),
        "se": [None if np.isnan(v) else v for v in curve.se.tolist()],
        "step": curve.step.tolist(),
        "role": roles,
    }
