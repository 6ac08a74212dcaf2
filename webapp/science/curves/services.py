"""Each new batch of evaluations is refitted, and what the run's page says of it made anew."""

from django.db.models import F

from webapp.record.runs.models import Run
from webapp.record.runs.selectors import pass_rates_of
from webapp.science.curves.axes import DEFAULT_METRIC
from webapp.science.curves.fitting import Question, curve_of
from webapp.science.curves.run.figure import keep_figure
from webapp.science.curves.storing import Refit, store_fit
from webapp.science.curves.summaries import rebuild
from webapp.science.curves.superseding import set_aside


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
