"""A large table and workers of their own: one is killed with SIGKILL, the next goes on in bounded memory."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from django.db import connection
from django.utils import timezone

from tests.deep import IS_DEEP
from tests.waiting import wait_until
from webapp.interfaces.imports.models import Import, ImportedRun, State
from webapp.record.runs.models import Record

ROWS = 100_000 if IS_DEEP else 20_000
# Of the worker's resident memory; the rows as a list would be several times as many.
MOST_GROWN_KIB = 64 * 1024
PATIENCE_SECONDS = 120
WORKER = """
import json, resource
import django
django.setup()
from webapp.interfaces.imports.reading import take_turn
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
last = None
while (turn := take_turn()) is not None:
    last = turn
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps({"state": last.state, "grown": grown}))
"""


def large_table():
    lines = (f"{step},{0.5 + step / (10 * ROWS):.6f},{step * 0.01:.4f}" for step in range(1, ROWS + 1))
    return "step,eval/pass_rate,gpu_hours\n" + "\n".join(lines) + "\n"


def worker():
    """A process of its own on the tests' database."""
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    variables = os.environ | {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "webapp.settings"}
    return subprocess.Popen([sys.executable, "-c", WORKER], env=variables, stdout=subprocess.PIPE, text=True)


@pytest.mark.long_form
@pytest.mark.timeout(300)
@pytest.mark.django_db(transaction=True)
def test_a_worker_killed_on_the_way_loses_nothing_and_the_next_one_stays_small(begin):
    one = begin(large_table(), kind="csv", name="large.csv")
    killed = worker()
    a_tenth = Import.objects.filter(pk=one.pk, rows_stored__gte=ROWS // 10)
    wait_until(lambda: a_tenth.exists() or killed.poll() is not None, PATIENCE_SECONDS)
    assert killed.poll() is None
    killed.kill()
    killed.wait()

    one.refresh_from_db()
    done = ImportedRun.objects.get().rows_done
    assert (one.state, one.rows_stored, Record.objects.count()) == (State.READING, done, done)
    assert done < ROWS
    Import.objects.update(claimed_until=timezone.now() - timedelta(seconds=1))  # as it is a minute later
    said, _ = worker().communicate(timeout=PATIENCE_SECONDS)

    ended = json.loads(said)
    assert ended["state"] == State.FINISHED
    assert ended["grown"] < MOST_GROWN_KIB
    one.refresh_from_db()
    assert (one.rows_read, one.rows_stored, Record.objects.count()) == (ROWS, ROWS, ROWS)
