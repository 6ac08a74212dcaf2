"""/api/3.0/mlflow/traces: a trace of a run. Its spans come after it as a file of the run, which is read as samples."""

import re
from typing import Any

from webapp.base.errors import InvalidInput
from webapp.identity.accounts.models import Scope
from webapp.interfaces.mlflow.experiments import run_info
from webapp.interfaces.mlflow.protocol import Call, endpoint, text
from webapp.interfaces.mlflow.runs import MLFLOW, check_active
from webapp.interfaces.tracking.selectors import client_run_by_key

TRACE_ID = re.compile(r"tr-[0-9a-f]{1,64}")


@endpoint("POST", Scope.WRITE)
def start(call: Call) -> dict[str, Any]:
    """Where the client puts its spans. Raises InvalidInput, also for a trace outside of a run, and NotFound."""
    trace = call.body.get("trace")
    info = trace.get("trace_info") if isinstance(trace, dict) else None
    if not isinstance(info, dict):
        raise InvalidInput("trace", "trace must have a trace_info.")
    trace_id, about, tags = text(info, "trace_id"), info.get("trace_metadata"), info.get("tags")
    if not TRACE_ID.fullmatch(trace_id):
        raise InvalidInput("trace_id", "trace_id must be tr- and a number in hexadecimals.")
    key = about.get("mlflow.sourceRun") if isinstance(about, dict) else None
    if not isinstance(key, str):
        raise InvalidInput(
            "trace_metadata", "Headroom keeps traces of runs alone: begin with mlflow.start_run."
        )
    found = client_run_by_key(call.project, MLFLOW, key)
    check_active(found)
    place = {"mlflow.artifactLocation": f"{run_info(found)['artifact_uri']}/traces/{trace_id}"}
    return {"trace": {"trace_info": info | {"tags": (tags if isinstance(tags, dict) else {}) | place}}}
