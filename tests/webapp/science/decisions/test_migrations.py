"""Decisions, subjects and notes of 0.1.0 become entries: those that are stored, and those that come meanwhile."""

import json

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from tests.webapp.interfaces.pages.addresses import make_prediction
from webapp.record.recipes.models import Revision
from webapp.record.runs.models import Run
from webapp.science.decisions.models import Entry
from webapp.science.decisions.services import said

STATE = {
    "run_state": "running", "pass_rate": 0.5, "stderr": 0.01, "used_hours": 8.0, "budget_hours": 16.0, "forecast": None,
    "ceiling": {"identified": False, "value": None, "lo": None, "hi": None, "text": "not identified yet",
                "interval_text": "no fit yet"},
}  # fmt: skip
DECIDE = """
INSERT INTO decisions_decision
    (id, kind, decided_at, reason, key, decided_by_id, prediction_id, project_id, revises_id, to_revision_id)
VALUES (%s, %s, '2026-11-24T10:00Z', 'It has bent.', %s, %s, %s, %s, %s, %s)
"""
SUBJECTS = """
INSERT INTO decisions_subject (position, part, run_key, name, recipe, task, model, state, decision_id, fit_id, run_id)
SELECT position - 1, part, run, name, '', 'math', '8b', %s, %s, NULL, run
FROM unnest(%s::text[], %s::text[], %s::text[]) WITH ORDINALITY AS subjects(part, run, name, position)
"""  # one statement, as Django's bulk_create
NOTE = """
INSERT INTO decisions_note (text, created_at, author_id, decision_id) VALUES ('Later.', '2026-11-25T10:00Z', %s, %s)
"""


def migrate(name):
    MigrationExecutor(connection).migrate([("decisions", name)])


def store(user, run, other, prediction, revision):
    """As 0.1.0 does: a stop of two runs, a switch that revises it, to a recipe, a switch to a run, and a note."""
    rows = (
        ("one", "stop", "k", prediction.pk, None, None, [("of", run), ("of", other)]),
        ("two", "switch", None, None, "one", revision.pk, [("of", run)]),
        ("three", "switch", None, None, None, None, [("of", run), ("to", other)]),
    )
    with connection.cursor() as cursor:
        for pk, kind, key, claim, revises, to, subjects in rows:
            cursor.execute(DECIDE, [pk, kind, key, user.pk, claim, run.project_id, revises, to])
            parts, runs = zip(*subjects, strict=True)
            names = [one.name for one in runs]
            cursor.execute(SUBJECTS, [json.dumps(STATE), pk, list(parts), [one.pk for one in runs], names])
        cursor.execute(NOTE, [user.pk, "one"])


@pytest.fixture
def tables(transactional_db):
    """Those of 0.1.0, which no model knows any more."""
    yield
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE decisions_note, decisions_subject, decisions_decision")


@pytest.mark.parametrize("is_stored_before", [True, False])
def test_what_0_1_0_stores_is_in_the_log(tables, user, make_run, is_stored_before):
    run, other = make_run(8, to=4.0, name="Narrow"), make_run(0, seed=1, name="Wide")
    revision = Revision.objects.get(recipe__slug="tiny-deepseek-grpo", number=1)
    things = (user, run, other, make_prediction(user, run), revision)
    if is_stored_before:
        migrate("0001_squashed_0002_decisions_are_immutable")
        store(*things)
        migrate("0003_one_log")
    else:
        store(*things)

    found = {(one.pk, one.object_id): one for one in Entry.objects.all()}
    first, second, third = (found.pop((pk, run.pk)) for pk in ("one", "two", "three"))
    note = next(one for one in found.values() if one.kind == "note")
    (of_other,) = (one for one in found.values() if one.kind == "stop")
    assert len(found) == 2 and of_other.object_id == other.pk
    assert (first.kind, first.name, first.key, first.decided_by) == ("stop", "Narrow", "k", user)
    assert first.reason == f"It has bent.\n\nIt rests on the prediction {things[3].pk}."
    assert said(first.state).startswith("Pass rate 0.50; ceiling not identified yet")
    assert (second.to, third.to) == (str(revision), "Wide")
    assert second.reason.endswith("It revises the decision one.")
    assert f"{first.decided_at:%d %H}" == "24 10" and f"{note.decided_at:%d %H}" == "25 10"
    assert (note.reason, note.object_id, note.state) == ("Later.", run.pk, {})
    Run.objects.filter(pk=other.pk).delete()  # nothing of then holds it
