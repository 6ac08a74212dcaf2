"""What is wrong with the installation, in words that say what follows from it. Pure functions of a Status.

The status as pages and programs get it: one dictionary; addresses and names of machines only for admins.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from webapp.base.disk import low_words
from webapp.reporting.status import Status, Waiting

ROUND_LATE = timedelta(seconds=20)  # a round begins every two seconds
UNSENT_LATE = timedelta(seconds=60)
ALERT_LATE = timedelta(minutes=5)
CLUSTER_OLD = timedelta(seconds=90)
MOST_QUEUED = 1000  # hints; workers take hundreds a second
Payload = dict[str, Any]


@dataclass(frozen=True)
class Trouble:
    """`is_bad`: runs do not start or do not go on; else something to look at."""

    is_bad: bool
    text: str


def troubles(status: Status) -> list[Trouble]:
    """The worst first; empty where nothing is wrong."""
    parts = (_of_worker, _of_broker, _of_ray, _of_disk, _of_unsent)
    found = [trouble for part in parts for trouble in part(status)]
    return sorted(found, key=lambda trouble: not trouble.is_bad)


def _of_worker(status: Status) -> Iterator[Trouble]:
    alive = [worker for worker in status.workers if worker.is_alive]
    silent = len(status.workers) - len(alive)
    if not alive:
        seen = max((worker.seen_at for worker in status.workers), default=None)
        since = f"has been heard of since {_clock(seen)}" if seen else "was heard of in the last day"
        yield Trouble(
            True, f"No worker {since}: runs are not started, followed or refitted, and no alert is sent."
        )
    elif silent:
        workers = _count(silent, "worker has", "workers have")
        yield Trouble(False, f"{workers} gone silent without having been stopped.")
    if any(worker.is_other for worker in alive):
        yield Trouble(
            False,
            "A worker runs other code than this web server: restart the older of them, or wait for the deployment "
            "to end.",
        )
    yield from _of_round(status, has_worker=bool(alive))


def _of_round(status: Status, *, has_worker: bool) -> Iterator[Trouble]:
    if (last := status.last_round) is None:
        if has_worker:
            yield Trouble(True, "Reconciliation has never run: is beat running?")
        return
    age = last.age(status.at)
    if age > ROUND_LATE and has_worker:
        yield Trouble(
            True,
            f"The last round of reconciliation was {span_words(age)} ago: is beat running, and do broker and "
            "Ray answer?",
        )
    for step, why in last.failures.items():
        yield Trouble(False, f"The step {step} of the last round failed: {why}")


def _of_broker(status: Status) -> Iterator[Trouble]:
    broker = status.broker
    if not broker.is_configured:
        yield Trouble(True, "No broker is configured (REDIS_URL): beat reaches no worker.")
    elif broker.error:
        yield Trouble(True, f"The broker {broker.error}: nothing is lost, but rounds stop until it is back.")
    elif (broker.queued or 0) > MOST_QUEUED:
        yield Trouble(False, f"{broker.queued:,} hints wait in the broker: the workers do not keep up.")


def _of_ray(status: Status) -> Iterator[Trouble]:
    if (seen := status.cluster) is None:
        return
    if seen.error:
        before = f" It last did at {_clock(seen.seen_at)}." if seen.seen_at else ""
        yield Trouble(True, f"Ray does not say how its nodes are: {seen.error}.{before} Launched runs wait.")
        return
    if status.at - seen.asked_at > CLUSTER_OLD:
        yield Trouble(False, f"What is known of the cluster is of {_clock(seen.asked_at)}.")
    dead = sum(not node["alive"] for node in seen.nodes)
    if dead == len(seen.nodes):
        yield Trouble(True, "The cluster has no node that is alive.")
    elif dead:
        nodes = _count(dead, "node of the cluster is", "nodes of the cluster are")
        yield Trouble(False, f"{nodes} dead.")


def _of_disk(status: Status) -> Iterator[Trouble]:
    if (disk := status.disk) is None:
        yield Trouble(True, "The disk of HEADROOM_HOME does not answer: is its file system away?")
    elif disk.is_low:
        yield Trouble(True, low_words(disk))


def _of_unsent(status: Status) -> Iterator[Trouble]:
    waits = (
        ("hand-over to Ray", "hand-overs to Ray", status.dispatches, UNSENT_LATE),
        ("alert", "alerts", status.alerts, ALERT_LATE),
        ("run to be fitted anew", "runs to be fitted anew", status.refits, UNSENT_LATE),
        ("run to be judged", "runs to be judged", status.judgements, UNSENT_LATE),
    )
    for one, many, waiting, late in waits:
        if waiting.oldest is not None and status.at - waiting.oldest > late:
            wait = _count(waiting.count, f"{one} waits", f"{many} wait")
            yield Trouble(False, f"{wait}, the oldest for {span_words(status.at - waiting.oldest)}.")
    if status.dispatch_error:
        yield Trouble(False, f"The newest hand-over that failed: {status.dispatch_error}")


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _clock(moment: datetime) -> str:
    return f"{moment:%H:%M:%S} UTC"


def span_words(span: timedelta) -> str:
    """ "40 s", "25 min", "3 h"."""
    seconds = int(span.total_seconds())
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"


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
        "benchmarks": dict(status.benchmarks),
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
        "workers": [
            {
                "name": worker.name if is_admin else f"worker {number}",
                "alive": worker.is_alive,
                "version": worker.version,
                "other_version": worker.is_other,
                "started_at": worker.started_at,
                "seen_at": worker.seen_at,
            }
            for number, worker in enumerate(status.workers, 1)
        ],
        "reconciliation": last
        and {"began_at": last.began_at, "seconds": last.seconds, "failures": last.failures},
        "cluster": cluster
        and {
            "asked_at": cluster.asked_at,
            "seen_at": cluster.seen_at,
            "answers": not cluster.error,
            "nodes": [
                {name: value for name, value in node.items() if name != "address" or is_admin}
                for node in cluster.nodes
            ],
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
    return replace(status, dispatch_error=hidden)


def _waiting(waiting: Waiting, now: datetime) -> Payload:
    return {"count": waiting.count, "oldest_seconds": _seconds(waiting.oldest, now)}


def _oldest(status: Status) -> float | None:
    """Of what must be sent or done: hand-overs, alerts, refits."""
    ages = [_seconds(each.oldest, status.at) for each in (status.dispatches, status.alerts, status.refits)]
    return max((age for age in ages if age is not None), default=None)


def _seconds(since: datetime | None, now: datetime) -> float | None:
    return None if since is None else round(max(0.0, (now - since).total_seconds()), 1)
