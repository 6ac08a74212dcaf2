"""Costs and waits in words: only from what was measured, and what is not known is said."""

import pytest

from training.recipe import apply_overrides, load_recipe
from webapp.interfaces.api.health import NOT_CONFIGURED
from webapp.interfaces.pages.launching.preview import REFUSES, Cluster, cost, wait
from webapp.record.runs.pace import Pace, Range
from webapp.record.runs.places import Prospect

TINY = load_recipe("tiny/scalerl")
FULL = load_recipe("scalerl")
WELL = Cluster("ok", "ok", gpus=0, cpus=2)


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
    payload = wait(1, Prospect(1), WELL)

    assert payload == {"sentences": ["There is room: the worker hands it over at once."], "level": ""}
    assert said(wait(3, Prospect(3), WELL)) == "There is room for all."


def test_what_it_would_wait_for_is_said_as_a_queued_run_says_it():
    waits = "waits for the cluster: needs 2 CPU cores, 0 free; starts in about 20 min"

    assert said(wait(1, Prospect(0, waits), WELL)) == f"It {waits}."
    assert said(wait(3, Prospect(1, waits), WELL)) == f"1 of 3 goes at once, the next {waits}."
    assert said(wait(3, Prospect(2, waits), WELL)) == f"2 of 3 go at once, the next {waits}."


@pytest.mark.parametrize(
    ("prospect", "cluster", "level", "words"),
    [
        (Prospect(0, "needs 80 GPUs, the cluster has 0", in_vain=True), WELL, "bad",
         "It needs 80 GPUs, the cluster has 0: it would wait in vain."),
        (Prospect(1), Cluster("ok", "ok"), "", "What the cluster has is not known."),
        (Prospect(1), Cluster("ok", REFUSES), "warn", "Ray does not tell the worker"),
        (Prospect(1), Cluster("does not answer", "ok", 0, 2), "warn", "The worker does not answer"),
        (Prospect(1), Cluster(NOT_CONFIGURED, NOT_CONFIGURED), "warn", "No Ray cluster is known"),
    ],
)  # fmt: skip
def test_what_is_too_small_or_does_not_answer_is_said(prospect, cluster, level, words):
    payload = wait(1, prospect, cluster)

    assert words in said(payload)
    assert payload["level"] == level


def test_a_hand_over_that_fails_is_quoted():
    payload = wait(1, Prospect(1, undelivered="Ray at http://x does not answer."), WELL)

    assert "tried again: Ray at http://x does not answer." in said(payload)
    assert payload["level"] == "warn"
