"""Which checkpoints of an ended run may go."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from webapp.record.retention.folders import KEEP_TAG, Kept, could_ever_go, going
from webapp.record.retention.models import RetentionPolicy
from webapp.record.runs.models import Run

NOW = datetime(2026, 5, 31, tzinfo=UTC)
POLICY = RetentionPolicy(keep_newest=2, checkpoint_days=30)
FOUND = [Kept(Path(f"step-{step}"), step, (step, 1), 10) for step in (5, 10, 15, 20)]
HALF = Kept(Path(".step-25.partial"), None, (-1, 0), 10)


def gone(state="cancelled", *, hours=48.0, protected=False, low=False, found=FOUND, policy=POLICY):
    run = Run(state=state, ended_at=NOW - timedelta(hours=hours), tags=[KEEP_TAG] if protected else [])
    return [one.kept.step for one in going(run, found, policy, NOW, is_low=low)]


@pytest.mark.parametrize(
    ("case", "steps"),
    [
        ({}, [5, 10]),
        ({"hours": 0.5}, []),  # whoever watches it may resume it
        ({"state": "lost", "hours": 12}, []),  # it may still be at work somewhere
        ({"state": "lost"}, [5, 10]),
        ({"protected": True, "hours": 24 * 365, "low": True}, []),
        ({"hours": 24 * 31}, [5, 10, 15, 20]),
        ({"state": "succeeded", "hours": 24 * 31}, [5, 10, 15]),  # the final one stays for good
        ({"state": "succeeded", "hours": 24 * 31, "low": True}, [5, 10, 15]),
        ({"low": True}, [5, 10, 15]),
        ({"low": True, "policy": RetentionPolicy(keep_newest=2, under_pressure=False)}, [5, 10]),
        ({"found": [HALF, *FOUND[:2]]}, [None]),
        ({"found": []}, []),
    ],
)
def test_what_goes(case, steps):
    assert gone(**case) == steps


def test_each_removal_says_why():
    run = Run(state="failed", ended_at=NOW - timedelta(days=40))
    assert {one.why for one in going(run, FOUND, POLICY, NOW, is_low=True)} == {"ended more than 30 days ago"}


@pytest.mark.parametrize(
    ("state", "left", "expected"),
    [
        ("succeeded", FOUND[-1:], False), ("failed", FOUND[-1:], True), ("failed", [], False),
        ("succeeded", [HALF], True),
    ],
)  # fmt: skip
def test_where_nothing_can_go_any_more_nobody_looks_again(state, left, expected):
    assert could_ever_go(Run(state=state, ended_at=NOW), left) is expected
