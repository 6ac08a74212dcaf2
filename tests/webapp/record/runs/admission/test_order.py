"""Who comes first."""

from datetime import timedelta

from tests.webapp.record.runs.admission.plain import NOW, queued
from webapp.record.runs.admission.deciding import AGES_EVERY, in_order
from webapp.record.runs.admission.parts import Share

AGED = AGES_EVERY / timedelta(minutes=1)


def names(queue, shares=None) -> list[str]:
    return [run.run for run in in_order(queue, shares or {}, NOW)]


def test_by_priority_and_then_by_age():
    queue = [
        queued("young"),
        queued("low", priority=0, age=9),
        queued("high", priority=2),
        queued("old", age=5),
    ]

    assert names(queue) == ["high", "old", "young", "low"]


def test_a_run_that_waits_long_counts_as_of_the_next_priority():
    low, normal = queued("low", priority=0, age=AGED + 1), queued("normal", age=1)

    assert names([low, normal]) == ["low", "normal"]
    assert names([queued("low", priority=0, age=AGED - 1), normal]) == ["normal", "low"]


def test_a_project_that_used_less_comes_first_whoever_waited_longer():
    queue = [queued("theirs", project=1, age=9), queued("ours", project=2)]

    assert names(queue, {1: Share(used=5.0), 2: Share(used=1.0)}) == ["ours", "theirs"]
    assert names(queue, {1: Share(used=5.0, weight=10.0), 2: Share(used=1.0)}) == ["theirs", "ours"]


def test_projects_take_turns_by_their_shares():
    queue = [
        queued(f"{project}{number}", project=project, age=9 - number)
        for project in (1, 2)
        for number in range(6)
    ]

    order = names(queue, {1: Share(weight=2.0), 2: Share()})

    assert [sum(run.startswith("1") for run in order[:count]) for count in (3, 6, 9)] == [2, 4, 6]


def test_a_higher_priority_counts_against_its_project_for_the_rest():
    queue = [
        queued("urgent", project=1, priority=2),
        queued("mine", project=1, age=9),
        queued("yours", project=2),
    ]

    assert names(queue) == ["urgent", "yours", "mine"]
