"""/api/2.0/mlflow: what comes in batches, and what goes out of a metric."""

from typing import Any

from django.db import transaction

from webapp.base.errors import InvalidInput
from webapp.identity.accounts.models import Scope
from webapp.interfaces.mlflow import checks, payloads
from webapp.interfaces.mlflow.door import Call, endpoint
from webapp.interfaces.mlflow.runs import MLFLOW, RUN_NAME, find, find_active
from webapp.interfaces.tracking import client_runs
from webapp.interfaces.tracking.intake import store_values
from webapp.interfaces.tracking.lines import Value
from webapp.interfaces.tracking.selectors import client_run_by_key, history

MOST_VALUES = 25_000
MOST_RUNS = 100


@endpoint("POST", Scope.WRITE)
def log_batch(call: Call) -> dict[str, Any]:
    """All of it or nothing, and safe to repeat."""
    found = find_active(call)
    values, params, tags = checks.batch(call.body)
    with transaction.atomic():
        if params or tags:
            client_runs.describe(found, params=params, tags=tags, name=tags.get(RUN_NAME))
        if values:
            store_values(found, values)
    return {}


@endpoint("GET", Scope.READ)
def get_history(call: Call) -> dict[str, Any]:
    """Every value; with `max_results` as many from where `page_token` says."""
    values = history(find(call), checks.text(call.body, "metric_key"))
    if "max_results" not in call.body:
        return {"metrics": payloads.history(values)}
    first = checks.whole({"page_token": call.body.get("page_token") or 0}, "page_token", default=0)
    last = first + checks.whole(call.body, "max_results", default=None, least=1)
    following = {"next_page_token": str(last)} if last < len(values) else {}
    return {"metrics": payloads.history(values[first:last]), **following}


@endpoint("GET", Scope.READ)
def get_history_bulk_interval(call: Call) -> dict[str, Any]:
    """The values of one metric of several runs between two steps: at most `max_results` of each run, evenly picked, the
    first and the last among them."""
    keys = call.body.get("run_ids") or []
    keys = [keys] if isinstance(keys, str) else keys
    if not 1 <= len(keys) <= MOST_RUNS:
        raise InvalidInput("run_ids", f"run_ids must be 1 to {MOST_RUNS} ids.")
    name = checks.text(call.body, "metric_key")
    first = checks.whole(call.body, "start_step", default=-checks.INT64, least=-checks.INT64)
    last = checks.whole(call.body, "end_step", default=checks.INT64 - 1, least=-checks.INT64)
    most = checks.whole(call.body, "max_results", default=2500, least=1, most=MOST_VALUES)
    found = []
    for key in keys:
        values = history(client_run_by_key(call.project, MLFLOW, key), name)
        here = [value for value in values if first <= value.step <= last]
        found += [item | {"run_id": key} for item in payloads.history(_picked(here, most))]
    return {"metrics": found}


def _picked(values: list[Value], most: int) -> list[Value]:
    """At most so many, evenly, the first and the last among them."""
    if len(values) <= most:
        return values
    if most == 1:
        return values[-1:]
    return [values[i * (len(values) - 1) // (most - 1)] for i in range(most)]


@endpoint("POST", Scope.WRITE, most=16 * checks.MAX_BODY)
def accept_unkept(call: Call) -> dict[str, Any]:
    """Links to data sets and models: nothing here would show them, and no training needs to stop for that."""
    find_active(call)
    return {}
