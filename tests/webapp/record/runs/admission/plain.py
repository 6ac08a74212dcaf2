"""Queues and clusters in a line, for tests of decisions."""

from datetime import UTC, datetime, timedelta
from typing import Any

from training.bundles import Amounts
from webapp.record.runs.admission.deciding import decide, in_order
from webapp.record.runs.admission.parts import AtWork, Bundles, Cluster, Decision, Queued, Share, Span

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def cores(*counts: float) -> Bundles:
    return tuple({"CPU": float(count)} for count in counts)


def gpus(*counts: float) -> Bundles:
    return tuple({"CPU": 1.0, "GPU": float(count)} for count in counts)


def nodes(*each: tuple[float, float]) -> Cluster:
    """(CPUs, GPUs) of each."""
    return Cluster([node(*amounts) for amounts in each])


def node(cpus: float, gpus: float = 0) -> Amounts:
    return {"CPU": float(cpus), "GPU": float(gpus)}


def queued(run: str, bundles: Bundles = cores(1), *, age: float = 0.0, **changes: Any) -> Queued:  # noqa: B008
    """`age`: minutes that it has waited."""
    then = NOW - timedelta(minutes=age)
    known: dict[str, Any] = {"project": 1, "priority": 1, "made_at": then, "since": then, "hours": 1.0}
    return Queued(run=run, bundles=bundles, **known | changes)


def working(run: str, bundles: Bundles = cores(1), **changes: Any) -> AtWork:  # noqa: B008
    return AtWork(**{"run": run, "project": 1, "priority": 1, "bundles": bundles} | changes)


def decided(
    queue: list[Queued],
    at_work: list[AtWork] | None = None,
    cluster: Cluster | None = None,
    shares: dict[int, Share] | None = None,
) -> Decision:
    """On a machine of two cores, where nothing else is said."""
    cluster = cluster or nodes((2, 0))
    return decide(in_order(queue, shares or {}, NOW), at_work or [], cluster, shares or {})


def hours(least: float, most: float | None = None) -> Span:
    return Span(least, most)
