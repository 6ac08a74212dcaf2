"""What Ray says of its nodes, written down for pages and the API, which never wait for Ray themselves."""

from collections.abc import Mapping
from typing import Any

from webapp.record.health import services
from webapp.record.runs import places
from webapp.record.runs.models import Dispatch, State
from worker.ray_jobs import RayRefused, RayUnreachable, connect


def look_at_cluster() -> int:
    """Ask Ray for its nodes, every 15 s; returns how many there are."""
    return _look() if services.is_cluster_due() else 0


def know_cluster() -> None:
    """Before anything is handed over: what the cluster has, where that is not known, as after all workers were away.
    A run that it cannot hold would else be handed over, and fail there."""
    waiting = Dispatch.objects.filter(done_at=None, kind=Dispatch.Kind.SUBMIT, run__state=State.QUEUED)
    if places.devices() is None and waiting.exists():
        _look()


def _look() -> int:
    try:
        with connect() as jobs:
            nodes = [node_of(row) for row in jobs.nodes()]
    except (RayUnreachable, RayRefused) as error:
        services.note_no_cluster(str(error))
        return 0
    services.note_cluster(nodes)
    return len(nodes)


def node_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """One node of Ray's answer, as it is stored. Amounts are whole devices; a dead node has none."""
    total = row.get("resources_total") or {}
    return {
        "id": str(row.get("node_id", ""))[:12],
        "address": str(row.get("node_ip", "")),
        "alive": row.get("state") == "ALIVE",
        "is_head": bool(row.get("is_head_node")),
        "cpus": round(float(total.get("CPU", 0))),
        "gpus": round(float(total.get("GPU", 0))),
    }
