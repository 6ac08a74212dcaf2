"""Records over HTTP: what is accepted, what is refused and how it is named."""

import json
import tracemalloc

import pytest
from django.core.cache import caches
from django.db import connection
from django.utils import timezone
from pydantic import ValidationError

from tests.launching import tracked_run
from webapp.interfaces.api.schemas import RecordBatch
from webapp.record.runs import selectors
from webapp.record.runs.models import Point, Record
from webapp.record.runs.selectors import records_of

MANY_ERRORS = b'{"records":[{"%%s":{%s}}]}' % b",".join(b'"k%d":""' % i for i in range(400_000))


def test_post_and_read_back(writer, reader, tracked, record):
    sent = [record(i, {"eval/pass_rate": 0.5, "eval/pass_rate_stderr": 0.1}) for i in range(5)]

    answer = writer.post(f"runs/{tracked.pk}/records", {"records": sent})
    first = reader.get(f"runs/{tracked.pk}/records", limit=3).json()
    rest = reader.get(f"runs/{tracked.pk}/records", limit=3, cursor=first["next"]).json()

    assert (answer.status_code, answer.json()) == (
        200, {"accepted": 5, "duplicates": 0, "gather_seconds": 0.2},
    )  # fmt: skip
    assert [item["seq"] for item in first["items"] + rest["items"]] == [0, 1, 2, 3, 4]
    assert rest["next"] is None
    assert first["items"][2]["metrics"] == sent[2]["metrics"]
    assert first["items"][2]["compute"] == sent[2]["compute"]


def test_a_repeated_batch_is_accepted_as_duplicates(writer, tracked, record):
    batch = {"records": [record(i, {"a": 1.0}) for i in range(3)]}
    writer.post(f"runs/{tracked.pk}/records", batch)

    again = writer.post(f"runs/{tracked.pk}/records", batch)

    assert (again.status_code, again.json()) == (
        200, {"accepted": 0, "duplicates": 3, "gather_seconds": 0.2},
    )  # fmt: skip
    assert Record.objects.count() == 3


def test_other_content_under_a_known_key_is_a_conflict(writer, tracked, record, problem):
    writer.post(f"runs/{tracked.pk}/records", {"records": [record(1, {"a": 1.0})]})

    response = writer.post(f"runs/{tracked.pk}/records", {"records": [record(0, {}), record(1, {"a": 2.0})]})

    assert problem(response)[:3] == (409, "conflict", "records.1")
    assert Record.objects.count() == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"attempt": 0}, "attempt"),
        ({"attempt": "1"}, "attempt"),
        ({"seq": -1}, "seq"),
        ({"seq": 1.5}, "seq"),
        ({"step": None}, "step"),
        ({"time": "yesterday"}, "time"),
        ({"time": "2026-01-01T00:00:00"}, "time"),
        ({"compute": {"device_hours": -1, "flops": 0, "tokens": 0}}, "compute.device_hours"),
        ({"compute": {"device_hours": 1}}, "compute.flops"),
        ({"metrics": {"a": "high"}}, "metrics.a"),
        ({"metrics": {"a": True}}, "metrics.a"),
        ({"metrics": []}, "metrics"),
        ({"metrics": {"": 1.0}}, "metrics"),
        ({"metrics": {"x" * 251: 1.0}}, "metrics"),
        ({"metrics": {"tab\there": 1.0}}, "metrics"),
        ({"metrics": {"nul\0": 1.0}}, "metrics"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_malformed_record_rejects_the_whole_batch_and_is_named(
    writer, tracked, record, problem, change, field
):
    batch = [
        record(0, {"a": 1.0}),
        record(1, {"a": 1.0}),
        record(2, {"a": 1.0}),
        record(3, {"a": 1.0}) | change,
    ]

    status, code, named, message = problem(writer.post(f"runs/{tracked.pk}/records", {"records": batch}))

    assert (status, code, named) == (422, "invalid_input", f"records.3.{field}")
    assert message.startswith(f"records.3.{field} ")
    assert not Record.objects.exists()
    assert not Point.objects.exists()


def test_a_missing_field_is_named(writer, tracked, record, problem):
    broken = record(0, {})
    del broken["metrics"]

    response = writer.post(f"runs/{tracked.pk}/records", {"records": [broken]})

    assert problem(response)[2:] == ("records.0.metrics", "records.0.metrics is required.")


def test_size_limits(writer, tracked, record, problem):
    just = {"records": [record(0, {f"{i}".ljust(250, "x"): 1.0 for i in range(1000)})]}
    assert writer.post(f"runs/{tracked.pk}/records", just).status_code == 200
    many = {"records": [record(i, {}) for i in range(5001)]}
    wide = {"records": [record(0, {f"m{i}": 1.0 for i in range(1001)})]}

    assert problem(writer.post(f"runs/{tracked.pk}/records", many))[:3] == (422, "invalid_input", "records")
    assert problem(writer.post(f"runs/{tracked.pk}/records", wide))[:3] == (
        422, "invalid_input", "records.0.metrics",
    )  # fmt: skip
    assert Record.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"records":[' + b"[]," * 3_300_000 + b"[]]}", 413),  # 10 MB
        (b'{"records":[' + b"[]," * 240_000 + b"[]]}", 422),
        (b'{"records":[' + b"{}," * 4_000 + b"{}]}", 422),
        (b'{"records":[{' + b",".join(b'"k%d":0' % i for i in range(400_000)) + b"}]}", 422),
        pytest.param(MANY_ERRORS % b"metrics", 422, marks=pytest.mark.deep),
        pytest.param(MANY_ERRORS % b"compute", 422, marks=pytest.mark.deep),
    ],
    ids=["10 MB of lists", "lists", "objects", "fields", "metrics", "compute"],
)
def test_a_batch_of_nothing_but_errors_is_cheap(writer, tracked, problem, body, status):
    """Counted are Python's own objects."""
    tracemalloc.start()
    try:
        answer = problem(writer.post(f"runs/{tracked.pk}/records", body))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert answer[0] == status
    assert len(answer[3]) < 10_000
    assert peak < 100e6 + 3 * len(body)


@pytest.mark.parametrize(
    "body",
    [b"{%s}", b'{"records":[{%s}]}', b'{"records":[{"compute":{%s}}]}'],
    ids=["batch", "record", "compute"],
)
def test_unknown_fields_are_not_listed_by_the_hundred_thousand(body):
    """Each would take pydantic 800 bytes: 357 MB of a process for one request."""
    fields = b",".join(b'"k%d":0' % number for number in range(10_000))

    with pytest.raises(ValidationError) as caught:
        RecordBatch.model_validate_json(body % fields)
    assert caught.value.error_count() < 10


def test_twenty_bad_records_are_named_and_the_others_counted(writer, tracked, record, problem):
    batch = {"records": [record(i, {"a": 1.0}) | {"step": 2**63} for i in range(100)]}

    _, _, field, message = problem(writer.post(f"runs/{tracked.pk}/records", batch))

    assert field == "records.0.step"
    assert message.startswith(
        "records.0.step must be at most 9223372036854775807. Wrong, too: records.1.step, "
    )
    assert message.endswith("records.19.step and 80 more.")


def test_a_batch_has_a_bound_on_its_values(writer, tracked, record, problem):
    metrics = {f"m{i}": 1.0 for i in range(1000)}
    batch = {"records": [record(i, metrics) for i in range(101)]}

    _, _, field, message = problem(writer.post(f"runs/{tracked.pk}/records", batch))

    assert (field, message) == ("records", "records must have at most 100,000 metrics together, not 101,000.")


@pytest.mark.parametrize("value", ["1e999", "-1e999", "1" + "0" * 400])
def test_numbers_that_no_float_holds_are_refused(writer, tracked, record, problem, value):
    import json

    body = json.dumps({"records": [record(0, {"a": 12345.5})]}).replace("12345.5", value).encode()

    assert problem(writer.post(f"runs/{tracked.pk}/records", body))[0] in {400, 422}
    assert not Record.objects.exists()


def test_the_more_runs_report_the_longer_each_is_asked_to_gather(writer, project, user, record, settings):
    settings.BATCHES_PER_SECOND = 0.5
    runs = [tracked_run(user=user, project=project, name=f"run {i}") for i in range(5)]
    first = writer.post(f"runs/{runs[0].pk}/records", {"records": [record(0, {"a": 1.0})]}).json()
    for run in runs[1:]:
        writer.post(f"runs/{run.pk}/records", {"records": [record(0, {"a": 1.0})]})
    caches["default"].clear()  # the count of some seconds ago

    then = writer.post(f"runs/{runs[0].pk}/records", {"records": []}).json()

    assert 2 * 0.8 <= first["gather_seconds"] <= 2 * 1.2
    assert 10 * 0.8 <= then["gather_seconds"] <= 10 * 1.2


def test_readers_may_not_report(reader, tracked, record, problem):
    response = reader.post(f"runs/{tracked.pk}/records", {"records": [record(0, {})]})

    assert problem(response)[:2] == (403, "forbidden")


@pytest.mark.parametrize("size", [1, 200])
def test_the_cost_in_queries_is_constant(writer, tracked, record, size, django_assert_num_queries):
    writer.get("runs")  # the token's use is noted once a minute
    selectors.reporting_runs()  # counted every few seconds

    batch = {"records": [record(i, {f"m{j}": 1.0 for j in range(20)}) for i in range(size)]}
    with django_assert_num_queries(12):  # token, run, and the service's ten
        assert writer.post(f"runs/{tracked.pk}/records", batch).status_code == 200


def test_what_is_new_of_an_old_run_is_found_without_looking_through_those_that_came_later(
    project, user, tracked
):
    later = [tracked_run(user=user, project=project, name=f"later {i}") for i in range(20)]
    for run in (tracked, *later):
        Record.objects.bulk_create(
            Record(run=run, attempt=1, seq=i, step=i, time=timezone.now(), compute={}, metrics={})
            for i in range(300)
        )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE runs_record")
    last = Record.objects.filter(run=tracked).latest("id").pk

    plan = records_of(tracked).filter(arrival__gt=last)[:51].explain()

    assert "records_arrival" in plan


def test_steps_of_64_bits_are_stored_and_come_back(writer, tracked, record, user, client):
    """Tokens as steps, and steps below 0; the first and the last that there are."""
    steps = [3_000_000_000, -5, 2**63 - 1, -(2**63), 0]
    records = [record(seq, {"eval/pass_rate": 0.5}) | {"step": step} for seq, step in enumerate(steps)]
    answer = writer.post(f"runs/{tracked.pk}/records", {"records": records})
    assert answer.status_code == 200, answer.json()

    client.force_login(user)
    assert client.get(f"/runs/{tracked.pk}").status_code == 200
    for tab in ("diagnostics", "window", "history"):
        assert client.get(f"/runs/{tracked.pk}?tab={tab}&x=step").status_code == 200
    found = writer.get(f"runs/{tracked.pk}/records").json()["items"]
    assert [each["step"] for each in found] == steps
    curve = writer.get(f"runs/{tracked.pk}/curve", x="step").json()["points"]
    assert sorted(point["step"] for point in curve) == sorted(steps)
    assert writer.get(f"runs/{tracked.pk}/series?metric=eval/pass_rate").json()["total"] == 5
    lines = b"".join(client.get(f"/runs/{tracked.pk}/records.jsonl").streaming_content).splitlines()
    assert sorted(json.loads(line)["step"] for line in lines) == sorted(steps)
