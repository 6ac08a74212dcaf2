"""More metric names than a project allows a run: the records are stored, and names beyond the number have no series."""

import json

import pytest
from django.db import connection
from django.test import Client

from webapp.identity.accounts.models import Project
from webapp.identity.accounts.services import create_token
from webapp.record.runs import ingest, selectors
from webapp.record.runs.models import Record, Series


@pytest.fixture
def narrow(tracked):
    Project.objects.filter(pk=tracked.project_id).update(max_metrics=3)
    return tracked


def names_of(run):
    return set(Series.objects.filter(run=run).values_list("metric", flat=True))


def test_names_beyond_the_number_have_no_series_and_stay_in_the_records(narrow, make_record):
    first = ingest.store_records(narrow, [make_record(0, {f"m{i}": 1.0 for i in range(5)})])
    again = ingest.store_records(narrow, [make_record(1, {"m0": 2.0, "other": 1.0})])

    assert (first.names_left_out, again.names_left_out) == (2, 1)
    assert names_of(narrow) == {"m0", "m1", "m2"}
    assert Record.objects.get(run=narrow, seq=1).metrics == {"m0": 2.0, "other": 1.0}
    assert selectors.latest_values(narrow)["m0"].value == 2.0


def test_the_pass_rate_has_a_series_whatever_came_before(narrow, make_record):
    ingest.store_records(narrow, [make_record(0, {f"m{i}": 1.0 for i in range(5)})])
    ingest.store_records(narrow, [make_record(1, {"eval/pass_rate": 0.5})])

    assert "eval/pass_rate" in names_of(narrow)


def test_the_answer_and_the_run_say_so(narrow, user, make_record):
    token = create_token(user=user, project=narrow.project, scope="write")
    api = Client(headers={"Authorization": f"Bearer {token}"})
    record = make_record(0, {f"m{i}": 1.0 for i in range(5)}).model_dump()
    many = make_record(1, {f"m{i}": 1.0 for i in range(1000)}).model_dump()
    address = f"/api/v1/runs/{narrow.pk}"

    answer = api.post(f"{address}/records", {"records": [record]}, content_type="application/json").json()
    page = Client()
    page.force_login(user)
    about = f"/runs/{narrow.pk}?tab=diagnostics"

    assert answer["warning"].startswith("The run has as many metrics as its project allows. 2 further names")
    assert api.get(f"{address}/metrics").json() == {"items": ["m0", "m1", "m2"], "next": None}
    assert "as many metrics as its project allows, 3." in page.get(about).content.decode()
    Project.objects.filter(pk=narrow.project_id).update(max_metrics=1000)
    api.post(f"{address}/records", {"records": [many]}, content_type="application/json")
    assert "as many metrics as its project allows, 1,000." in page.get(about).content.decode()


def test_names_come_in_pages(tracked, user, make_record):
    ingest.store_records(tracked, [make_record(0, {f"m{i}": 1.0 for i in range(5)})])
    token = create_token(user=user, project=tracked.project, scope="read")
    api = Client(headers={"Authorization": f"Bearer {token}"})
    address = f"/api/v1/runs/{tracked.pk}/metrics"

    first = api.get(address, {"limit": 3}).json()
    rest = api.get(address, {"limit": 3, "cursor": first["next"]}).json()

    assert first["items"] + rest["items"] == ["m0", "m1", "m2", "m3", "m4"]
    assert rest["next"] is None


def test_of_many_metrics_the_newest_values_are_those_of_evaluations_first(tracked, make_record, monkeypatch):
    monkeypatch.setattr(selectors, "MOST_LATEST", 2)
    ingest.store_records(tracked, [make_record(0, {"a": 1.0, "b": 1.0, "eval/pass_rate": 0.5})])

    assert set(selectors.latest_values(tracked)) == {"eval/pass_rate", "a"}


def test_what_a_batch_costs_grows_with_its_names_not_with_their_square(tracked, make_record):
    """No part of the statement looks at every series once for each name (it did: 100 s for 10,000 further names)."""
    ingest.store_records(tracked, [make_record(0, {f"m{i}": 1.0 for i in range(300)})])
    further = sorted(f"other{i}" for i in range(300))
    values = {"run": tracked.pk, "names": further, "always": "eval/pass_rate", "system": "system/"}

    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {ingest.INSERT_SERIES}", values)
        found = cursor.fetchone()[0]

    plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    assert sum(rows_of(node) for node in nodes(plan)) < 30 * len(further)


def nodes(plan):
    """All nodes of a plan."""
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


def rows_of(node):
    """How many rows it looked at, over all its loops."""
    once = (
        node["Actual Rows"]
        + node.get("Rows Removed by Filter", 0)
        + node.get("Rows Removed by Join Filter", 0)
    )
    return once * node["Actual Loops"]
