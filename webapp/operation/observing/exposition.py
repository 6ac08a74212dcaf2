"""/metrics: what was counted by all processes of this machine, and what is so now; for whom it is open.

A worker's own /metrics: on a machine without a web server nobody else could say what its processes counted.

What is so at this moment, asked of the database at each scrape: `webapp.reporting.status` and two counts.

What is said at start of variables that cannot be used.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.core.handlers.wsgi import WSGIRequest
from django.db import Error as DatabaseError
from django.db.models import Count, F, Value
from django.db.models.functions import Coalesce, NullIf
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from webapp.base.disk import Disk, code_version
from webapp.base.metrics import COUNTED, SHARED_FOLDER
from webapp.identity.audit.services import client_address
from webapp.record.health.models import ClusterSeen
from webapp.record.runs.models import Run
from webapp.reporting.status import Status, status_now

log = logging.getLogger(__name__)
Network = IPv4Network | IPv6Network


class State(Collector):
    """Figures of the whole installation: every web server answers with the same."""

    def collect(self) -> Iterable[Metric]:
        """Without the database only that it is away."""
        try:
            return list(_gauges(status_now()))
        except DatabaseError as error:
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
        seconds = (status.at - (waiting.oldest or status.at)).total_seconds()
        yield _gauge(f"headroom_{short}_oldest_age_seconds", age, max(0.0, seconds))


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
    if (last := status.last_round) is not None:
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


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus' text form. 404 where nobody was let in by a variable, 401 or 403 for everybody else."""
    if (refusal := refused(request)) is not None:
        return refusal
    return HttpResponse(counted() + at_this_moment(), content_type=CONTENT_TYPE_LATEST)


def refused(request: HttpRequest) -> HttpResponse | None:
    """The answer for whoever may not read them; None for who may: the bearer of the token, or a caller from one of the
    networks that came straight from there or through proxies that are trusted."""
    token, networks = settings.METRICS_TOKEN, networks_of(settings.METRICS_ALLOW)
    if not (token or networks):
        return _plain("Metrics are off: HEADROOM_METRICS_TOKEN or HEADROOM_METRICS_ALLOW opens them.", 404)
    kind, _, sent = request.headers.get("Authorization", "").partition(" ")
    if token and kind.lower() == "bearer" and constant_time_compare(sent.strip(), token):
        return None
    if networks and _is_from(request, networks):
        return None
    answer = _plain("Metrics are not for everybody.", 401 if token else 403)
    if token:
        answer["WWW-Authenticate"] = 'Bearer realm="metrics"'
    return answer


def counted() -> bytes:
    """By all processes that share the folder; without one, by this process alone."""
    if SHARED_FOLDER is None:
        return generate_latest(COUNTED)
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=SHARED_FOLDER)
    return generate_latest(registry)


def at_this_moment() -> bytes:
    """Of the whole installation."""
    registry = CollectorRegistry()
    registry.register(State())
    return generate_latest(registry)


@lru_cache(maxsize=8)
def networks_of(text: str) -> tuple[Network, ...]:
    """Networks separated by commas. Raises ValueError, also for one that holds every address."""
    found = tuple(ip_network(part.strip(), strict=False) for part in text.split(",") if part.strip())
    if any(network.prefixlen == 0 for network in found):
        raise ValueError("a network of all addresses would open them to everybody")
    return found


def _is_from(request: HttpRequest, networks: tuple[Network, ...]) -> bool:
    if not settings.TRUSTED_PROXIES and "X-Forwarded-For" in request.headers:
        return False  # a proxy that nobody told us of stands between
    address = client_address(request)
    return address is not None and any(ip_address(address) in network for network in networks)


def _plain(text: str, status: int) -> HttpResponse:
    return HttpResponse(f"{text}\n", status=status, content_type="text/plain")


PORT, HOST = "HEADROOM_METRICS_PORT", "HEADROOM_METRICS_HOST"


def wanted_address() -> tuple[str, int] | None:
    """Host and port by the variables; None without a port. Raises ValueError."""
    if not (text := os.environ.get(PORT, "").strip()):
        return None
    if not text.isdecimal() or not 0 <= int(text) < 65536:
        raise ValueError(f"{PORT} must be a port, not {text!r}")
    return os.environ.get(HOST) or "127.0.0.1", int(text)


def serve(host: str, port: int) -> WSGIServer:
    """Answer in a thread, one scrape after the other. Raises OSError where the port is taken."""
    server = make_server(host, port, answer, handler_class=_Quiet)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    log.info("metrics at http://%s:%s/metrics", host, server.server_port)
    return server


def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Who may read it is as with the web server's /metrics; what is asked of the database stays there."""
    request = WSGIRequest(environ)
    response = refused(request) if request.path == "/metrics" else HttpResponse("not here\n", status=404)
    if response is None:
        response = HttpResponse(counted(), content_type=CONTENT_TYPE_LATEST)
    start_response(f"{response.status_code} {response.reason_phrase}", list(response.items()))
    return [response.content]


class _Quiet(WSGIRequestHandler):
    timeout = 5.0  # seconds for a caller who says nothing

    def log_message(self, *_: Any) -> None:
        """A scrape is no news."""


TAG = "headroom"
LEAST_TOKEN = 16
HINT = "docs/observability.md says who may read /metrics."


@register(TAG)
def metrics_door(**_: Any) -> Iterator[CheckMessage]:
    """Who may read /metrics must be clear, and must not be everybody."""
    token = settings.METRICS_TOKEN
    if token and (len(token) < LEAST_TOKEN or token != token.strip()):
        said = (
            f"HEADROOM_METRICS_TOKEN must have at least {LEAST_TOKEN} characters, and no space around them."
        )
        yield Error(said, hint=HINT, id="headroom.E011")
    try:
        networks_of(settings.METRICS_ALLOW)
    except ValueError as error:
        yield Error(f"HEADROOM_METRICS_ALLOW: {error}.", hint=HINT, id="headroom.E012")
    try:
        wanted_address()
    except ValueError as error:
        yield Error(f"{error}.", hint=HINT, id="headroom.E013")
