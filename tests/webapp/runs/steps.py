"""Steps of a run on its way, as worker and cluster take them."""

from webapp.runs import lifecycle


def claim(run):
    (dispatch,) = lifecycle.claim_dispatches(run_id=run.pk)
    return dispatch


def submit(run):
    """As far as Ray having the job."""
    lifecycle.dispatch_done(claim(run))
    run.refresh_from_db()


def observe(run, status, **said):
    lifecycle.observe_job(run_id=run.pk, attempt=run.attempt_number, job_status=status, **said)
    run.refresh_from_db()
