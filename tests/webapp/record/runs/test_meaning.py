"""What a tracked run's metrics mean: said after the fact, and for what comes later, in any number of batches."""

from datetime import UTC, datetime, timedelta
from math import sqrt

import pytest
from django.db import connection
from django.db.models import F

from tests.launching import tracked_run
from tests.members import member
from training.records import Record
from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.audit.models import Event
from webapp.record.runs import ingest, lifecycle
from webapp.record.runs import meaning as meaning_module
from webapp.record.runs.meaning import (
    Meaning,
    as_if_said,
    has_more_points,
    meaning_of,
    remake_points,
    state_meaning,
)
from webapp.record.runs.models import Point, Run, Series
from webapp.record.runs.models import Record as Stored
from webapp.record.runs.points import effective_points

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
RATE = "val-core/math/reward/mean@16"
UNKNOWN = {"device_hours": None, "flops": None, "tokens": None}


def reported(seq, value, *, hours, attempt=1, step=None, metric=RATE, compute=None):
    return Record.model_validate(
        {
            "attempt": attempt,
            "seq": seq,
            "step": seq if step is None else step,
            "time": (START + timedelta(hours=hours)).isoformat(),
            "compute": UNKNOWN | (compute or {}),
            "metrics": {metric: value, "actor/lr": 0.1},
        }
    )


def curve(run):
    return [(p.step, p.device_hours, p.value) for p in effective_points(run, "eval/pass_rate")]


@pytest.mark.parametrize("told_first", [True, False])
def test_pass_rates_and_device_hours_follow_from_what_was_said(tracked, told_first):
    records = [reported(i, i / 10, hours=i) for i in range(6)]
    ingest.store_records(tracked, records[: 1 if told_first else 6])

    state_meaning(tracked, Meaning(RATE, n_prompts=100, devices=8), user=None)
    ingest.store_records(tracked, records)

    assert curve(tracked) == [(i, 8.0 * i, i / 10) for i in range(6)]
    errors = [p.stderr for p in effective_points(tracked, "eval/pass_rate")]
    assert errors == pytest.approx([sqrt(i / 10 * (1 - i / 10) / 100) for i in range(6)])
    assert [p.device_hours for p in effective_points(tracked, "actor/lr")] == [8.0 * i for i in range(6)]
    assert Run.objects.get(pk=tracked.pk).refit_wanted_at is not None
    stored = Stored.objects.filter(run=tracked).order_by("seq").last()
    assert (stored.compute, stored.metrics) == (UNKNOWN, {RATE: 0.5, "actor/lr": 0.1})  # as it was reported


def test_said_anew_nothing_of_the_first_saying_stays(tracked):
    records = [reported(i, i / 10, hours=i) for i in range(4)]
    others = [reported(4 + i, 0.5, hours=i, step=i, metric="val/other") for i in range(3)]
    ingest.store_records(tracked, [*records, *others])
    state_meaning(tracked, Meaning(RATE, devices=8), user=None)

    state_meaning(tracked, Meaning("val/other"), user=None)
    assert curve(tracked) == [(i, None, 0.5) for i in range(3)]

    state_meaning(Run.objects.get(pk=tracked.pk), Meaning(), user=None)
    assert curve(tracked) == []
    assert meaning_of(Run.objects.get(pk=tracked.pk)) == Meaning()


def test_the_pause_before_a_resume_is_not_counted(tracked):
    ingest.store_records(tracked, [reported(i, 0.1, hours=i) for i in range(4)])
    lifecycle.report_started(tracked, attempt=2, resumed_from_step=2, device=None)
    ingest.store_records(tracked, [reported(i, 0.2, hours=100 + i, attempt=2, step=3 + i) for i in range(2)])

    state_meaning(tracked, Meaning(RATE, devices=2), user=None)
    ingest.store_records(tracked, [reported(2, 0.3, hours=102, attempt=2, step=5)])

    assert curve(tracked) == [(0, 0, 0.1), (1, 2, 0.1), (2, 4, 0.1), (3, 4, 0.2), (4, 6, 0.2), (5, 8, 0.3)]


def test_device_hours_that_were_reported_stay(tracked):
    ingest.store_records(
        tracked, [reported(0, 0.1, hours=0), reported(1, 0.2, hours=1, compute={"device_hours": 3.5})]
    )

    state_meaning(tracked, Meaning(RATE, devices=2), user=None)

    assert curve(tracked) == [(0, 0.0, 0.1), (1, 3.5, 0.2)]


def test_a_clock_that_goes_backwards_makes_nothing_negative(tracked):
    ingest.store_records(tracked, [reported(0, 0.1, hours=5), reported(1, 0.2, hours=1)])

    state_meaning(tracked, Meaning(RATE, devices=2), user=None)

    assert curve(tracked) == [(0, 0, 0.1), (1, 0, 0.2)]


def test_a_pass_rate_that_comes_later_by_its_own_name_stays_when_the_meaning_is_taken_back(tracked):
    ingest.store_records(tracked, [reported(0, 0.1, hours=0)])
    state_meaning(tracked, Meaning(RATE), user=None)
    ingest.store_records(tracked, [reported(1, 0.7, hours=1, metric="eval/pass_rate")])

    state_meaning(tracked, Meaning(), user=None)

    assert curve(tracked) == [(1, None, 0.7)]


@pytest.mark.parametrize(
    ("meaning", "field", "says"),
    [
        (Meaning("no/such"), "pass_rate", "no metric no/such"),
        (Meaning("reward"), "pass_rate", "-2 at step 1"),
        (Meaning(RATE, n_prompts=0), "n_prompts", "between 1"),
        (Meaning(RATE, devices=-1), "devices", "above 0"),
        (Meaning(RATE, devices=float("nan")), "devices", "above 0"),
        (Meaning(RATE, stderr="no/such"), "stderr", "no metric no/such"),
        (Meaning(RATE, tokens="reward"), "tokens", "-2 at step 1: it cannot be below 0"),
        (Meaning("in/percent"), "pass_rate", "41 at step 2: .* unless it is in percent"),
        (Meaning("reward", percent=True), "pass_rate", "a percentage is between 0 and 100"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_changes(tracked, meaning, field, says):
    ingest.store_records(
        tracked,
        [
            reported(0, 0.5, hours=0),
            reported(1, -2.0, hours=1, metric="reward"),
            reported(2, 41.0, hours=1, metric="in/percent"),
        ],
    )

    with pytest.raises(InvalidInput, match=says) as caught:
        state_meaning(tracked, meaning, user=None)

    assert caught.value.field == field
    assert Run.objects.get(pk=tracked.pk).meaning == {}
    assert curve(tracked) == []


def test_another_metric_stands_in_for_a_pass_rate_that_was_reported_wrongly(tracked):
    rate = lambda seq, value: reported(seq, value, hours=seq, metric="eval/pass_rate")
    ingest.store_records(tracked, [rate(0, 0.5), reported(1, 0.6, hours=1)])

    state_meaning(tracked, Meaning(RATE, devices=4), user=None)
    ingest.store_records(tracked, [rate(2, 0.9), reported(3, 0.7, hours=3)])
    assert curve(tracked) == [(1, 4.0, 0.6), (3, 12.0, 0.7)]

    state_meaning(tracked, Meaning("eval/pass_rate", devices=4), user=None)
    assert Run.objects.get(pk=tracked.pk).meaning == {"devices": 4}
    assert curve(tracked) == [(0, 0.0, 0.5), (2, 8.0, 0.9)]


def test_a_launched_run_has_its_own_words(launch_one):
    with pytest.raises(Conflict, match="launched here"):
        state_meaning(launch_one(), Meaning(devices=4), user=None)


def test_who_said_it_is_noted(tracked, project):
    writer = member("writer", project=project, role="contributor")
    state_meaning(tracked, Meaning(devices=4), user=writer)

    noted = Event.objects.get(verb="run.meaning_stated")
    assert (noted.actor, noted.detail["devices"]) == (writer, 4)


def test_storing_a_batch_of_such_a_run_takes_a_constant_number_of_queries(
    tracked, django_assert_max_num_queries
):
    ingest.store_records(tracked, [reported(0, 0.1, hours=0)])
    state_meaning(tracked, Meaning(RATE, devices=4), user=None)

    with django_assert_max_num_queries(20):
        ingest.store_records(tracked, [reported(i, 0.1, hours=i) for i in range(1, 500)])
    assert len(curve(tracked)) == 500


def points(run, metric="eval/pass_rate"):
    found = effective_points(run, metric)
    return [(p.step, p.device_hours, p.tokens, p.value, p.stderr) for p in found]


def logged(seq, step, **metrics):
    """A record of these metrics; `_` in a name stands for a slash."""
    named = {name.replace("_", "/"): value for name, value in metrics.items()}
    return Record.model_validate(
        {
            "attempt": 1,
            "seq": seq,
            "step": step,
            "time": START.isoformat(),
            "compute": UNKNOWN,
            "metrics": named,
        }
    )


MAPPED = Meaning("val/acc", stderr="val/err", percent=True, device_hours="gpu/hours", tokens="seen/tokens")
# Some metrics of an evaluation come in records of their own, before or after it, as one MLflow call each sends them.
LOGGED = [
    logged(0, 0, val_acc=10.0),
    logged(1, 1, gpu_hours=2.0, seen_tokens=100.0),
    logged(2, 1, val_acc=20.0),
    logged(3, 1, val_err=2.0),
    logged(4, 2, val_err=3.0),
    logged(5, 2, val_acc=30.0),
    logged(6, 2, gpu_hours=4.0),
    logged(7, 3, gpu_hours=6.0, val_acc=40.0),
]
CURVE = [
    (0, 0.0, 0.0, 0.1, None),
    (1, 2.0, 100.0, 0.2, 0.02),
    (2, 4.0, 100.0, 0.3, 0.03),
    (3, 6.0, 100.0, 0.4, None),
]


@pytest.mark.parametrize("before", [8, 5, 4])
def test_unit_error_and_compute_follow_from_the_metrics_in_any_batches(tracked, before):
    ingest.store_records(tracked, LOGGED[:before])
    state_meaning(tracked, MAPPED, user=None)
    for record in LOGGED[before:]:
        ingest.store_records(tracked, [record])

    assert points(tracked) == CURVE
    state_meaning(tracked, Meaning(), user=None)
    assert points(tracked) == []
    assert {hours for _, hours, *_ in points(tracked, "gpu/hours")} == {None}


def test_a_metric_goes_before_the_compute_that_was_reported_and_gives_it_back(tracked):
    own = {"device_hours": 1.0}
    ingest.store_records(
        tracked,
        [
            reported(0, 0.1, hours=0, compute=own, metric="eval/pass_rate"),
            reported(1, 7.5, hours=1, compute=own, metric="gpu/hours"),
            reported(2, 0.2, hours=1, compute=own, metric="eval/pass_rate"),
        ],
    )

    state_meaning(tracked, Meaning(device_hours="gpu/hours"), user=None)
    assert curve(tracked) == [(0, 0.0, 0.1), (2, 7.5, 0.2)]

    state_meaning(tracked, Meaning(), user=None)
    assert curve(tracked) == [(0, 1.0, 0.1), (2, 1.0, 0.2)]


def test_a_rate_by_our_own_name_may_be_in_percent(tracked):
    rate = lambda seq, value: reported(seq, value, hours=0, metric="eval/pass_rate")
    ingest.store_records(tracked, [rate(0, 41.0)])

    state_meaning(tracked, Meaning(percent=True), user=None)
    state_meaning(Run.objects.get(pk=tracked.pk), Meaning(percent=True), user=None)
    ingest.store_records(tracked, [rate(1, 50.0)])
    assert [value for *_, value in curve(tracked)] == [0.41, 0.5]
    assert Run.objects.get(pk=tracked.pk).summary.pass_rate == 41.0  # until the next refit

    state_meaning(tracked, Meaning(), user=None)
    assert [value for *_, value in curve(tracked)] == [41.0, 50.0]


def test_metrics_are_named_as_the_trainer_calls_them(tracked):
    ingest.store_records(tracked, [reported(0, 0.4, hours=0, metric="train/reward")])

    state_meaning(tracked, Meaning("reward/all/mean"), user=None)

    assert meaning_of(Run.objects.get(pk=tracked.pk)) == Meaning("train/reward")
    assert curve(tracked) == [(0, None, 0.4)]


def test_a_preview_is_what_would_come_and_leaves_nothing(tracked):
    ingest.store_records(tracked, LOGGED)
    before = Run.objects.values().get(pk=tracked.pk)

    with as_if_said(tracked, MAPPED) as changed:
        assert points(changed) == CURVE

    assert points(tracked) == []
    assert Run.objects.values().get(pk=tracked.pk) == before
    with pytest.raises(InvalidInput), as_if_said(tracked, Meaning("no/such")):
        pass


def points_of(run):
    """Every point, with all that it says."""
    order = ("series__metric", "attempt", "seq")
    said = (*order, "step", "time", "device_hours", "flops", "tokens", "value", "stderr")
    return list(Point.objects.filter(series__run=run).order_by(*order).values_list(*said))


SAYINGS = (
    Meaning(RATE, n_prompts=100, devices=8),
    Meaning(RATE, stderr="val/error", percent=True, flops="perf/flops", devices=4),
    Meaning("val/other", device_hours="actor/lr"),
    Meaning(percent=True, n_prompts=10),
    Meaning(),
)


OTHERS = ("val/other", "val/error", "perf/flops", "eval/pass_rate")
FIRST = [reported(i, i / 10, hours=i) for i in range(4)]
FIRST += [reported(4 + i, 0.1 * i, hours=i, step=i, metric=name) for i, name in enumerate(OTHERS)]
SECOND = [reported(i, 0.5, hours=20 + i, attempt=2, step=3 + i) for i in range(5)]


def resumed(run):
    ingest.store_records(run, FIRST)
    lifecycle.report_started(run, attempt=2, resumed_from_step=2, device=None)
    ingest.store_records(run, SECOND[:4])
    return run


def test_in_parts_by_the_worker_it_is_the_same(user, project, monkeypatch):
    monkeypatch.setattr(meaning_module, "RECORDS_AT_ONCE", 2)
    monkeypatch.setattr(meaning_module, "WORKER_SECONDS", 0.0)
    at_once, in_parts = (resumed(tracked_run(user=user, project=project, name=name)) for name in "ab")

    for saying in SAYINGS:
        state_meaning(at_once, saying, user=None)
        before = points_of(in_parts)
        state_meaning(in_parts, saying, user=None, at_once=10)
        assert points_of(in_parts) == before  # nothing yet
        assert not remake_points(in_parts.pk)
        if saying is SAYINGS[1]:  # what comes meanwhile
            ingest.store_records(in_parts, SECOND[4:])
            ingest.store_records(at_once, SECOND[4:])
        while not remake_points(in_parts.pk):
            pass
        assert points_of(in_parts) == points_of(at_once)
    assert Run.objects.get(pk=in_parts.pk).remaking is None


def test_said_anew_before_the_worker_is_done(tracked, monkeypatch):
    monkeypatch.setattr(meaning_module, "RECORDS_AT_ONCE", 2)
    monkeypatch.setattr(meaning_module, "WORKER_SECONDS", 0.0)
    ingest.store_records(tracked, [reported(i, i / 10, hours=i) for i in range(6)])
    before = points_of(tracked)
    state_meaning(tracked, Meaning(RATE, devices=8), user=None, at_once=1)
    remake_points(tracked.pk)

    state_meaning(tracked, Meaning(), user=None, at_once=1)
    while not remake_points(tracked.pk):
        pass

    assert points_of(tracked) == before


def previewed(run, saying):
    with as_if_said(run, saying) as changed:
        return points(changed)


@pytest.mark.parametrize("before", SAYINGS, ids=range(len(SAYINGS)))
def test_the_curve_of_a_long_run_is_previewed_as_of_any_other(tracked, monkeypatch, before):
    resumed(tracked)
    state_meaning(tracked, before, user=None)
    every = points_of(tracked)
    expected = [previewed(tracked, saying) for saying in SAYINGS]

    monkeypatch.setattr(meaning_module, "AT_ONCE", 1)

    assert [previewed(tracked, saying) for saying in SAYINGS] == expected
    assert points_of(tracked) == every and any(expected)


def test_a_request_makes_no_more_points_than_it_may(tracked, monkeypatch):
    ingest.store_records(tracked, [reported(i, i / 10, hours=i) for i in range(6)])
    assert has_more_points(tracked, 11) and not has_more_points(tracked, 12)

    monkeypatch.setattr(meaning_module, "AT_ONCE", 11)
    monkeypatch.setattr(meaning_module, "MOST_PREVIEWED", 5)
    with pytest.raises(Conflict, match="more than 5 evaluations"), as_if_said(tracked, Meaning(RATE)):
        pass


FILL = """
INSERT INTO runs_record (run_id, attempt, seq, step, "time", compute, metrics)
SELECT %(run)s, 1, i, i, now(), '{"device_hours": null, "flops": null, "tokens": null}', '{}'
FROM generate_series(0, 49999) AS i;
INSERT INTO runs_point (series_id, attempt, seq, step, "time", value)
SELECT %(series)s, 1, i, i, now(), i FROM generate_series(0, 49999) AS i;
INSERT INTO runs_point (series_id, attempt, seq, step, "time", value)
SELECT id, 1, i, i, now(), -1 FROM unnest(%(others)s) AS id, generate_series(0, 9) AS i
"""


@pytest.mark.parametrize("believed", ["nothing", "empty"])
def test_whatever_is_believed_of_the_tables_compute_is_found_in_one_pass(tracked, believed):
    """Each of so many records once looked for its values in all that there are: minutes."""
    used, *others = [Series.objects.create(run=tracked, metric=name) for name in ("used", "a", "b", "c")]
    values = {"run": tracked.pk, "series": used.pk, "others": [series.pk for series in others]}
    fill = meaning_module._FILL_AXIS.replace("{axis}", "tokens")
    with connection.cursor() as cursor:
        if believed == "empty":
            cursor.execute(FILL, values)
            cursor.execute(
                "DELETE FROM runs_point; DELETE FROM runs_record; ANALYZE runs_point; ANALYZE runs_record"
            )
        cursor.execute(FILL, values)
        cursor.execute("SET LOCAL statement_timeout = '60s'")
        meaning_module._know_tables()
        said = meaning_module._filled(fill, meaning_module.STORED, "")
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {said}", values | {"tokens": "used"})
        (plan,) = cursor.fetchone()

    points = [part for part in nodes_of(plan[0]["Plan"]) if part.get("Relation Name") == "runs_point"]
    assert all(part["Actual Loops"] <= 60_000 for part in points)
    assert all(
        (part["Actual Rows"] + part.get("Rows Removed by Filter", 0)) * part["Actual Loops"] <= 60_000
        for part in points
    )
    assert Point.objects.filter(tokens=F("value")).count() == 50_000


def nodes_of(plan):
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes_of(part)


def test_compute_of_records_that_came_out_of_order_is_the_last_before_each(tracked, monkeypatch):
    values = {0: 1.0, 2: 20.0, 3: 15.0, 6: 60.0}
    metrics = [{"a": 1.0} | ({"used": values[seq]} if seq in values else {}) for seq in range(8)]
    for seq in (6, 0, 7, 3, 2, 5, 1, 4):
        row = reported(seq, 1.0, hours=seq).model_copy(update={"metrics": metrics[seq]})
        ingest.store_records(tracked, [row])
    monkeypatch.setattr(meaning_module, "RECORDS_AT_ONCE", 3)

    before = found = None
    for at_once in (50_000, 1):
        run = state_meaning(Run.objects.get(pk=tracked.pk), Meaning(), user=None)
        state_meaning(run, Meaning(tokens="used"), user=None, at_once=at_once)
        while not remake_points(tracked.pk):
            pass
        before, found = found, [p.tokens for p in effective_points(tracked, "a")]
    assert before == found == [1.0, 1.0, 20.0, 15.0, 15.0, 15.0, 60.0, 60.0]
