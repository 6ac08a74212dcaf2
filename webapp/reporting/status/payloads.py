"""The status as pages and programs get it: one dictionary; addresses and names of machines only for admins."""

from datetime import datetime
from typing import Any

from webapp.reporting.status.status import Status, Waiting, WorkerState
from webapp.reporting.status.troubles import troubles

Payload = dict[str, Any]


def status_payload(status: Status, *, is_admin: bool) -> Payload:
    """Everything that is known. Errors of Ray and of hand-overs name addresses, so they are for admins, too."""
    cluster, last, disk = status.cluster, status.last_round, status.disk
    found = troubles(status if is_admin else _without_addresses(status))
    return {
        "at": status.at,
        "healthy": not found,
        "troubles": [{"bad": trouble.is_bad, "text": trouble.text} for trouble in found],
        "release": status.release,
        "version": status.version,
        "runs": dict(status.runs),
        "unsent": {
            "dispatches": _waiting(status.dispatches, status.at),
            "alerts": _waiting(status.alerts, status.at),
            "refits": _waiting(status.refits, status.at),
            "judgements": _waiting(status.judgements, status.at),
        },
        "oldest_unsent_seconds": _oldest(status),
        "broker": {
            "configured": status.broker.is_configured,
            "answers": status.broker.is_configured and not status.broker.error,
            "queued": status.broker.queued,
        },
        "workers": [_worker(worker, number, is_admin) for number, worker in enumerate(status.workers, 1)],
        "reconciliation": last
        and {"began_at": last.began_at, "seconds": last.seconds, "failures": last.failures},
        "cluster": cluster
        and {
            "asked_at": cluster.asked_at,
            "seen_at": cluster.seen_at,
            "answers": not cluster.error,
            "nodes": [_node(node, is_admin) for node in cluster.nodes],
            "cpus": sum(node["cpus"] for node in cluster.nodes if node["alive"]),
            "gpus": sum(node["gpus"] for node in cluster.nodes if node["alive"]),
        },
        "database_bytes": status.database_bytes,
        "disk": disk
        and {"free": disk.free, "total": disk.total, "least_free": disk.least, "low": disk.is_low},
    }


def _without_addresses(status: Status) -> Status:
    """For members who are no admins."""
    cluster = status.cluster
    if cluster is not None and cluster.error:
        cluster.error = "it cannot be asked"
    hidden = "an admin can see why" if status.dispatch_error else ""
    return Status(**(vars(status) | {"cluster": cluster, "dispatch_error": hidden}))


def _waiting(waiting: Waiting, now: datetime) -> Payload:
    return {"count": waiting.count, "oldest_seconds": _seconds(waiting.oldest, now)}


def _oldest(status: Status) -> float | None:
    """Of what must be sent or done: hand-overs, alerts, refits."""
    ages = [_seconds(each.oldest, status.at) for each in (status.dispatches, status.alerts, status.refits)]
    return max((age for age in ages if age is not None), default=None)


def _seconds(since: datetime | None, now: datetime) -> float | None:
    return None if since is None else round(max(0.0, (now - since).total_seconds()), 1)


def _worker(worker: WorkerState, number: int, is_admin: bool) -> Payload:
    return {
        "name": worker.name if is_admin else f"worker {number}",
        "alive": worker.is_alive,
        "version": worker.version,
        "other_version": worker.is_other,
        "started_at": worker.started_at,
        "seen_at": worker.seen_at,
    }


def _node(node: Payload, is_admin: bool) -> Payload:
    return {name: value for name, value in node.items() if name != "address" or is_admin}
