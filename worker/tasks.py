"""Celery tasks. Thin on purpose: each names one function that does the work and may be repeated."""

from webapp.interfaces.imports.example import bring_example
from webapp.interfaces.imports.reading import take_turn
from webapp.reporting.alerts.delivery import deliver_due
from worker import names
from worker.app import app
from worker.dispatch import send_dispatches
from worker.followup import judge_or_wait, refit_or_wait
from worker.reconcile import reconcile_all
from worker.upkeep import clean_up_alone

EXAMPLE_SECONDS = 5.0  # of fitting at a time


@app.task(name=names.DISPATCH)
def dispatch(run_id: str = "", *unknown: object, **more: object) -> None:
    """Hand what waits for this run, or for any, to Ray Jobs. What a web server of another version adds is no matter:
    the rows say what is to be done."""
    send_dispatches(run_id=run_id or None)


@app.task(name=names.REFIT)
def refit(run_id: str) -> None:
    """Refit the run's curve, or come back when the last refit is a second old."""
    if (wait_seconds := refit_or_wait(run_id)) is not None:
        refit.apply_async(args=(run_id,), countdown=wait_seconds)


@app.task(name=names.ALARMS)
def alarms(run_id: str) -> None:
    """Judge the run by the alarms' rules, or come back when the last time is two seconds ago."""
    if (wait_seconds := judge_or_wait(run_id)) is not None:
        alarms.apply_async(args=(run_id,), countdown=wait_seconds)


@app.task(name=names.RECONCILE)
def reconcile() -> None:
    """Find what hints were lost and bring the store in step with Ray."""
    reconcile_all()


@app.task(name=names.DELIVER)
def deliver() -> None:
    """Send the alerts that are due."""
    deliver_due()


@app.task(name=names.CLEAN_UP)
def clean_up() -> None:
    """Remove what the projects' policies let go, for half a minute."""
    clean_up_alone()


@app.task(
    name=names.IMPORT, soft_time_limit=1800, time_limit=1830
)  # a large file is read to its place again first
def import_runs() -> None:
    """One turn of the import that waits for it the longest."""
    take_turn()


@app.task(name=names.EXAMPLE, soft_time_limit=None, time_limit=1800)
def example() -> None:
    """Import the example project and fit its runs for some seconds, where that is still to do: a worker that is to stop
    does not keep its server waiting."""
    bring_example(EXAMPLE_SECONDS)
