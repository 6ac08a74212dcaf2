"""What Ray says of its nodes, written down for pages and the API, which never wait for Ray themselves."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from webapp.record.health import services
from webapp.record.runs.admission.reading import nodes_alive
from webapp.record.runs.models import Dispatch, State
from webapp.record.runs.observation import JobStatus
from worker.ray_jobs import RayJobs, RayRefused, RayUnreachable, connect

log = logging.getLogger(__name__)


def look_at_cluster() -> int:
    """Ask Ray for its nodes, every 15 s; returns how many there are."""
    return _look() if services.is_cluster_due() else 0


def know_cluster() -> None:
    """Before anything is handed over: what the cluster has, where that is not known, as after all workers were away."""
    waiting = Dispatch.objects.filter(done_at=None, kind=Dispatch.Kind.SUBMIT, run__state=State.QUEUED)
    if waiting.exists():
        look_if_unknown()


def look_if_unknown() -> None:
    """Ask Ray for its nodes where nobody knows them."""
    if not nodes_alive():
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


def look_at_groups(jobs: RayJobs, known: Mapping[str, JobStatus]) -> None:
    """Write down where jobs (by submission id) are placed. A Ray that does not say so is no trouble: then the queue
    goes by what its runs ask for."""
    try:
        services.note_groups(groups_of(jobs.placement_groups(), known))
    except RayUnreachable as error:
        log.debug("placement groups: %s", error)


def groups_of(rows: Iterable[Mapping[str, Any]], jobs: Mapping[str, JobStatus]) -> dict[str, Any]:
    """Ray's placement groups as they are stored: bundles by the submission that reserved them, "" of none, and the
    submissions that wait for some."""
    names = {job.job_id: name for name, job in jobs.items() if job.job_id}
    placed: dict[str, list[tuple[str, float, float]]] = {}
    waiting = set()
    for row in rows:
        name = names.get(str(row.get("creator_job_id")), "")
        if row.get("state") != "CREATED":
            waiting.add(name)
            continue
        for bundle in row.get("bundles") or ():
            amounts = bundle.get("unit_resources") or {}
            held = (node_id_of(bundle), float(amounts.get("CPU", 0)), float(amounts.get("GPU", 0)))
            placed.setdefault(name, []).append(held)
    return {
        "placed": {name: sorted(held) for name, held in sorted(placed.items())},
        "waiting": sorted(waiting - {""}),
    }


def node_id_of(row: Mapping[str, Any]) -> str:
    """As much of it as is stored and shown."""
    return str(row.get("node_id", ""))[:12]


def node_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """One node of Ray's answer, as it is stored. Amounts are whole devices; a dead node has none."""
    total = row.get("resources_total") or {}
    return {
        "id": node_id_of(row),
        "address": str(row.get("node_ip", "")),
        "alive": row.get("state") == "ALIVE",
        "is_head": bool(row.get("is_head_node")),
        "cpus": round(float(total.get("CPU", 0))),
        "gpus": round(float(total.get("GPU", 0))),
    }
