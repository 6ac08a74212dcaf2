"""What Ray says of its nodes is written down; a failed question is, too, and asked again after a while."""

from datetime import timedelta

import pytest

from tests.worker.fake_ray import FakeRay
from webapp.record.health.models import ClusterSeen
from webapp.record.runs.observation import JobStatus
from worker.cluster import groups_of, look_at_cluster, look_at_groups
from worker.ray_jobs import connect

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


def group(job: str, state: str, *bundles: tuple[str, float, float]) -> dict:
    each = [{"node_id": node, "unit_resources": {"CPU": cpus, "GPU": gpus}} for node, cpus, gpus in bundles]
    return {"creator_job_id": job, "state": state, "bundles": each}


def test_placement_groups_are_known_by_the_job_that_reserved_them() -> None:
    jobs = {"run-a-a1": JobStatus("RUNNING", job_id="01"), "run-b-a1": JobStatus("RUNNING", job_id="02")}
    rows = [
        group("01", "CREATED", ("abcdef0123456789", 2.0, 1.0)),
        group("01", "CREATED", ("ffff", 1.0, 0.0)),  # of its reward workers
        group("02", "PENDING", ("", 4.0, 0.0)),
        group("09", "CREATED", ("ffff", 3.0, 0.0)),  # a driver that somebody started by hand
    ]

    assert groups_of(rows, jobs) == {
        "placed": {"": [("ffff", 3.0, 0.0)], "run-a-a1": [("abcdef012345", 2.0, 1.0), ("ffff", 1.0, 0.0)]},
        "waiting": ["run-b-a1"],
    }


def test_where_ray_does_not_say_where_jobs_are_what_was_known_stays(ray: FakeRay) -> None:
    ray.nodes, ray.groups = NODES, [group("ray-x", "CREATED", ("ffff", 1.0, 0.0))]
    look_at_cluster()
    with connect() as jobs:
        look_at_groups(jobs, {})
        ray.fail = (500, "no state API")
        look_at_groups(jobs, {})

    assert ClusterSeen.objects.get().groups == {"placed": {"": [["ffff", 1.0, 0.0]]}, "waiting": []}
