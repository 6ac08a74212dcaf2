"""/metrics: what was counted by all processes of this machine, and what is so now; for whom it is open."""

from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from webapp.base.metrics import COUNTED, SHARED_FOLDER
from webapp.identity.audit.addresses import client_address
from webapp.operation.observing.state import State

Network = IPv4Network | IPv6Network


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus' text form. 404 where nobody was let in by a variable, 401 or 403 for everybody else."""
    refusal = refused(request)
    if refusal is not None:
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
