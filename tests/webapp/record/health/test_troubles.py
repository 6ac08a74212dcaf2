"""What is wrong, in words: each trouble once, and none where all is well."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from webapp.base.disk import Disk, bytes_in_words
from webapp.record.health.models import ClusterSeen, LastRound, WorkerSeen
from webapp.reporting.status import Broker, Status, Waiting
from webapp.reporting.troubles import troubles

NOW = datetime(2026, 5, 31, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(minutes=30)
NODE = {"id": "a", "address": "10.0.0.1", "alive": True, "is_head": True, "cpus": 8, "gpus": 1}


def worker(*, is_alive: bool = True, is_other: bool = False) -> WorkerSeen:
    row = WorkerSeen(name="host:1", host="host", version="v1", started_at=LONG_AGO, seen_at=NOW)
    row.is_alive, row.is_other = is_alive, is_other
    return row


WELL = Status(
    at=NOW, release="0.0.1", version="v1", runs={}, benchmarks={}, dispatches=Waiting(0), dispatch_error="",
    alerts=Waiting(0), refits=Waiting(2, NOW), judgements=Waiting(0), broker=Broker(True, queued=3), workers=[worker()],
    last_round=LastRound(began_at=NOW - timedelta(seconds=2), seconds=0.3, failures={}),
    cluster=ClusterSeen(asked_at=NOW, seen_at=NOW, nodes=[NODE]), database_bytes=10**7,
    disk=Disk(free=100 * 2**30, total=200 * 2**30, least=2 * 2**30),
)  # fmt: skip


def said(**changes) -> list[str]:
    return [trouble.text for trouble in troubles(replace(WELL, **changes))]


def test_nothing_is_said_where_nothing_is_wrong():
    assert said() == []


@pytest.mark.parametrize(
    ("changes", "words", "is_bad"),
    [
        ({"workers": []}, "No worker was heard of in the last day: runs", True),
        ({"workers": [worker(is_alive=False)]}, "No worker has been heard of since 12:00:00 UTC", True),
        ({"workers": [worker(), worker(is_alive=False)]}, "1 worker has gone silent", False),
        ({"workers": [worker(is_other=True)]}, "runs other code than this web server", False),
        ({"last_round": None}, "Reconciliation has never run", True),
        ({"last_round": LastRound(began_at=LONG_AGO, seconds=1, failures={})}, "was 29 min ago", True),
        ({"last_round": LastRound(began_at=NOW, seconds=1, failures={"keep_logs": "OSError"})},
         "The step keep_logs of the last round failed: OSError", False),
        ({"broker": Broker(False)}, "No broker is configured", True),
        ({"broker": Broker(True, error="does not answer (ConnectionError)")}, "The broker does not answer", True),
        ({"broker": Broker(True, queued=5000)}, "5,000 hints wait in the broker", False),
        ({"cluster": ClusterSeen(asked_at=NOW, seen_at=LONG_AGO, error="timed out")},
         "timed out. It last did at 11:30:00", True),
        ({"cluster": ClusterSeen(asked_at=LONG_AGO, seen_at=LONG_AGO, nodes=[NODE])}, "is of 11:30:00 UTC", False),
        ({"cluster": ClusterSeen(asked_at=NOW, nodes=[NODE | {"alive": False}])}, "no node that is alive", True),
        ({"cluster": ClusterSeen(asked_at=NOW, nodes=[NODE, NODE | {"alive": False}])},
         "1 node of the cluster is dead", False),
        ({"disk": None}, "does not answer: is its file system away?", True),
        ({"disk": Disk(2**30, 10 * 2**30, 2 * 2**30)}, "Only 1 GiB are free", True),
        ({"dispatches": Waiting(2, LONG_AGO)}, "2 hand-overs to Ray wait, the oldest for 30 min.", False),
        ({"alerts": Waiting(1, LONG_AGO)}, "1 alert waits, the oldest for 30 min.", False),
        ({"dispatch_error": "no Ray"}, "The newest hand-over that failed: no Ray", False),
    ],
)  # fmt: skip
def test_each_trouble_is_said_once(changes, words, is_bad):
    (trouble,) = troubles(replace(WELL, **changes))

    assert words in trouble.text
    assert trouble.is_bad == is_bad


def test_the_worst_comes_first():
    found = troubles(replace(WELL, dispatch_error="no Ray", disk=None))

    assert [trouble.is_bad for trouble in found] == [True, False]


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (512 * 2**20, "512 MiB"), (3 * 2**40, "3 TiB")],
)
def test_bytes_have_a_unit(size, words):
    assert bytes_in_words(size) == words
