"""Keeping the record: forecasts at fixed origins while a run goes on, and their scores once it has ended.

What is done is found by what is stored, so that all of it may be repeated, at the same time, and after a loss.

What people do with the record: switch recalibration, and choose a part of it.
"""

import logging
import time
from collections.abc import Iterable, Iterator

import numpy as np
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from scaling.points import MIN_POINTS, Points
from scaling.scores import LATE, late_mean
from webapp.identity.accounts.models import Project, User
from webapp.identity.audit.services import record
from webapp.record.runs.models import Run
from webapp.record.runs.states import ENDED
from webapp.science.curves.answers import store_fit
from webapp.science.curves.fitting import Curve, Question, curve_of
from webapp.science.curves.models import Fit, ForecastOrigin, ForecastOutcome
from webapp.science.curves.record import recalibrating
from webapp.science.curves.words import Payload

log = logging.getLogger(__name__)
SHARES = (0.25, 0.375, 0.5, 0.75)  # of the budget while a run goes on, of its compute when it has ended
LADDER = 2**0.5  # without a budget: an origin whenever the compute has grown by this
SAME_CUT = 0.1  # an origin this near to a share stands for it
LEAST_SHARE = 0.2  # of the compute: origins before it are not scored
MIN_LATE = 2  # evaluations in the last eighth, fewer tell nothing
PAPER_SHARE = 0.5  # the paper forecasts from half of the compute; its grid takes long, so only from there
CROSSED = 1e-9


def keep_record(run_id: str, *, in_brief: bool = False) -> bool:
    """Bring the run's origins up to date, and its outcome where it has ended; whether anything changed.

    in_brief: the forecast alone is judged, for intervals follow that; the other methods, which take ten times as long,
    are judged when the run's turn comes (`overdue`).
    """
    run = Run.objects.select_related("project").get(pk=run_id)
    curve = curve_of(run)
    if run.state in ENDED:
        return _judge(run, curve, in_brief=in_brief)
    cuts = _cuts_so_far(run, curve)
    known = ForecastOrigin.objects.filter(run=run).values_list("cut", flat=True)
    made = [_origin(run, curve, cut, as_it_went=True) for cut in cuts if not _stands(known, cut, 1e-6)]
    return any(made)


def overdue() -> QuerySet[Run]:
    """Ended runs that are not judged yet, in brief only, or have ended again since; the longest waiting first."""
    again = Q(ended_at__gt=F("forecast_outcome__judged_at"))
    brief = Q(forecast_outcome__data_digest="", forecast_outcome__why="")
    runs = Run.objects.filter(Q(forecast_outcome=None) | again | brief, state__in=ENDED, series__isnull=False)
    return runs.order_by(F("ended_at").asc(nulls_first=True), "pk").distinct()


def not_judged(project: Project) -> QuerySet[Run]:
    """Of its ended runs those of which nothing is judged."""
    return overdue().filter(project=project, forecast_outcome=None)


def keep_overdue(seconds: float, *, in_brief_of: Project | None = None) -> int:
    """Judge runs that wait for it, or those of a project in brief, for about so long; how many. One that cannot be
    judged does not stop the others."""
    end, done = time.monotonic() + seconds, 0
    for run_id in _batches(overdue() if in_brief_of is None else not_judged(in_brief_of)):
        try:
            keep_record(run_id, in_brief=in_brief_of is not None)
        except Exception:
            log.exception("the forecasts of run %s are not judged", run_id)
            if Run.objects.filter(pk=run_id).exists():
                _note(run_id, digest="", why="judging its forecasts crashed; the server has logged it")
        done += 1
        if time.monotonic() > end:
            break
    return done


def _batches(waiting: QuerySet[Run]) -> Iterator[str]:
    """Each waiting run once, some at a time."""
    seen: set[str] = set()
    while ids := list(waiting.exclude(pk__in=seen).values_list("pk", flat=True)[:20]):
        seen.update(ids)
        yield from ids


def _cuts_so_far(run: Run, curve: Curve) -> list[float]:
    """The computes that the run has passed and is forecast from: shares of its budget, else steps of a ladder."""
    if not len(curve.x):
        return []
    last = float(curve.x[-1]) * (1 + CROSSED)
    if run.budget_hours is not None:
        return [share * run.budget_hours for share in SHARES if share * run.budget_hours <= last]
    if len(curve.x) <= MIN_POINTS:
        return []
    step = np.floor(
        np.log(last) / np.log(LADDER)
    )  # the newest only: earlier ones were made when they were passed
    return [float(LADDER**step)]


def _stands(known: Iterable[float], cut: float, within: float) -> bool:
    return any(abs(one / cut - 1) <= within for one in known)


def _origin(run: Run, curve: Curve, cut: float, *, as_it_went: bool) -> bool:
    """Forecast from the evaluations up to `cut`; False where there are too few, or it is there already."""
    early = curve.only(curve.x <= cut * (1 + CROSSED))
    if len(early.x) < MIN_POINTS:
        return False
    digest = digest_of(early)
    if ForecastOrigin.objects.filter(run=run, data_digest=digest).exists():
        return False
    status, message, says = recalibrating.forecast(early)
    values = {
        "cut": cut, "seen": float(early.x[-1]), "n": len(early.x), "as_it_went": as_it_went, "status": status,
        "message": message, "says": says,
    }  # fmt: skip
    return ForecastOrigin.objects.get_or_create(run=run, data_digest=digest, defaults=values)[1]


def digest_of(curve: Curve) -> str:
    """SHA-256 of the evaluations, those before the first update included."""
    return Points(curve.x, curve.y, None, np.asarray(curve.start, dtype=float)).digest


def _judge(run: Run, curve: Curve, *, in_brief: bool) -> bool:
    """The outcome of a run that has ended, and the scores of its origins. A second time nothing is done."""
    # A fit that a release before stored without a forecast gets it.
    whole = Fit.objects.filter(run=run, superseded=False, cutoff=None, window_lo=None)
    if whole.filter(forecast__isnull=True).exists():
        store_fit(run, curve, Question())
    digest = digest_of(curve)
    if ForecastOutcome.objects.filter(run=run, data_digest=digest).exists():
        ForecastOutcome.objects.filter(run=run).update(
            judged_at=timezone.now()
        )  # it ended again without anything new
        return False
    # Evaluations may no longer count: a later attempt resumed from before them.
    for origin in ForecastOrigin.objects.filter(run=run):
        if digest_of(curve.only(curve.x <= origin.cut * (1 + CROSSED))) != origin.data_digest:
            origin.delete()
    if why := _why_not(curve):
        ForecastOrigin.objects.filter(run=run).update(said=None, ratios=None)
        _note(run.pk, digest=digest, why=why)
        return True
    last = float(curve.x[-1])
    cuts = list(ForecastOrigin.objects.filter(run=run).values_list("cut", flat=True))
    for share in SHARES:
        if not _stands(cuts, share * last, SAME_CUT):
            _origin(run, curve, share * last, as_it_went=False)
    target, came, _ = late_mean(curve.x, curve.y)
    for origin in ForecastOrigin.objects.filter(run=run):
        _score(origin, curve, target, came, in_brief=in_brief)
    _note(run.pk, digest="" if in_brief else digest, last=last, target=target, came=came)
    recalibrating.note_changed(run.project)
    return True


def _why_not(curve: Curve) -> str:
    if len(curve.x) < MIN_POINTS + MIN_LATE:
        return f"it has {len(curve.x)} evaluations, too few to judge a forecast by"
    _, _, late = late_mean(curve.x, curve.y)
    if late < MIN_LATE:
        return "its last eighth has a single evaluation, too few to judge a forecast by"
    return ""


def _score(origin: ForecastOrigin, curve: Curve, target: float, came: float, *, in_brief: bool) -> None:
    """What each method said from this origin of the end; not of one before LEAST_SHARE or within the last eighth."""
    early = curve.only(curve.x <= origin.cut * (1 + CROSSED))
    origin.said, origin.ratios = None, None
    if LEAST_SHARE <= origin.cut / float(curve.x[-1]) < 1 - LATE:
        origin.said = {"forecast": recalibrating.at(origin.says, target) if origin.says else None}
        if not in_brief:
            origin.said["last"] = recalibrating.last_value(early)
            origin.said["eq1"] = recalibrating.eq1(early, target)
            if abs(origin.cut / float(curve.x[-1]) / PAPER_SHARE - 1) <= SAME_CUT:
                origin.said["paper"] = recalibrating.paper(early, target)
        origin.ratios = ratios(origin.said["forecast"], came)
    origin.save(update_fields=["said", "ratios"])


def ratios(said: Payload | None, came: float) -> dict[str, float] | None:
    """Of each level how many half widths, on its side, what came lies from the value: 1 is the interval's end."""
    if said is None:
        return None
    found = {}
    for level, (lo, hi) in said["levels"].items():
        half = hi - said["value"] if came > said["value"] else said["value"] - lo
        found[level] = abs(came - said["value"]) / max(half, 1e-6)
    return found


def _note(run_id: str, *, digest: str, why: str = "", **numbers: float | None) -> None:
    values = {"last": None, "target": None, "came": None} | numbers
    ForecastOutcome.objects.update_or_create(
        run_id=run_id, defaults={"data_digest": digest, "why": why, "judged_at": timezone.now(), **values}
    )


@transaction.atomic
def switch_recalibration(project: Project, *, is_on: bool, actor: User) -> bool:
    """Whether the project's intervals follow their record; whether that changed."""
    if not recalibrating.switch(project, is_on=is_on):
        return False
    record(
        "project.changed", actor=actor, project=project, kind="project", key=project.slug, name=project.name,
        changed={"recalibrates": [not is_on, is_on]},
    )  # fmt: skip
    return True


def choices_of(project: Project) -> tuple[list[str], list[tuple[str, str]]]:
    """Tasks, and (slug, name) of recipes, of which runs are judged. Two queries."""
    judged = recalibrating.outcomes_of(project).filter(why="").order_by()
    tasks = judged.values_list("run__task", flat=True).distinct()
    of = ("run__revision__recipe__slug", "run__revision__recipe__name")
    recipes = judged.filter(run__revision__isnull=False).values_list(*of).distinct()
    return sorted(tasks), sorted(recipes, key=lambda one: one[1])
