"""/api/2.0/mlflow/runs: made, described, logged to, ended, found.

Also what comes in batches, and what goes out of a metric (/api/2.0/mlflow), and traces of a run (/api/3.0/mlflow).
"""

import json
import re
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from webapp.base.errors import InvalidInput, NotFound
from webapp.base.formats import whole_in
from webapp.interfaces.api.auth import READ, WRITE
from webapp.interfaces.api.parsing import parse_json
from webapp.interfaces.mlflow import experiments, protocol
from webapp.interfaces.mlflow.protocol import Call, endpoint, in_view, page
from webapp.interfaces.mlflow.search import narrow, ordered
from webapp.interfaces.tracking import client_runs
from webapp.interfaces.tracking.intake import store_values
from webapp.interfaces.tracking.models import ClientRun
from webapp.interfaces.tracking.selectors import (
    BEGINNING,
    Place,
    client_run_by_key,
    history,
    history_sample,
    newest_of,
    runs_of_client,
)
from webapp.interfaces.tracking.translate import MAX_TIME, MLFLOW_ENDS, now_ms

RUN_NAME, USER, LOGGED_MODELS = "mlflow.runName", "mlflow.user", "mlflow.log-model.history"
DEFAULT_FOUND = 1000
MOST_VALUES = 25_000  # these three are MLflow's own
MOST_OF_RUN = 2500
MOST_RUNS = 100
PLACE = re.compile(r"(-?\d{1,19})\.(\d{1,18})\.([01])\.(\d{1,18})")
TRACE_ID = re.compile(r"tr-[0-9a-f]{1,64}")


def find(call: Call, *, lock: bool = False) -> ClientRun:
    """Raises NotFound, InvalidInput (run_id)."""
    return client_run_by_key(call.project, protocol.text(call.body, "run_id", "run_uuid"), lock=lock)


def find_active(call: Call, *, lock: bool = False) -> ClientRun:
    """The same to write to. Raises InvalidInput where the client has deleted it."""
    return active(find(call, lock=lock))


def active(found: ClientRun) -> ClientRun:
    """The run itself. Raises InvalidInput (run_id) where the client has deleted it."""
    if found.deleted_at:
        raise InvalidInput("run_id", f"The run {found.key} must be in the 'active' state: it is deleted.")
    return found


def _again(found: ClientRun) -> ClientRun:
    return ClientRun.objects.select_related("run", "group").get(pk=found.pk)


@endpoint("POST", WRITE)
def create(call: Call) -> dict[str, Any]:
    tags = protocol.pairs(call.body, "tags", protocol.MAX_ENTITIES, protocol.MAX_TAG)
    name = protocol.text(call.body, "run_name", default="") or tags.get(RUN_NAME, "")
    group = experiments.writable_group(
        call.project, protocol.text(call.body, "experiment_id", default=experiments.DEFAULT_ID)
    )
    begun = ClientRun(
        client=ClientRun.Client.MLFLOW,
        name=name,
        start_ms=protocol.whole(call.body, "start_time", default=now_ms(), most=MAX_TIME),
        user_name=protocol.text(call.body, "user_id", default="") or tags.get(USER, ""),
        tags=tags,
    )
    made = client_runs.make_client_run(group, begun, user=call.user)
    if RUN_NAME not in tags:
        client_runs.describe(made, tags={RUN_NAME: made.name})
    return {"run": experiments.run(_again(made), [])}


@endpoint("GET", READ)
def get(call: Call) -> dict[str, Any]:
    found = find(call)
    return {"run": experiments.run(found, newest_of([found]).get(found.pk, []))}


@endpoint("POST", WRITE)
def update(call: Call) -> dict[str, Any]:
    found = find_active(call)
    status = protocol.text(call.body, "status", default="")
    name = protocol.text(call.body, "run_name", default="")
    if status not in ("", "RUNNING", "SCHEDULED", *MLFLOW_ENDS):
        raise InvalidInput("status", f"status must be one of RUNNING, SCHEDULED, {', '.join(MLFLOW_ENDS)}.")
    end_ms = protocol.whole(call.body, "end_time", default=-1, least=-1, most=MAX_TIME)
    if name:
        client_runs.describe(found, name=name, tags={RUN_NAME: name})
    if status in MLFLOW_ENDS:
        client_runs.end(found, state=MLFLOW_ENDS[status], end_ms=now_ms() if end_ms < 0 else end_ms)
    elif status == "RUNNING":
        client_runs.go_on(found)
    return {"run_info": experiments.run_info(_again(found))}


@endpoint("POST", WRITE)
def delete(call: Call) -> None:
    client_runs.set_deleted(find(call), True)


@endpoint("POST", WRITE)
def restore(call: Call) -> None:
    client_runs.set_deleted(find(call), False)


@endpoint("POST", READ)
def search(call: Call) -> dict[str, Any]:
    body = call.body
    found = in_view(runs_of_groups(call), protocol.text(body, "run_view_type", default="ACTIVE_ONLY"))
    found = narrow(found, protocol.text(body, "filter", default=""))
    orders = body.get("order_by") or []
    if not isinstance(orders, list) or len(orders) > 20:
        raise InvalidInput("order_by", "order_by must be a list of at most 20 items.")
    most = protocol.whole(body, "max_results", default=DEFAULT_FOUND, least=1, most=protocol.MOST_LISTED)
    rows, following = page(ordered(found, orders), protocol.text(body, "page_token", default=""), most)
    newest = newest_of(rows)
    return {"runs": [experiments.run(row, newest.get(row.pk, [])) for row in rows], **following}


def runs_of_groups(call: Call) -> QuerySet[ClientRun]:
    """The runs of the experiments that are asked for; one that is not there has none. Raises InvalidInput."""
    ids = call.body.get("experiment_ids") or []
    if not isinstance(ids, list) or not all(isinstance(each, str | int) for each in ids):
        raise InvalidInput("experiment_ids", "experiment_ids must be a list of ids.")
    texts = {str(each) for each in ids}
    numbers = [number for each in texts if (number := whole_in(each, 18)) is not None]
    found = runs_of_client(call.project, ClientRun.Client.MLFLOW)
    here = found.filter(group__in=numbers)
    if experiments.DEFAULT_ID in texts:
        here = here | found.filter(group__name=client_runs.DEFAULT_GROUP)
    return here


@endpoint("POST", WRITE)
@transaction.atomic
def log_metric(call: Call) -> None:
    store_values(find_active(call, lock=True), [protocol.metric(call.body)])


@endpoint("POST", WRITE)
def log_parameter(call: Call) -> None:
    name, value = protocol.pair(call.body, protocol.MAX_PARAM)
    client_runs.describe(find_active(call), params={name: value})


@endpoint("POST", WRITE)
def set_tag(call: Call) -> None:
    name, value = protocol.pair(call.body, protocol.MAX_TAG)
    client_runs.describe(find_active(call), tags={name: value}, name=value if name == RUN_NAME else None)


@endpoint("POST", WRITE)
def delete_tag(call: Call) -> None:
    found, name = find_active(call), protocol.key(call.body)
    if name not in found.tags:
        raise NotFound(f"No tag with name: {name} in run with id {found.key}.")
    client_runs.describe(found, tags={name: None})


@endpoint("POST", WRITE)
def log_model(call: Call) -> None:
    """What a model is, without its files, is kept as MLflow keeps it: in a tag."""
    found = find_active(call)
    model = _read(protocol.text(call.body, "model_json"))
    if not isinstance(model, dict):
        raise InvalidInput("model_json", "model_json must be a JSON object, as text.")
    known = _read(found.tags.get(LOGGED_MODELS, "[]"))  # a client may have set the tag itself
    history = [*known, model] if isinstance(known, list) else [model]
    client_runs.describe(found, tags={LOGGED_MODELS: json.dumps(history)})


def _read(text: str) -> Any:
    """None where it is no JSON, or none that can be read."""
    try:
        return parse_json(text.encode(), allow_inf_nan=True)
    except InvalidInput:
        return None


@endpoint("POST", WRITE)
@transaction.atomic
def log_batch(call: Call) -> None:
    """All of it or nothing, and safe to repeat."""
    found = find_active(call, lock=True)
    values, params, tags = protocol.batch(call.body)
    if params or tags:
        found = client_runs.describe(found, params=params, tags=tags, name=tags.get(RUN_NAME))
    if values:
        store_values(found, values)


@endpoint("GET", READ)
def get_history(call: Call) -> dict[str, Any]:
    """`max_results` values from where `page_token` says, as many as MLflow's own server gives at most by default."""
    most = protocol.whole(call.body, "max_results", default=MOST_VALUES, least=1, most=MOST_VALUES)
    after = _place_in(protocol.text(call.body, "page_token", default=""))
    name = protocol.text(call.body, "metric_key")
    found = history(find(call), name, after=after, most=most + 1)
    following = {"next_page_token": ".".join(map(str, found[most - 1][1]))} if len(found) > most else {}
    return {"metrics": experiments.history(value for value, _ in found[:most]), **following}


def _place_in(token: str) -> Place:
    """Raises InvalidInput (page_token)."""
    if not token:
        return BEGINNING
    if (found := PLACE.fullmatch(token)) is None or not -(2**63) <= int(found[1]) < 2**63:
        raise InvalidInput("page_token", "page_token is none that this server gave.")
    return Place(*map(int, found.groups()))


@endpoint("GET", READ)
def get_history_bulk_interval(call: Call) -> dict[str, Any]:
    """The values of one metric of several runs between two steps: at most `max_results` of each run, evenly picked, the
    first and the last among them."""
    keys = call.body.get("run_ids") or []
    keys = [keys] if isinstance(keys, str) else keys
    if not 1 <= len(keys) <= MOST_RUNS:
        raise InvalidInput("run_ids", f"run_ids must be 1 to {MOST_RUNS} ids.")
    name = protocol.text(call.body, "metric_key")
    first = protocol.whole(call.body, "start_step", default=-protocol.INT64, least=-protocol.INT64)
    last = protocol.whole(call.body, "end_step", default=protocol.INT64 - 1, least=-protocol.INT64)
    most = protocol.whole(call.body, "max_results", default=MOST_OF_RUN, least=1, most=MOST_OF_RUN)
    found = []
    for key in keys:
        client_run = client_run_by_key(call.project, key)
        values = history_sample(client_run, name, first=first, last=last, most=most)
        found += [item | {"run_id": key} for item in experiments.history(values)]
    return {"metrics": found}


@endpoint("POST", WRITE, most=16 * protocol.MAX_BODY)
def accept_unkept(call: Call) -> None:
    """Links to data sets and models: nothing here would show them, and no training needs to stop for that."""
    find_active(call)


@endpoint("POST", WRITE)
def start_trace(call: Call) -> dict[str, Any]:
    """Where the client puts its spans: they come later as a file of the run, which is read as samples.

    Raises InvalidInput, also for a trace outside of a run, and NotFound.
    """
    trace = call.body.get("trace")
    info = trace.get("trace_info") if isinstance(trace, dict) else None
    if not isinstance(info, dict):
        raise InvalidInput("trace", "trace must have a trace_info.")
    trace_id, about, tags = protocol.text(info, "trace_id"), info.get("trace_metadata"), info.get("tags")
    if not TRACE_ID.fullmatch(trace_id):
        raise InvalidInput("trace_id", "trace_id must be tr- and a number in hexadecimals.")
    key = about.get("mlflow.sourceRun") if isinstance(about, dict) else None
    if not isinstance(key, str):
        raise InvalidInput(
            "trace_metadata", "Headroom keeps traces of runs alone: begin with mlflow.start_run."
        )
    found = active(client_run_by_key(call.project, key))
    place = {"mlflow.artifactLocation": f"{experiments.run_info(found)['artifact_uri']}/traces/{trace_id}"}
    return {"trace": {"trace_info": info | {"tags": (tags if isinstance(tags, dict) else {}) | place}}}
