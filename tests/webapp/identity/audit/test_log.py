"""The audit log: it cannot be changed, it is found quickly, and it is exported without formulas."""

import csv
import io
import json
from datetime import UTC, date, datetime, timedelta

import pytest
from django.contrib.auth import get_user_model
from django.db import DatabaseError, connection, transaction
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

from tests.members import member
from webapp.base.errors import InvalidInput
from webapp.base.formats import harmless, utc
from webapp.identity.accounts.services import create_project, default_project
from webapp.identity.audit.models import Event
from webapp.identity.audit.selectors import (
    PAGE_SIZE,
    WORDS,
    EventFilter,
    _older_than,
    asked_by,
    csv_lines,
    detail_words,
    events_of_project,
    jsonl_lines,
    narrowed,
    page_of,
    rows_of,
    words_of,
)
from webapp.identity.audit.services import client_address, record, record_each

pytestmark = pytest.mark.django_db


@pytest.fixture
def project(db):
    return default_project()


@pytest.fixture
def event(project):
    record("run.launched", actor=member("ada"), project=project, kind="run", key="r1", name="A run", seed=3)
    return Event.objects.get()


# --- append-only ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"actor_name": "eve"},
        {"verb": "run.stopped"},
        {"detail": {}},
        {"at": datetime(2020, 1, 1, tzinfo=UTC)},
        {"address": "127.0.0.1"},
        {"object_name": "another"},
    ],
)
def test_no_column_of_a_row_can_be_changed(event, change):
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        Event.objects.filter(pk=event.pk).update(**change)

    assert Event.objects.filter(pk=event.pk, verb="run.launched", actor_name="ada").exists()


def test_a_row_cannot_be_moved_to_others(event):
    other = create_project(slug="other", name="Other")
    eve = get_user_model().objects.create_user("eve")
    for change in ({"project": other}, {"actor": eve}):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            Event.objects.filter(pk=event.pk).update(**change)


def test_no_row_can_be_deleted(event):
    for attempt in (event.delete, Event.objects.all().delete):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            attempt()
    with (
        pytest.raises(DatabaseError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute("DELETE FROM audit_event")
    assert Event.objects.count() == 1


def test_a_deleted_person_stays_by_name(event):
    get_user_model().objects.get(username="ada").delete()

    event.refresh_from_db()
    assert (event.actor, event.actor_name) == (None, "ada")


def test_what_is_undone_leaves_no_event(project):
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        record("run.launched", actor=None, project=project, kind="run", key="r1")
        _ = 1 / 0

    assert not Event.objects.exists()


def test_many_at_once_take_one_statement(project):
    with CaptureQueriesContext(
        connection,
    ) as queries:
        record_each(
            "run.tagged", actor=None, project=project, kind="run", things=[(f"r{i}", f"run {i}") for i in range(500)],
            tag="paper",
        )  # fmt: skip

    assert len(queries) == 1
    assert (
        Event.objects.filter(verb="run.tagged", detail={"tag": "paper"}, actor_name="system").count() == 500
    )


# --- addresses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proxies", "forwarded", "expected"),
    [
        (0, None, "192.0.2.1"),
        (0, "203.0.113.9", "192.0.2.1"),  # without a proxy, anybody may write this header
        (1, "203.0.113.9", "203.0.113.9"),
        (1, "10.0.0.1, 203.0.113.9", "203.0.113.9"),  # the client made up the left one
        (2, "6.6.6.6, 203.0.113.9, 198.51.100.2", "203.0.113.9"),
        (2, "203.0.113.9", "192.0.2.1"),  # it did not come through both
        (1, "2001:db8::1", "2001:db8::1"),
        (1, "[2001:db8::1]:443", "2001:db8::1"),
        (1, "203.0.113.9:5000", "203.0.113.9"),
        (1, "not an address", None),
    ],
)
def test_the_address_is_what_the_nearest_trusted_proxy_saw(settings, proxies, forwarded, expected):
    settings.TRUSTED_PROXIES = proxies
    headers = {"X-Forwarded-For": forwarded} if forwarded else {}

    assert client_address(RequestFactory().get("/", headers=headers, REMOTE_ADDR="192.0.2.1")) == expected


# --- finding --------------------------------------------------------------------------------------------------


def found(project, **asked):
    return [
        event.object_id for event in page_of(narrowed(events_of_project(project), EventFilter(**asked)))[0]
    ]


def test_each_part_of_the_filter(project):
    ada = member("ada")
    for key, verb, actor in (
        ("r1", "run.launched", ada),
        ("r2", "run.stopped", None),
        ("s1", "share.made", ada),
    ):
        record(verb, actor=actor, project=project, kind=verb.split(".")[0], key=key, name=f"Name of {key}")
    today = datetime.now(UTC).date()

    assert found(project) == ["s1", "r2", "r1"]
    assert found(project, person="ada") == ["s1", "r1"]
    assert found(project, person="system") == ["r2"]
    assert found(project, verb="run.launched") == ["r1"]
    assert found(project, verb="run") == found(project, verb="run.") == ["r2", "r1"]
    assert found(project, object="s1") == ["s1"]
    assert found(project, object="NAME OF R") == ["r2", "r1"]
    assert found(project, since=today, until=today) == ["s1", "r2", "r1"]
    assert found(project, since=today + timedelta(days=1)) == []
    assert found(project, until=today - timedelta(days=1)) == []
    assert found(project, until=date.max) == ["s1", "r2", "r1"]
    assert found(project, person="ada", verb="run", object="r1") == ["r1"]
    assert found(create_project(slug="other", name="Other")) == []


def test_what_an_address_asks():
    assert asked_by({"person": " ada ", "since": "2026-05-31"}) == EventFilter(
        person="ada", since=date(2026, 5, 31)
    )
    for wrong in ("yesterday", "2026-13-01", "31.5.2026"):
        with pytest.raises(InvalidInput) as refused:
            asked_by({"until": wrong})
        assert refused.value.field == "until"


def test_pages_have_every_event_once(project):
    record_each("run.tagged", actor=None, project=project, kind="run", things=[(i, "") for i in range(130)])
    seen, before = [], None
    while True:
        shown, before = page_of(narrowed(events_of_project(project), EventFilter()), before=before)
        seen += [event.object_id for event in shown]
        if before is None:
            break
        record("run.launched", actor=None, project=project, kind="run", key="meanwhile")

    assert seen == [str(i) for i in reversed(range(130))]


def many_events(project, number=100_000):
    """Of 20 people and 40 verbs, a minute apart, straight into the table."""
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO audit_event (organisation_id, project_id, actor_name, verb, object_kind, object_id,
                                        object_name, detail, at)
               SELECT %s, %s, 'person' || i %% 20,
                      (ARRAY['run', 'share', 'study', 'view'])[1 + i %% 4] || '.did' || i %% 10,
                      'run', 'r' || i %% 5000, 'A run', '{}', now() - make_interval(mins => %s - i)
               FROM generate_series(1, %s) AS i""",
            [project.organisation_id, project.pk, number, number],
        )
        cursor.execute("ANALYZE audit_event")


def test_a_hundred_thousand_events_are_paged_through_indexes(project):
    """Each question is answered from few rows: what PostgreSQL says it read, not how long a busy machine took."""
    many_events(project)
    old = Event.objects.order_by("id")[500].pk
    questions = [
        EventFilter(),
        EventFilter(person="person3"),
        EventFilter(verb="run.did4"),
        EventFilter(verb="run"),
        EventFilter(object="r17"),
    ]
    questions += [
        EventFilter(since=date.today() - timedelta(days=2)),
        EventFilter(until=date.today() - timedelta(days=60)),
    ]
    for asked in questions:
        for before in (None, old):
            rows = _older_than(narrowed(events_of_project(project), asked), before)
            plan = json.loads(rows[: PAGE_SIZE + 1].explain(format="json", analyze=True))[0]
            read = most_rows(plan["Plan"])
            assert read <= 5_000, f"{asked}, before {before}: {read} rows were read"
    shown, _ = page_of(narrowed(events_of_project(project), EventFilter()), before=old)
    assert len(shown) == PAGE_SIZE


def most_rows(plan: dict) -> int:
    """The most rows that any part of the plan went through, those that it threw away included."""
    loops = plan.get("Actual Loops", 1)
    own = (plan.get("Actual Rows", 0) + plan.get("Rows Removed by Filter", 0)) * loops
    return int(max([own, *(most_rows(part) for part in plan.get("Plans", []))]))


# --- exporting ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1"])
def test_no_cell_is_a_formula(project, name):
    record("run.launched", actor=None, project=project, kind="run", key=name, name=name)
    (row,) = list(csv.DictReader(io.StringIO("".join(csv_lines(rows_of(Event.objects.all()))), newline="")))

    assert row["name"] == row["key"] == f"'{name}"
    assert harmless("a run") == "a run" and harmless(-3) == -3 and harmless("") == ""


def test_both_files_say_the_same(event):
    (of_csv,) = csv.DictReader(io.StringIO("".join(csv_lines(rows_of(Event.objects.all())))))
    (of_jsonl,) = map(json.loads, jsonl_lines(rows_of(Event.objects.all())))

    assert of_jsonl == {
        "id": event.pk, "at": utc(event.at, exact=True), "actor": "ada", "verb": "run.launched", "kind": "run",
        "key": "r1", "name": "A run", "project": "default", "address": "", "detail": {"seed": 3},
    }  # fmt: skip
    assert json.loads(of_csv.pop("detail")) == of_jsonl.pop("detail")
    assert of_csv == {name: str(value) for name, value in of_jsonl.items()}


# --- words ----------------------------------------------------------------------------------------------------


def test_words():
    assert words_of("run.launched", "run") == "launched run"
    assert words_of("prediction.never_heard_of", "prediction") == "prediction: never heard of:"
    assert detail_words(
        {
            "revision": "ScaleRL rev 2",
            "role": ["viewer", "admin"],
            "seeds": [1, 2, 3],
            "days": None,
            "inside": True,
            "changed": {"a": [1, 2]},
        }
    ) == ("ScaleRL rev 2, role: viewer → admin, seeds: 1, 2, 3, days: none, inside: yes, changed: a: 1 → 2")
    assert all("." in verb for verb in WORDS)
