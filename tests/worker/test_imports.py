"""Imports in the worker: a turn is wished for those that wait, and the round of reconciliation finds them."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from benchmarks.bench_example import make_corpus
from webapp.identity.accounts.services import create_project
from webapp.interfaces.imports.claims import claim_next
from webapp.interfaces.imports.models import Import, State
from webapp.interfaces.imports.services import begin_import
from webapp.interfaces.imports.uploads import asked_of
from worker import names
from worker.app import app
from worker.reconcile import STEPS
from worker.tasks import import_runs
from worker.upkeep import wish_example, wish_turns

pytestmark = pytest.mark.django_db


@pytest.fixture
def waiting() -> Import:
    project = create_project(slug="math", name="Math")
    files = [SimpleUploadedFile("grpo.csv", b"step,eval/pass_rate\n1,0.1\n2,0.2\n")]
    return begin_import(user=None, project=project, asked=asked_of("csv", {}), files=files)


def test_the_task_takes_one_turn(waiting):
    assert app.tasks[names.IMPORT] is import_runs._get_current_object()

    import_runs()

    waiting.refresh_from_db()
    assert (waiting.state, waiting.rows_stored) == (State.FINISHED, 2)


def test_reconciliation_wishes_turns_for_what_waits_and_is_not_read(waiting):
    assert wish_turns in STEPS
    assert wish_turns() == 1

    claim_next()

    assert wish_turns() == 0
    assert Import.objects.get().state == State.READING


def test_reconciliation_wishes_for_the_example_project_until_it_is_there(settings, tmp_path):
    assert wish_example in STEPS
    assert wish_example() == 0
    make_corpus(tmp_path, 1, arms=1)
    settings.EXAMPLE_CORPUS = str(tmp_path)
    assert wish_example() == 1

    app.tasks[names.EXAMPLE]()

    assert wish_example() == 0


def test_a_worker_that_is_long_at_it_says_that_it_lives(waiting):
    claim = claim_next()
    before = Import.objects.get().claimed_until

    claim.keep()

    assert Import.objects.get().claimed_until > before
