"""Values become records."""

import math

from webapp.interfaces.tracking.intake import digest
from webapp.interfaces.tracking.translate import (
    MAX_IN_RECORD,
    Meter,
    RunDescription,
    Value,
    by_moment,
    iso,
    records_of,
)


def test_values_of_one_moment_are_together_in_the_order_of_arrival():
    values = [
        Value("a", 1, 1, 10),
        Value("a", 2, 2, 20),
        Value("b", 3, 1, 10),
        Value("a", 4, 1, 10),
        Value("c", 5, 1, 11),
    ]

    lists = [[(each.name, each.value) for each in found] for found in by_moment(values)]

    assert lists == [[("a", 1), ("b", 3)], [("a", 2)], [("a", 4)], [("c", 5)]]


def test_a_moment_with_very_many_metrics_is_several_records():
    lists = by_moment(Value(f"m{i}", i, 1, 1) for i in range(2 * MAX_IN_RECORD + 1))

    assert [len(each) for each in lists] == [MAX_IN_RECORD, MAX_IN_RECORD, 1]


def test_very_many_values_of_one_name_and_moment_take_no_longer_each():
    lists = by_moment(Value("abc"[i % 3], i, 1, 1) for i in range(150_000))

    assert len(lists) == 50_000 and all([value.name for value in found] == ["a", "b", "c"] for found in lists)


def test_very_many_metrics_twice_in_a_moment_are_twice_as_many_records():
    many = [Value(f"m{i}", i, 1, 1) for i in range(MAX_IN_RECORD + 1)]

    lists = by_moment([*many, *many])

    assert [len(each) for each in lists] == [MAX_IN_RECORD, 1, MAX_IN_RECORD, 1]
    assert all(len({value.name for value in each}) == len(each) for each in lists)


def test_records_have_places_times_and_compute():
    values = [[Value("num_tokens", 5.0, 3, 1_500), Value("loss", math.inf, 3, 1_500)]]

    (record,) = records_of(
        values, series={"num_tokens": "train/num_tokens", "loss": "train/loss"}, attempt=2, first_seq=7,
        meter=Meter(), said=RunDescription(),
    )  # fmt: skip

    assert (record.attempt, record.seq, record.step, record.time) == (2, 7, 3, iso(1_500))
    assert record.metrics == {"train/num_tokens": 5.0, "train/loss": None} and record.compute.tokens == 5.0


def test_what_is_logged_as_the_pass_rate_goes_before_what_is_derived():
    values = [[Value("eval_pass_rate", 0.5, 1, 1), Value("acc", 0.25, 1, 1)]]

    (record,) = records_of(
        values, series={"eval_pass_rate": "eval/pass_rate", "acc": "acc"}, attempt=1, first_seq=0, meter=Meter(),
        said=RunDescription(pass_rate="acc"),
    )  # fmt: skip

    assert record.metrics["eval/pass_rate"] == 0.5


def test_digests_tell_names_values_and_signs_apart_and_no_nan_from_another():
    assert digest("a", math.nan) == digest("a", -math.nan)
    assert (
        len(
            {
                digest(*each)
                for each in [("a", 1.0), ("a", -1.0), ("b", 1.0), ("a", math.inf), ("a", math.nan)]
            }
        )
        == 5
    )
