"""Rules on series, without a database."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.record.alarm_rules import DEFAULTS, Comparison, Level, Rule
from webapp.record.runs.sampling import MAX_POINTS
from webapp.reporting.alarms.judge import Watched, episodes_of, judge, judge_all, limit_of

RULES = {rule.name: rule for rule in DEFAULTS}


def series(values, first=1):
    return Watched(np.arange(first, first + len(values)), np.array(values, float))


def rule(comparison=Comparison.ABOVE, threshold=1.0, **changes):
    made = Rule("r", "m", "M", comparison, threshold, Level.WARNING, "", "", records=3, early=5)
    return replace(made, **changes)


@pytest.mark.parametrize(
    ("values", "alarms"),
    [
        ([0, 1, 1, 0], False),  # two in a row are a spike
        ([0, 1, 1, 1], True),
        ([0, 1, 1, 1, 0], True),  # over, but it was
        ([1, 0, 1, 0, 1], False),
        ([], False),
    ],
)
def test_a_value_must_stay_beyond_for_some_records(values, alarms):
    assert (judge(rule(), series(values)) is not None) is alarms


def test_an_alarm_is_active_while_the_newest_values_are_beyond():
    found = judge(rule(), series([0, 1, 2, 1]))
    assert (found.active, found.first_step, found.last_step, found.value, found.latest) == (True, 2, 4, 2, 1)

    over = judge(rule(), series([0, 1, 2, 1, 0.5]))
    assert (over.active, over.first_step, over.last_step, over.latest) == (False, 2, 4, 0.5)


def test_it_tells_of_the_newest_episode_and_counts_them():
    found = judge(rule(), series([1, 1, 9, 0, 1, 1, 2]))

    assert (found.times, found.first_step, found.last_step, found.value) == (2, 5, 7, 2)


def test_below_is_at_or_below_and_its_worst_is_the_least():
    found = judge(rule(Comparison.BELOW, 0.1), series([1, 0.1, 0.05, 0.1]))

    assert (found.active, found.first_step, found.value) == (True, 2, 0.05)


def test_a_relative_threshold_is_a_factor_of_the_early_median():
    growth = rule(Comparison.ABOVE_EARLY, 10.0)
    early = [1, 2, 3, 2, 90]

    assert judge(growth, series([*early, 19, 19, 19])) is None
    found = judge(growth, series([*early, 20, 25, 21]))
    assert (found.threshold, found.first_step, found.value) == (20, 6, 25)


def test_the_early_median_never_moves_once_it_is_known():
    growth = rule(Comparison.ABOVE_EARLY, 10.0)
    values = [1.0] * 5 + [50.0] * 20

    assert {limit_of(growth, np.array(values[:n])) for n in range(6, 25)} == {10.0}
    assert limit_of(growth, np.array(values[:5])) is None


def test_without_a_positive_early_median_nothing_is_relative_to_it():
    assert judge(rule(Comparison.ABOVE_EARLY, 10.0), series([0.0] * 5 + [7.0] * 9)) is None


def test_what_was_not_finite_alarms_by_its_own_metric_and_no_other_rule_sees_it():
    not_finite = RULES["not_finite"]
    values = {"train/loss": series([1, math.nan]), "train/kl": series([math.nan, 0.1])}

    found = judge_all([not_finite, replace(RULES["kl"], records=1)], values)

    assert [(f.rule, f.metric, f.active, f.value, f.threshold) for f in found] == [
        ("not_finite", "train/loss", True, None, None)
    ]
    assert judge_all([not_finite], {"train/kl": values["train/kl"]})[0].active is False


def test_nulls_do_not_interrupt_an_episode():
    assert judge(rule(), series([0, 1, math.nan, 1, 1])).first_step == 2


def test_marks_are_the_worst_of_each_stride_and_few():
    values = np.ones(10_000)
    values[5003] = 7.0

    found = judge(rule(), series(values))

    assert len(found.marks) <= MAX_POINTS + 1
    assert [5004, 7.0] in found.marks


def test_episodes_are_stretches():
    beyond = np.array([1, 1, 0, 1, 1, 1, 0, 1], bool)

    assert episodes_of(beyond, 1) == [(0, 2), (3, 6), (7, 8)]
    assert episodes_of(beyond, 3) == [(3, 6)]


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 5))
def test_episodes_are_the_maximal_stretches(flags, length):
    text = "".join("1" if flag else "0" for flag in flags)
    found = episodes_of(np.array(flags, bool), length)

    assert len(found) == sum(len(part) >= length for part in text.split("0") if part)
    for first, stop in found:
        assert all(flags[first:stop]) and stop - first >= length
        assert (first == 0 or not flags[first - 1]) and (stop == len(flags) or not flags[stop])


def healthy(steps=600, seed=0):
    """A run as healthy ones are: what the metrics of the small runs and the paper's account look like."""
    rng = random.Random(seed)
    spiky = lambda low, high, spike: spike if rng.random() < 0.01 else rng.uniform(low, high)
    done = lambda i: i / steps
    return {
        "train/truncation_rate": series([spiky(0.0, 0.06, 0.13) for _ in range(steps)]),
        "eval/truncation_rate": series([rng.uniform(0, 0.05) for _ in range(30)]),
        "train/ratio_max": series([spiky(1.2, 25, 61) for _ in range(steps)]),
        "train/ratio_min": series([spiky(0.02, 0.9, 3e-5) for _ in range(steps)]),
        "train/ratio_clip_fraction": series([rng.uniform(0.0, 0.2) for _ in range(steps)]),
        "train/mismatch_logp_mean": series([rng.uniform(0.0005, 0.02) for _ in range(30)]),
        "train/mismatch_logp_max": series([spiky(0.03, 0.8, 3.5) for _ in range(30)]),
        "train/entropy": series([0.9 * math.exp(-4 * done(i)) + 0.011 for i in range(steps)]),
        "train/kl": series([spiky(1e-5, 0.08, 0.25) for _ in range(steps)]),
        "train/kl_reference": series([0.6 * done(i) for i in range(steps)]),
        "train/grad_norm": series([spiky(0.5, 6.0, 25.0) for _ in range(steps)]),
        "train/response_length": series([6000 * (1 + 0.7 * done(i)) * rng.uniform(0.95, 1.05) for i in range(steps)]),
        "train/effective_batch": series([max(0, round(96 - 72 * done(i) + rng.gauss(0, 8))) for i in range(steps)]),
        "train/staleness_max": series([rng.randint(0, 8) for _ in range(steps)]),
        "train/verifier_failure_rate": series([0.0] * steps),
        "eval/verifier_failure_rate": series([0.0] * 30),
        "eval/pass_rate": series([0.2 + 0.4 * done(20 * i) for i in range(30)]),
        # GPUs wait for each other in turns of some minutes; an engine takes nine tenths of its memory at once.
        "system/a/host/gpu_busy_fraction": series([0.0 if i % 60 < 20 else 0.9 for i in range(steps)]),
        "system/a/host/gpu_memory_fraction": series([spiky(0.85, 0.95, 0.99) for _ in range(steps)]),
        "system/a/host/memory_fraction": series([spiky(0.3, 0.9, 0.96) for _ in range(steps)]),
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_a_healthy_run_is_quiet(seed):
    assert judge_all(DEFAULTS, healthy(seed=seed)) == []


def test_a_healthy_run_has_every_metric_that_a_rule_names():
    assert {rule.metric.replace("*", "a") for rule in DEFAULTS if rule.metric != "*"} == healthy().keys()


def test_of_a_pattern_the_worst_series_counts():
    idle, busy = series([0.0] * 50), series([0.9] * 50)

    (found,) = judge_all(
        DEFAULTS, {"system/a/host/gpu_busy_fraction": busy, "system/b/host/gpu_busy_fraction": idle}
    )

    assert (found.rule, found.metric, found.active) == ("gpu_idle", "system/b/host/gpu_busy_fraction", True)


def test_the_marks_of_an_unstable_run_are_seen():
    values = healthy()
    values["train/truncation_rate"] = series([0.02] * 300 + [0.12] * 100 + [0.2] * 200)
    values["train/grad_norm"] = series([1.0] * 500 + [200.0] * 100)

    found = {f.rule: f for f in judge_all(DEFAULTS, values)}

    assert found.keys() == {
        "truncation_rate", "truncation_rate_critical", "grad_norm", "grad_norm_critical",
    }  # fmt: skip
    assert found["truncation_rate"].first_step == 301
    assert found["truncation_rate_critical"].first_step == 401


def test_names_are_unique_and_every_rule_says_what_to_do():
    assert len({rule.name for rule in DEFAULTS}) == len(DEFAULTS)
    assert all(rule.meaning.endswith(".") and rule.look_at.endswith((".", "?")) for rule in DEFAULTS)
