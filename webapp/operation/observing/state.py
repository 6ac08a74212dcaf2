"""What is so at this moment, asked of the database at each scrape: `webapp.reporting.status.status` and two counts."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from django.db import Error
from django.db.models import Count, F, Value
from django.db.models.functions import Coalesce, NullIf
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from webapp.base.code import code_version
from webapp.base.disk import Disk
from webapp.record.health.models import ClusterSeen
from webapp.record.runs.models import Run
from webapp.reporting.status.status import Status, Waiting, status_now

log = logging.getLogger(__name__)


class State(Collector):
    """Figures of the whole installation: every web server answers with the same."""

    def collect(self) -> Iterable[Metric]:
        """Without the database only that it is away."""
        try:
            return list(_gauges(status_now()))
        except Error as error:
            log.warning("metrics: the database does not answer: %s", type(error).__name__)
            return [_gauge("headroom_database_up", "Whether the database answers.", 0)]


def _gauges(status: Status) -> Iterator[Metric]:
    yield _labelled("headroom_build_info", "The code that runs.", "version", {code_version(): 1})
    yield _gauge("headroom_database_up", "Whether the database answers.", 1)
    yield _gauge("headroom_database_size_bytes", "Size of the database.", status.database_bytes)
    yield _labelled("headroom_runs", "Runs, by state.", "state", _runs())
    said = "Runs by the status of their newest forecast; none: nothing forecast yet."
    yield _labelled("headroom_runs_by_fit", said, "status", _runs_by_fit())
    yield from _waiting(status)
    yield from _broker(status)
    yield from _workers(status)
    yield from _cluster(status.cluster)
    yield from _disk(status.disk)


def _runs() -> dict[str, int]:
    return dict(Run.objects.order_by("state").values_list("state").annotate(number=Count("pk")))


def _runs_by_fit() -> dict[str, int]:
    status = Coalesce(NullIf(F("summary__fit_status"), Value("")), Value("none"))
    counted = Run.objects.order_by().annotate(fitted=status).values_list("fitted")
    return dict(counted.annotate(number=Count("pk")))


def _waiting(status: Status) -> Iterator[Metric]:
    queues = (
        ("dispatches_waiting", "dispatches", "Rows of the outbox that a worker should have sent", status.dispatches),
        ("alerts_waiting", "alerts", "Alerts that are due", status.alerts),
        ("refits_wanted", "refits", "Runs whose new evaluations wait for a refit", status.refits),
        ("judgements_wanted", "judgements", "Runs that wait to be judged by the alarms' rules", status.judgements),
    )  # fmt: skip
    for name, short, said, waiting in queues:
        yield _gauge(f"headroom_{name}", f"{said}.", waiting.count)
        age = f"{said}: age of the oldest; 0 where there is none."
        yield _gauge(f"headroom_{short}_oldest_age_seconds", age, _age(waiting, status.at))


def _age(waiting: Waiting, now: datetime) -> float:
    return 0.0 if waiting.oldest is None else max(0.0, (now - waiting.oldest).total_seconds())


def _broker(status: Status) -> Iterator[Metric]:
    broker = status.broker
    answers = broker.is_configured and not broker.error
    yield _gauge("headroom_broker_up", "Whether the broker answers.", answers)
    if broker.queued is not None:
        yield _gauge("headroom_broker_queue_length", "Hints that no worker has taken yet.", broker.queued)


def _workers(status: Status) -> Iterator[Metric]:
    alive = sum(worker.is_alive for worker in status.workers)
    counted = {"alive": alive, "silent": len(status.workers) - alive}
    yield _labelled("headroom_workers", "Worker processes, by their sign of life.", "state", counted)
    if status.last_round is not None:
        last = status.last_round
        since = "Since the end of the newest round of reconciliation."
        yield _gauge("headroom_reconciliation_age_seconds", since, last.age(status.at).total_seconds())
        took = "What the newest round of reconciliation took."
        yield _gauge("headroom_reconciliation_duration_seconds", took, last.seconds)
        failed = "Steps of the newest round of reconciliation that failed."
        yield _gauge("headroom_reconciliation_failed_steps", failed, len(last.failures))


def _cluster(seen: ClusterSeen | None) -> Iterator[Metric]:
    if seen is None:
        return
    yield _gauge(
        "headroom_cluster_up", "Whether Ray said how its nodes are when it was last asked.", not seen.error
    )
    alive = [node for node in seen.nodes if node["alive"]]
    counted = {"alive": len(alive), "dead": len(seen.nodes) - len(alive)}
    yield _labelled("headroom_cluster_nodes", "Nodes of the cluster, as last seen.", "state", counted)
    yield _gauge("headroom_cluster_cpus", "CPU cores of living nodes.", sum(node["cpus"] for node in alive))
    yield _gauge("headroom_cluster_gpus", "GPUs of living nodes.", sum(node["gpus"] for node in alive))


def _disk(disk: Disk | None) -> Iterator[Metric]:
    if disk is None:
        return
    yield _gauge("headroom_disk_free_bytes", "Free on the disk of HEADROOM_HOME.", disk.free)
    yield _gauge("headroom_disk_size_bytes", "Size of the disk of HEADROOM_HOME.", disk.total)
    least = "What must stay free there: below it nothing is launched."
    yield _gauge("headroom_disk_reserved_bytes", least, disk.least)


def _gauge(name: str, said: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, said, value=float(value))


def _labelled(name: str, said: str, label: str, counted: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, said, labels=[label])
    for key, value in counted.items():
        family.add_metric([key], value)
    return family
