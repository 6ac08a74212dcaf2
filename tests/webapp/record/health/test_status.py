"""The status as it is found: bounded waits, one answer for page and API, no addresses for those who are no admins."""

import re
import socket
import time
from datetime import timedelta

import pytest
from django.utils import timezone

from tests.members import member
from tests.webapp.interfaces.pages.reading import text_of
from webapp.base.disk import code_version
from webapp.identity.accounts.models import Role
from webapp.record.evaluations.models import Evaluation
from webapp.record.health import services
from webapp.record.health.models import ClusterSeen, LastRound, WorkerSeen
from webapp.record.runs import lifecycle, places
from webapp.record.runs.models import Dispatch, Run
from webapp.reporting.status import status_now
from webapp.reporting.troubles import status_payload

pytestmark = pytest.mark.django_db
NODES = [{"id": "n1", "address": "10.1.2.3", "alive": True, "is_head": True, "cpus": 8, "gpus": 2}]


@pytest.fixture
def seen(db):
    """What a worker has written down."""
    now = timezone.now()
    services.worker_lives("gpu-box:77", host="gpu-box", version=code_version(), started_at=now)
    services.note_cluster(NODES)
    services.note_round(now, {})


@pytest.fixture
def silent_broker(settings):
    """It takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings.CELERY_BROKER_URL = f"redis://127.0.0.1:{server.getsockname()[1]}/0"
        yield


def test_what_a_worker_writes_is_one_row_each(seen):
    services.worker_lives("gpu-box:77", host="gpu-box", version="v", started_at=timezone.now())
    services.note_round(timezone.now(), {"keep_logs": "OSError"})
    services.note_cluster(NODES)

    assert (WorkerSeen.objects.count(), LastRound.objects.count(), ClusterSeen.objects.count()) == (1, 1, 1)
    assert LastRound.objects.get().failures == {"keep_logs": "OSError"}


def test_a_question_that_failed_keeps_what_was_known(seen):
    services.note_no_cluster("timed out")

    row = ClusterSeen.objects.get()
    assert (row.error, row.nodes) == ("timed out", NODES)
    assert row.seen_at < row.asked_at
    assert not services.is_cluster_due()


def test_a_worker_that_was_stopped_is_forgotten_and_a_dead_one_after_a_day(seen):
    services.worker_lives("other:1", host="other", version="v", started_at=timezone.now())
    services.worker_ends("other:1")
    WorkerSeen.objects.update(seen_at=timezone.now() - timedelta(hours=23))
    assert services.forget_old_workers() == 0

    WorkerSeen.objects.update(seen_at=timezone.now() - timedelta(hours=25))
    assert services.forget_old_workers() == 1


def test_queued_runs_and_undelivered_rows_are_counted(seen, make_run):
    make_run(0)
    payload = status_payload(status_now(), is_admin=True)

    assert payload["runs"] == {"waiting": 1, "starting": 0, "running": 0}
    assert payload["benchmarks"] == {"waiting": 0, "starting": 0, "running": 0}
    assert payload["unsent"]["dispatches"]["count"] == 1
    assert payload["oldest_unsent_seconds"] < 60
    assert payload["cluster"]["gpus"] == 2


def test_benchmarks_in_the_queue_are_counted(seen, make_run):
    run, now = make_run(0), timezone.now()
    for k, (state, began_at) in enumerate(
        (("queued", None), ("running", None), ("running", now), ("stopping", now), ("succeeded", now))
    ):
        Evaluation.objects.create(run=run, step=1, task="gsm8k", k=k, state=state, began_at=began_at)

    payload = status_payload(status_now(), is_admin=False)

    assert payload["benchmarks"] == {"waiting": 1, "starting": 1, "running": 2}


def test_what_waits_on_purpose_is_no_hand_over_that_is_late(seen, make_run):
    first, unseen, retried, failing = (make_run(0, seed=seed) for seed in range(4))
    places.set_queue(first.project, most_at_work=1, quota_hours=None, user=None)
    lifecycle.claim_dispatches(run_id=first.pk)
    hour = timedelta(hours=1)
    Dispatch.objects.update(created_at=timezone.now() - hour)

    waiting = status_payload(status_now(), is_admin=True)
    assert waiting["unsent"]["dispatches"] == {"count": 0, "oldest_seconds": None}
    assert not any("hand-over" in trouble["text"] for trouble in waiting["troubles"])

    Run.objects.filter(pk=unseen.pk).update(state_reason="")  # no worker has looked at the queue
    retried.dispatches.update(claimed_until=timezone.now() + hour)
    failing.dispatches.update(claimed_until=timezone.now() + hour, error="Ray does not answer")
    late = status_payload(status_now(), is_admin=True)
    assert late["unsent"]["dispatches"]["count"] == 2
    assert late["oldest_unsent_seconds"] >= hour.total_seconds()


def test_a_broker_that_hangs_costs_a_second_and_is_said(seen, silent_broker):
    began = time.monotonic()
    payload = status_payload(status_now(), is_admin=True)

    assert time.monotonic() - began < 3
    assert payload["broker"] == {"configured": True, "answers": False, "queued": None}
    assert any("The broker does not answer" in trouble["text"] for trouble in payload["troubles"])


def test_addresses_are_for_admins(seen, make_run):
    services.note_no_cluster("Ray at http://10.1.2.3:8265 does not answer")
    make_run(0).dispatches.update(error="Ray at http://10.1.2.3:8265 does not answer")

    assert "10.1.2.3" in str(status_payload(status_now(), is_admin=True))
    for_members = str(status_payload(status_now(), is_admin=False))
    assert "10.1.2.3" not in for_members and "gpu-box" not in for_members
    assert "it cannot be asked" in for_members


def test_the_page_says_what_is_wrong_and_fits_its_budget(ada, seen, django_assert_max_num_queries):
    with django_assert_max_num_queries(22):
        page = ada.get("/status")

    assert page.status_code == 200
    assert "No broker is configured" in page.content.decode()
    assert "gpu-box:77" in page.content.decode()  # Ada is an admin


def test_the_page_counts_seconds_since_the_last_sign_of_life(ada, seen):
    then = timezone.now() - timedelta(seconds=50)
    WorkerSeen.objects.update(seen_at=then)
    LastRound.objects.update(began_at=then)
    ClusterSeen.objects.update(seen_at=then)

    page = text_of(ada.get("/status"))

    assert re.search(r'silent</span> <span class="small muted">for 5\d s<', page)
    assert re.search(r'Last reconciliation</h2> <div class="big">5\d s<', page)
    assert re.search(r"as Ray said 5\d s ago\.", page)


def test_a_viewer_sees_no_machine_and_a_stranger_nothing(client, project, seen):
    client.force_login(member("vera", project=project, role=Role.VIEWER))
    page = client.get("/status").content.decode()

    assert "worker 1" in page and "gpu-box" not in page and "10.1.2.3" not in page


def test_only_the_region_is_sent_to_htmx(ada, seen):
    region = ada.get("/status", headers={"HX-Request": "true"}).content.decode()

    assert "<html" not in region and "Last reconciliation" in region
