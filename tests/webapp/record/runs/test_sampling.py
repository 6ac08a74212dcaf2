"""Samples for charts: stable, with last, smallest and largest of every bucket, in an index alone."""

import random

import numpy as np
import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from tests.launching import tracked_run
from training.records import Record
from webapp.record.runs import ingest, lifecycle
from webapp.record.runs.sampling import (
    LARGEST,
    LAST,
    SMALLEST,
    choose,
    newest,
    sampled_of_runs,
    sampled_points,
)

RATE = "eval/pass_rate"


@pytest.fixture
def report(make_record):
    """report(run, [0.1, 0.2], attempt=2, first=10): pass rates of consecutive steps, whose seq goes on with them."""

    def send(run, values, *, attempt=1, first=0, **changes):
        records = [
            make_record(first + i, {RATE: value}, attempt=attempt, seq=first + i, **changes)
            for i, value in enumerate(values)
        ]
        ingest.store_records(run, records)

    return send


def steps(sample):
    return [(p.attempt, p.step) for p in sample.points]


def test_a_sample_never_moves_a_point_when_data_is_added(tracked, report):
    values = random.Random(0)
    before: set = set()
    for batch in range(12):
        new = {(1, batch * 9 + i) for i in range(9)}
        report(tracked, [values.random() for _ in new], first=batch * 9)

        sample = sampled_points(tracked, RATE, points=20)
        shown = set(steps(sample))

        assert len(shown) <= 20
        assert shown <= before | new
        assert sample.total == 9 * (batch + 1)
        before = shown
    assert sample.sampled
    assert sample.method == "last value, minimum and maximum of every 32 steps"


def test_a_series_that_begins_late_is_not_emptied(tracked, report):
    report(tracked, [i / 400 for i in range(400)], first=10**12)

    assert 10 < len(sampled_points(tracked, RATE, points=30).points) <= 30


def test_a_sample_keeps_the_extremes_and_the_newest(tracked, report):
    values = [0.5] * 200
    values[77], values[150] = 0.01, 0.99
    report(tracked, values)

    sample = sampled_points(tracked, RATE, points=20)

    shown = {p.step: (p.value, role) for p, role in zip(sample.points, sample.roles, strict=True)}
    assert (shown[77], shown[150]) == ((0.01, SMALLEST), (0.99, LARGEST))
    assert shown[199][1] & LAST


def test_superseded_points_are_in_no_sample(tracked, report):
    report(tracked, [0.1] * 6)
    lifecycle.report_started(tracked, attempt=2, resumed_from_step=3)
    report(tracked, [0.2] * 2, attempt=2, first=4)

    assert steps(sampled_points(tracked, RATE)) == [(1, 0), (1, 1), (1, 2), (1, 3), (2, 4), (2, 5)]


def test_a_window_is_sampled_anew_down_to_every_point(tracked, report):
    report(tracked, [i / 400 for i in range(400)])

    whole = sampled_points(tracked, RATE, points=30)
    by_step = sampled_points(tracked, RATE, points=30, lo=100, hi=120)
    by_tokens = sampled_points(tracked, RATE, "tokens", points=30, lo=1e3 * 100, hi=1e3 * 120)

    assert whole.sampled
    assert not by_step.sampled
    assert [p.step for p in by_step.points] == list(range(100, 121))
    assert (by_step.total, by_step.method) == (21, "every point")
    assert [p.tokens for p in by_tokens.points] == [p.tokens for p in by_step.points]
    narrow = sampled_points(tracked, RATE, points=30, lo=100, hi=399)
    assert narrow.sampled
    assert 15 < len(narrow.points) <= 30


def test_many_runs_in_two_queries(user, project, report, django_assert_num_queries):
    runs = [tracked_run(user=user, project=project, name=str(i)) for i in range(4)]
    for i, run in enumerate(runs[:3]):
        report(run, [i / 10] * (5 + 40 * i))

    with django_assert_num_queries(2):
        found = sampled_of_runs([run.pk for run in runs], RATE, points=20)

    assert {pk: sample.total for pk, sample in found.items()} == {
        run.pk: 5 + 40 * i for i, run in enumerate(runs[:3])
    }
    for run in runs[:3]:
        assert found[run.pk] == sampled_points(run, RATE, points=20)


def test_points_without_the_axis_are_left_out(tracked, make_record):
    known = make_record(0, {RATE: 0.1}).model_dump()
    unknown = make_record(1, {RATE: 0.2}).model_dump() | {
        "compute": {"device_hours": None, "flops": None, "tokens": None}
    }
    ingest.store_records(tracked, [Record.model_validate(each) for each in (known, unknown)])

    assert len(sampled_points(tracked, RATE, "step").points) == 2
    assert [p.step for p in sampled_points(tracked, RATE, "device_hours").points] == [0]


def test_a_sample_of_nothing(tracked):
    assert sampled_points(tracked, "nothing").points == []
    assert sampled_of_runs([], RATE) == {}
    with pytest.raises(ValueError, match="axis"):
        sampled_points(tracked, RATE, "money")


def test_the_index_has_all_that_the_choice_needs(tracked):
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_indexdef('point_once'::regclass)")
        (definition,) = cursor.fetchone()

    assert definition.startswith("CREATE UNIQUE INDEX point_once ")
    assert definition.endswith("(series_id, attempt, seq) INCLUDE (step, value)")


series = st.lists(
    st.tuples(st.integers(0, 500), st.sampled_from([-1.0, 0.0, 0.25, 0.5, 3.5, 1e9])),
    min_size=1,
    max_size=120,
)


@given(series, st.integers(3, 40))
def test_the_choice_is_that_of_a_plain_loop(points, most):
    """Steps in any order, ties, buckets of any number: by definition, point for point."""
    step, value = np.array([s for s, _ in points]), np.array([v for _, v in points])

    choice = choose(step, value, most)

    if len(points) <= most:
        assert choice.width is None
        assert choice.places.tolist() == list(range(len(points)))
        return
    expected = dict.fromkeys(range(len(points)), 0)
    for bucket in {s // choice.width for s, _ in points}:
        inside = [i for i, (s, _) in enumerate(points) if s // choice.width == bucket]
        expected[inside[-1]] |= LAST
        expected[min(inside, key=lambda i: (points[i][1], i))] |= SMALLEST
        expected[min(inside, key=lambda i: (-points[i][1], i))] |= LARGEST
    assert dict(zip(choice.places.tolist(), choice.roles.tolist(), strict=True)) == {
        i: role for i, role in expected.items() if role
    }
    assert len(choice.places) <= most
    finer = choice.width // 2
    assert choice.width == 1 or 3 * (max(step) // finer - min(step) // finer + 1) > most


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=80), st.integers(3, 40))
def test_the_newest_of_each_stretch(steps, most):
    places = newest(np.array(steps), most).tolist()

    assert len(places) <= most and places == sorted(places) and places[-1] == len(steps) - 1
    if len(steps) <= most:
        assert [steps[i] for i in places] == [s for i, s in enumerate(steps) if s not in steps[i + 1 :]]
