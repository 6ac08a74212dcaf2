"""A copy of a stored run is the run that the services make, but for its ids and times."""

import json

import pytest
from django.db import connection

from tests.webapp.interfaces.pages import stored_runs
from tests.webapp.interfaces.pages.data import curve_records
from tests.webapp.interfaces.pages.stored_runs import TABLES, run_like
from webapp.record.runs import ingest
from webapp.record.runs.models import Dispatch, Run, Series
from webapp.science.curves.services import refit


@pytest.fixture(autouse=True)
def nothing_stored(monkeypatch):
    monkeypatch.setattr(stored_runs, "_stored", {})


@pytest.fixture
def pair(make_run, user):
    """A run, and the copy of it that another test would get."""
    run = make_run(12, ended="succeeded")
    (key,) = stored_runs._stored
    return run, run_like(key, user, lambda: pytest.fail("made again"))


def rows(table, run):
    """Without ids and times."""
    found = json.loads(stored_runs.rows_of(table, run.pk).text.replace(run.pk, "the run"))
    moving = {
        f.column
        for f in table._meta.concrete_fields
        if f.get_internal_type() in ("DateTimeField", "BigAutoField")
    }
    moving |= {f.column for f in table._meta.concrete_fields if f.related_model is Series}
    return [{name: value for name, value in row.items() if name not in moving} for row in found]


@pytest.mark.parametrize("table", TABLES)
def test_every_row_is_copied(pair, table):
    run, copy = pair

    assert copy.pk != run.pk
    assert rows(table, copy) == rows(table, run) != []


def test_no_table_of_a_run_is_forgotten(pair):
    """Every row that hangs on the run, in whichever table."""
    run, copy = pair
    counts = [
        {
            r.related_model: r.related_model.objects.filter(**{r.field.name: one}).count()
            for r in Run._meta.related_objects
        }
        for one in (run, copy)
    ]

    assert counts[0] == counts[1]
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def test_a_copy_goes_on_as_a_run_does(pair, make_run):
    run, copy = pair
    Run.objects.filter(pk=copy.pk).update(state="running", ended_at=None)
    copy.attempts.update(state="running", ended_at=None)
    copy.refresh_from_db()

    ingest.store_records(copy, curve_records(20, first=13))
    assert refit(copy.pk).created
    assert make_run(12).pk not in (run.pk, copy.pk)
    assert Dispatch.objects.filter(run=copy).count() == 1
