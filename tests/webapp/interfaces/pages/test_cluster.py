"""What pages say of the cluster is what a worker wrote down, with its age; Ray itself is asked by none of them."""

import socket
from datetime import timedelta

import pytest
from django.utils import timezone

from webapp.interfaces.pages.launching.preview import NOT_SEEN, OLD, REFUSES, SILENT, Cluster, cluster_now
from webapp.record.health.models import ClusterSeen, LastRound
from webapp.record.health.services import note_cluster, note_no_cluster, note_round
from webapp.reporting.troubles import ROUND_LATE

pytestmark = pytest.mark.django_db


def node(*, alive=True, cpus=4, gpus=1):
    return {"id": "a", "address": "10.0.0.1", "alive": alive, "is_head": False, "cpus": cpus, "gpus": gpus}


@pytest.fixture
def ray(monkeypatch):
    """A Ray that takes connections and answers none; whoever asks it is remembered in its backlog."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("RAY_ADDRESS", f"http://127.0.0.1:{server.getsockname()[1]}")
        server.setblocking(False)
        yield server


def is_asked(server):
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def test_only_living_nodes_count(ray):
    note_cluster([node(), node(alive=False, cpus=8), node(cpus=2, gpus=0)])

    found = cluster_now()

    assert (found.ray, found.gpus, found.cpus) == ("ok", 1, 6)
    assert timedelta(0) <= found.age < timedelta(minutes=1)
    assert not is_asked(ray)


def test_what_was_never_seen_is_not_known(ray):
    found = cluster_now()

    assert (found.ray, found.gpus, found.cpus, found.age) == (NOT_SEEN, None, None, None)
    assert "is not known: no worker has seen it yet." in found.troubles[-1]


def test_a_cluster_without_a_living_node_is_away_and_not_too_small(ray):
    note_cluster([node(alive=False)])

    assert (cluster_now().gpus, cluster_now().cpus) == (None, None)


def test_the_last_good_answer_stays_with_its_age(ray):
    note_cluster([node()])
    ClusterSeen.objects.update(seen_at=timezone.now() - timedelta(minutes=5))
    note_no_cluster("Ray at http://10.0.0.1:8265 does not answer")

    found = cluster_now()

    assert (found.ray, found.gpus) == (REFUSES, 1)
    assert found.troubles[-1].endswith("launched runs wait. What is known of its nodes is 5 min old.")
    assert "10.0.0.1" not in found.troubles[-1]


def test_an_answer_that_nobody_renews_is_old(ray):
    note_cluster([node()])
    long_ago = timezone.now() - timedelta(hours=2)
    ClusterSeen.objects.update(asked_at=long_ago, seen_at=long_ago)

    assert cluster_now().ray == OLD
    assert cluster_now().troubles[-1].endswith("What is known of its nodes is 2 h old.")


def test_without_an_address_there_is_none(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)

    assert "No Ray cluster is known" in cluster_now().troubles[-1]


def test_troubles_of_the_worker():
    assert Cluster("ok", "ok", 0, 2).troubles == []
    assert Cluster("does not answer", "ok").troubles[0].startswith("The worker does not answer")


def test_a_worker_that_is_not_asked_is_judged_by_its_newest_round(settings):
    settings.CELERY_BROKER_URL = "redis://127.0.0.1:1/0"  # nobody is there to ask
    assert cluster_now(asks_worker=False).worker == SILENT

    note_round(timezone.now(), {})
    assert cluster_now(asks_worker=False).worker == "ok"

    LastRound.objects.update(began_at=timezone.now() - 2 * ROUND_LATE)
    assert cluster_now(asks_worker=False).worker == SILENT

    settings.CELERY_BROKER_URL = ""
    assert cluster_now(asks_worker=False).troubles[0].startswith("No broker is configured")
