"""Each new batch of evaluations is refitted, and what the run's page says of it made anew.

Fits whose points no longer count, because a later attempt resumed from before them or began anew, are kept as their
points are; nothing that asks for a run's newest fit may find them.
"""

import numpy as np
from django.db import transaction
from django.db.models import F, Q, QuerySet

from webapp.record.runs.models import Attempt, Run
from webapp.record.runs.selectors import pass_rates_of
from webapp.science.curves.axes import DEFAULT_METRIC
from webapp.science.curves.fitting import Curve, Question, curve_of
from webapp.science.curves.models import Fit
from webapp.science.curves.run.figure import keep_figure
from webapp.science.curves.storing import Refit, store_fit
from webapp.science.curves.summaries import rebuild


def refit(run_id: str) -> Refit:
    """Fit the run's curves with all their points, store them, and tell the run's page. Safe to repeat.

    A mixture of tasks has one curve overall and one for each part; what comes back is the overall fit, and whether
    any fit is new.

    The wish (`refit_wanted_at`) is cleared first and only if it is the one seen, so points that arrive
    meanwhile wish again.
    """
    run = Run.objects.get(pk=run_id)
    Run.objects.filter(pk=run_id, refit_wanted_at=run.refit_wanted_at).update(refit_wanted_at=None)
    curves = {name: curve_of(run, metric=name) for name in {DEFAULT_METRIC, *pass_rates_of(run)}}
    results = {name: store_fit(run, curve, Question(metric=name)) for name, curve in curves.items()}
    created = any(result.created for result in results.values())
    aside = [
        set_aside(run, curve, Question(metric=name), results[name].fit) for name, curve in curves.items()
    ]
    keep_figure(run, curves[DEFAULT_METRIC])
    if rebuild([run_id]) or created or any(aside):
        Run.objects.filter(pk=run_id).update(version=F("version") + 1)
    return Refit(results[DEFAULT_METRIC].fit, created)


def set_aside(run: Run, curve: Curve, question: Question, current: Fit | None) -> bool:
    """Mark the run's fits of this question that used superseded points; whether any were.

    `current`: the fit of `curve`, None where it has too few points.

    Safe to repeat, and beside other refits: where points have arrived since, the refit that they wish for does it.
    """
    stale = _answers(run, question).filter(_older_than_its_points(run, curve, question) | _after(current))
    if not stale.exists() and not (current and current.superseded):
        return False
    with transaction.atomic():
        Run.objects.select_for_update().get(pk=run.pk)  # no record is stored meanwhile
        if not _same(curve, curve_of(run, question.x, question.metric)):
            return False
        marked = stale.update(superseded=True)
        if current is not None and current.superseded:  # its points count again: so does it
            marked += Fit.objects.filter(pk=current.pk).update(superseded=False)
    return marked > 0


def _answers(run: Run, question: Question) -> QuerySet[Fit]:
    same = {"metric": question.metric, "x": question.x, "form": question.form, "level": question.level}
    window = {"window_lo": question.window_lo, "cutoff": question.cutoff}
    return Fit.objects.filter(run=run, superseded=False, **same, **window)


def _after(current: Fit | None) -> Q:
    """Those that were stored later than the one that holds now: they knew points that are gone."""
    return Q(pk__gt=current.pk if current else 0)


def _older_than_its_points(run: Run, curve: Curve, question: Question) -> Q:
    """Those from before the newest attempt began that reach past the points which that left of the earlier ones."""
    attempt = (
        Attempt.objects.filter(run=run, number__gt=1, started_at__isnull=False).order_by("-number").first()
    )
    if attempt is None:
        return Q(pk__in=())
    kept = (
        curve.step <= attempt.resumed_from_step
        if attempt.resumed_from_step is not None
        else np.array([], bool)
    )
    last = float(curve.x[: len(kept)][kept].max()) if kept.any() else 0.0
    return Q(created_at__lt=attempt.started_at, fitted_hi__gt=last * (1 + 1e-9))


def _same(one: Curve, other: Curve) -> bool:
    return one.start == other.start and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("x", "y", "step")
    )
