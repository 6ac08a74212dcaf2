"""The proofs of the kill matrix find what they are there for."""

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.chaos import proofs
from tests.chaos.short_run import EVERY, STEPS

Json = dict[str, Any]
RESUMED_FROM, DIED_AT = 2 * EVERY, 2 * EVERY + 3


def records(attempt: int, first: int, last: int) -> list[Json]:
    """What a run logs of its steps: an update each, an evaluation every EVERY."""
    found: list[Json] = []
    for step in range(first, last + 1):
        kinds = (["train/reward"] if step else []) + (["eval/pass_rate"] if step % EVERY == 0 else [])
        for name in kinds:
            metrics = {name: step / 100, "perf/step_seconds": attempt * 0.1, "system/vm/host/cpu": attempt}
            compute = {"tokens": 10.0 * step, "device_hours": attempt + step}
            moment = f"2026-01-01T00:{attempt:02}:{step:02}+00:00"
            record = {"attempt": attempt, "seq": len(found), "step": step, "time": moment}
            found.append(record | {"metrics": metrics, "compute": compute})
    return found


@pytest.fixture
def undisturbed() -> list[Json]:
    return records(1, 0, STEPS)


@pytest.fixture
def resumed() -> list[Json]:
    """Two attempts; the second one went on from a checkpoint before the first one's end."""
    return records(1, 0, DIED_AT) + records(2, RESUMED_FROM + 1, STEPS)


def attempts(resumed_from: int | None) -> list[Json]:
    return [
        {"number": 1, "started_at": "then", "resumed_from_step": None},
        {"number": 2, "started_at": "now", "resumed_from_step": resumed_from},
    ]


def test_resumed_run_holds(undisturbed: list[Json], resumed: list[Json]) -> None:
    counted = proofs.effective(resumed, attempts(RESUMED_FROM))
    curve = {"points": [{"step": step, "value": step / 100} for step in range(0, STEPS + 1, EVERY)]}

    assert proofs.stored_once(resumed, resumed) == []
    assert proofs.whole(counted) == []
    assert proofs.same_curve(proofs.timeless(undisturbed), counted) == []
    assert proofs.page_agrees(curve, counted) == []


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda stored: stored.pop(3), "1 records lost"),
        (lambda stored: stored.append(stored[3]), "1 records stored twice"),
        (lambda stored: stored[3]["metrics"].update(x=1.0), "1 records stored otherwise"),
    ],
)
def test_records_that_were_harmed_are_found(resumed: list[Json], harm: Any, said: str) -> None:
    stored = copy.deepcopy(resumed)
    harm(stored)

    assert said in proofs.stored_once(resumed, stored)[0]


def test_record_that_neither_journal_nor_store_has_is_missed(resumed: list[Json]) -> None:
    kept = [record for record in resumed if (record["attempt"], record["seq"]) != (1, 2)]

    assert proofs.stored_once(kept, kept) == ["attempt 1 lacks the records [2]"]


def test_evaluation_before_the_first_update_counts_once_after_a_start_anew() -> None:
    twice = records(1, 0, 1) + records(2, 0, STEPS)

    assert proofs.whole(proofs.effective(twice, attempts(None))) == []
    assert "[0] are there twice" in proofs.whole(proofs.effective(twice, attempts(0)))[0]


def test_training_goes_on_with_the_first_record_of_a_later_attempt(
    undisturbed: list[Json], resumed: list[Json]
) -> None:
    expected = datetime(2026, 1, 1, 0, 2, RESUMED_FROM + 1, tzinfo=UTC)

    assert proofs.trains_again(resumed) == expected.timestamp()
    assert proofs.trains_again(undisturbed) is None


def test_missing_update_is_found(undisturbed: list[Json]) -> None:
    lacking = [record for record in undisturbed if record["step"] != 5]

    assert proofs.whole(lacking) == ["train/reward: steps [5] are missing, [] are there twice or too many"]


def test_one_other_bit_is_another_curve(undisturbed: list[Json]) -> None:
    other = copy.deepcopy(undisturbed)
    changed = next(record for record in other[5:] if "train/reward" in record["metrics"])
    changed["metrics"]["train/reward"] += 1e-15
    step = changed["step"]

    found = proofs.same_curve(proofs.timeless(undisturbed), other)

    assert found and f"step {step} train train/reward" in found[0]
    assert proofs.same_curve(proofs.timeless(undisturbed), other, up_to=step - 1) == []


def test_curve_of_the_page_is_held_against_the_records(undisturbed: list[Json]) -> None:
    assert "the page's curve" in proofs.page_agrees({"points": [{"step": 0, "value": 0.5}]}, undisturbed)[0]
