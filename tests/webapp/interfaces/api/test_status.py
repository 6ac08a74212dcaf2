"""GET /api/v1/status."""

import pytest
from django.utils import timezone

import headroom
from webapp.identity.accounts.services import set_role
from webapp.record.health import services


@pytest.fixture
def seen(db):
    now = timezone.now()
    services.worker_lives("gpu-box:77", host="gpu-box", version="v", started_at=now)
    services.note_cluster(
        [{"id": "n1", "address": "10.1.2.3", "alive": True, "is_head": True, "cpus": 8, "gpus": 2}]
    )
    services.note_round(now, {})


def test_the_status_is_json(reader, seen):
    answer = reader.get("status").json()

    assert answer["release"] == headroom.__version__
    assert answer["healthy"] is False  # no broker, and a worker of another version
    assert answer["workers"][0]["name"] == "gpu-box:77"
    assert answer["workers"][0]["other_version"] is True
    assert answer["cluster"]["nodes"][0]["address"] == "10.1.2.3"
    assert answer["disk"]["free"] > 0 and answer["database_bytes"] > 0


def test_without_anything_seen_it_answers_too(reader, db):
    answer = reader.get("status").json()

    assert (answer["cluster"], answer["reconciliation"], answer["workers"]) == (None, None, [])


def test_a_token_of_a_viewer_gets_no_addresses(reader, user, project, seen):
    set_role(project, user, "viewer")
    answer = reader.get("status")

    assert answer.status_code == 200
    assert "10.1.2.3" not in answer.content.decode() and "gpu-box" not in answer.content.decode()
