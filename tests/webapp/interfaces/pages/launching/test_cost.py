"""Costs and waits in words: only from what was measured, and what is not known is said."""

from dataclasses import replace
from datetime import timedelta

import pytest

from training.recipe import apply_overrides, load_recipe
from webapp.interfaces.api.health import NOT_CONFIGURED
from webapp.interfaces.pages.cluster import REFUSES, Cluster
from webapp.interfaces.pages.launching.cost import cost, wait
from webapp.record.runs.pace import Pace, Range
from webapp.record.runs.queue import Held, Queue

TINY = load_recipe("tiny/scalerl")
FULL = load_recipe("scalerl")
IDLE = Queue(0, 0, [], "")
WELL = Cluster("ok", "ok", gpus=0, cpus=2)


def held(*, waits=False, cpus=2, left=None):
    return Held("r", 1, "run", waits, 0, cpus, left)


def said(payload):
    return " ".join(payload["sentences"])


def values_of(payload):
    return {what: (value, remark) for what, value, remark in payload["lines"]}


def test_the_clock_is_the_budget_by_the_devices():
    lines = values_of(cost(FULL, 3, None, "ScaleRL"))

    assert lines["Compute"] == ("48,000 device-hours", "3 runs × 16,000 on 80 GPUs each")
    assert lines["Training, by the clock"][0] == "8 d 8 h"
    assert set(lines) == {"Compute", "Training, by the clock"}


def test_earlier_runs_say_what_comes_on_top_and_what_is_done():
    recipe = apply_overrides(TINY, {"budget.device_hours": 2.0})
    pace = Pace(3, True, Range(1.2, 1.5, 2.0), Range(40, 50, 60), Range(1e6, 1e6, 1e6), None)

    payload = cost(recipe, 1, pace, "ScaleRL (tiny)")

    lines = values_of(payload)
    assert lines["With evaluation"][0] == "1 h 30 min (1 h 12 min to 2 h)"
    assert lines["Updates"][0] == "about 100 (80 to 120)"
    assert lines["Tokens"][0] == "about 2.00e6"
    assert "FLOPs" not in lines
    assert payload["source"].startswith(
        "Measured on 3 runs of ScaleRL (tiny) on arithmetic with tiny-arithmetic"
    )


def test_a_limit_of_updates_that_comes_first_is_said():
    recipe = apply_overrides(TINY, {"budget.device_hours": 2.0, "budget.max_steps": 70})
    pace = Pace(1, False, Range(1, 1, 1), Range(50, 50, 50), None, None)

    payload = cost(recipe, 1, pace, "ScaleRL")

    assert values_of(payload)["Updates"][1] == "stops at 70 updates, before the budget is spent"
    assert "of other recipes" in payload["source"]


def test_a_free_cluster_starts_at_once():
    payload = wait(TINY, 1, IDLE, WELL)

    assert said(payload) == (
        "No run is queued or working on the cluster. The cluster has 0 GPUs and 2 CPU cores, enough of them free: "
        "it starts as soon as the worker hands it over."
    )
    assert payload["level"] == ""


def test_runs_that_hold_the_devices_are_named_with_the_first_end():
    queue = Queue(1, 1, [held(left=timedelta(minutes=20)), held(waits=True)], "")

    words = said(wait(TINY, 1, queue, WELL))

    assert "1 run waits before it, 1 run at work; the first of them ends in about 20 min." in words
    assert "0 and 0 left by the runs before it: it waits for a place." in words


def test_a_run_that_the_cluster_cannot_hold_is_before_nobody():
    queue = Queue(1, 0, [replace(held(waits=True), gpus=8)], "")

    assert "enough of them free" in said(wait(TINY, 1, queue, WELL))


@pytest.mark.parametrize(
    ("recipe", "cluster", "level", "words"),
    [
        (FULL, WELL, "bad", "asks for 80 GPUs and the cluster has 0: it would wait in vain"),
        (TINY, Cluster("ok", "ok", 0, 1), "bad", "asks for 2 CPU cores and the cluster has 1"),
        (TINY, Cluster("ok", "ok"), "", "What the cluster has is not known."),
        (TINY, Cluster("ok", REFUSES), "warn", "Ray does not tell the worker"),
        (TINY, Cluster("does not answer", "ok", 0, 2), "warn", "The worker does not answer"),
        (TINY, Cluster(NOT_CONFIGURED, NOT_CONFIGURED), "warn", "No Ray cluster is known"),
    ],
)
def test_what_is_too_small_or_does_not_answer_is_said(recipe, cluster, level, words):
    payload = wait(recipe, 1, IDLE, cluster)

    assert words in said(payload)
    assert payload["level"] == level


def test_a_hand_over_that_fails_is_quoted():
    payload = wait(TINY, 1, Queue(1, 0, [held(waits=True)], "Ray at http://x does not answer."), WELL)

    assert "tried again: Ray at http://x does not answer." in said(payload)
    assert payload["level"] == "warn"


def test_how_old_it_is_what_the_cluster_has():
    seen = Cluster("ok", "ok", gpus=0, cpus=2, age=timedelta(seconds=12))

    assert said(wait(TINY, 1, IDLE, seen)).endswith("hands it over. Ray said so 12 s ago.")
