"""Acting on what alarms and refits found; trouble with it is logged, and never undoes what was judged or fitted."""

import logging

from webapp.reporting.policies import services
from worker.turns import claim_turn

log = logging.getLogger(__name__)
SWEEP_MS = 15_000


def act(run_id: str, *, after_refit: bool = False) -> int:
    """Do what the run's policy says; returns how many actions are new."""
    try:
        return len(services.act_on(run_id, after_refit=after_refit))
    except Exception:
        log.exception("policies of run %s", run_id)
        return 0


def act_on_overlooked() -> int:
    """Every 15 s: runs whose alarms nobody acted on, because a hint was lost or a policy is newer."""
    if claim_turn("policies", "all", SWEEP_MS) != 0:
        return 0
    return services.sweep()
