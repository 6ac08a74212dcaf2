"""What Ray says of its nodes is written down; a failed question is, too, and asked again after a while."""

from datetime import timedelta

import pytest

from tests.worker.fake_ray import FakeRay
from webapp.record.health.models import ClusterSeen
from worker.cluster import look_at_cluster

pytestmark = pytest.mark.django_db
NODES = [
    {"node_id": "abcdef0123456789", "node_ip": "10.0.0.1", "state": "ALIVE", "is_head_node": True,
     "resources_total": {"CPU": 8.0, "GPU": 2.0, "memory": 1e9}},
    {"node_id": "ffff", "node_ip": "10.0.0.2", "state": "DEAD", "is_head_node": False, "resources_total": {}},
]  # fmt: skip


def test_nodes_are_stored_and_not_asked_for_again_at_once(ray: FakeRay) -> None:
    ray.nodes = NODES
    assert look_at_cluster() == 2
    assert look_at_cluster() == 0

    assert ray.requests == ["GET /api/v0/nodes"]
    assert ClusterSeen.objects.get().nodes == [
        {"id": "abcdef012345", "address": "10.0.0.1", "alive": True, "is_head": True, "cpus": 8, "gpus": 2},
        {"id": "ffff", "address": "10.0.0.2", "alive": False, "is_head": False, "cpus": 0, "gpus": 0},
    ]


def test_ray_that_fails_is_written_down_and_asked_again(ray: FakeRay) -> None:
    ray.fail = (500, "dashboard agent is down")
    assert look_at_cluster() == 0
    assert "dashboard agent is down" in ClusterSeen.objects.get().error

    ray.fail, ray.nodes = None, NODES
    row = ClusterSeen.objects.get()
    ClusterSeen.objects.update(asked_at=row.asked_at - timedelta(minutes=1))
    assert look_at_cluster() == 2
    assert ClusterSeen.objects.get().error == ""
