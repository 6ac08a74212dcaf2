"""One decision at a time: what goes, what waits, what passes and what steps back."""

from dataclasses import replace

from tests.webapp.record.runs.admission.plain import (
    cores,
    decided,
    gpus,
    hours,
    node,
    nodes,
    queued,
    working,
)
from webapp.record.runs.admission.deciding import MOST_AHEAD_OF_GROWTH, TOLD
from webapp.record.runs.admission.parts import Cluster, Share, Span, Why

BOTH = cores(1, 1)  # all of a machine with two cores


def waiting(decision) -> dict:
    return {wait.run.run: wait.why for wait in decision.waits}


def test_of_nine_on_two_cores_one_goes_and_the_next_when_it_has_ended():
    queue = [queued(f"r{number}", BOTH, age=9 - number) for number in range(9)]

    assert decided(queue).start == ["r0"]
    assert decided(queue[1:], [working("r0", BOTH)]).start == []
    assert decided(queue[1:]).start == ["r1"]


def test_what_was_handed_over_holds_its_place_before_ray_has_given_it_one():
    starting = working("first", BOTH, has_begun=False)

    assert decided([queued("next", BOTH)], [starting]).start == []
    assert decided([queued("next", cores(1))], [replace(starting, bundles=cores(1))]).start == ["next"]


def test_one_goes_ahead_to_what_an_ended_run_still_holds():
    machine = Cluster([node(2)], ended=[(0, {"CPU": 2.0})])
    first, second = queued("first", cores(1), age=2), queued("second", cores(1), age=1)

    assert decided([first, second], cluster=machine).start == ["first"]
    ahead = working("first", cores(1), has_begun=False)
    assert decided([second], [ahead], machine).start == []
    assert decided([second], [ahead]).start == ["second"]


def test_while_one_of_ours_waits_inside_ray_nothing_else_is_handed_over():
    stuck = working("stuck", cores(1), has_begun=False, waits_in_ray=True)

    assert decided([queued("next", cores(1))], [stuck], nodes((8, 0))).start == []


def test_what_others_hold_is_not_free():
    machine = Cluster([node(2)], others=[(0, {"CPU": 1.0})])

    assert decided([queued("both", BOTH)], cluster=machine).start == []
    assert decided([queued("one", cores(1))], cluster=machine).start == ["one"]


def test_bundles_are_placed_on_nodes_and_not_on_sums():
    halves = nodes((8, 4), (8, 4))
    held = [
        working("left", gpus(2), holds=[(0, gpus(2)[0])]),
        working("right", gpus(2), holds=[(1, gpus(2)[0])]),
    ]

    assert decided([queued("whole", gpus(4))], held, halves).start == []
    assert decided([queued("split", gpus(2, 2))], held, halves).start == ["split"]


def test_of_an_unknown_cluster_one_run_is_handed_over_until_it_has_begun():
    unknown = Cluster(None)

    assert decided([queued("a", age=2), queued("b", age=1)], cluster=unknown).start == ["a"]
    assert decided([queued("b")], [working("a", has_begun=False)], unknown).start == []
    assert decided([queued("b")], [working("a")], unknown).start == ["b"]


def test_a_cluster_that_grows_gets_what_does_not_fit_up_to_a_number():
    grows = Cluster([node(2)], grows=True)
    queue = [queued(f"r{number:02}", gpus(8), age=99 - number) for number in range(MOST_AHEAD_OF_GROWTH + 3)]

    decision = decided(queue, cluster=grows)

    assert decision.start == [run.run for run in queue[:MOST_AHEAD_OF_GROWTH]]
    pending = [working(run, gpus(8), has_begun=False, waits_in_ray=True) for run in decision.start]
    assert decided(queue[MOST_AHEAD_OF_GROWTH:], pending, grows).start == []
    assert decided([queued("small")], pending, grows).start == ["small"]


def test_what_the_cluster_could_never_hold_holds_up_nobody():
    decision = decided([queued("huge", gpus(8), age=9), queued("small")])

    assert (decision.start, waiting(decision)) == (["small"], {"huge": Why.TOO_LARGE})


def test_a_project_without_a_place_holds_up_nobody():
    shares = {1: Share(at_work=1, most_at_work=1), 2: Share()}
    decision = decided([queued("full", age=9), queued("free", project=2)], shares=shares)

    assert (decision.start, waiting(decision)) == (["free"], {"full": Why.PROJECT})


# --- passing --------------------------------------------------------------------------------------------------


def half_full(left: Span):
    """A machine with two of four cores in use, for so long."""
    return [working("first", cores(2), left=left)], nodes((4, 0))


def test_a_short_run_passes_a_large_one_that_has_to_wait_longer():
    at_work, machine = half_full(hours(2.0, 3.0))
    large = queued("large", cores(4), age=9, lasts=hours(1.0, 1.0))

    for lasts, passes in ((hours(1.0, 2.0), True), (hours(1.0, 2.1), False), (hours(1.0), False)):
        decision = decided([large, queued("small", cores(2), lasts=lasts)], at_work, machine)
        assert (decision.start == ["small"]) is passes, lasts


def test_a_long_run_passes_where_it_leaves_the_large_one_its_place():
    at_work = [working("first", cores(2), left=hours(1.0, 1.0))]
    long = queued("long", cores(1), lasts=hours(99.0, 99.0))

    beside = decided([queued("large", cores(3), age=9), long], at_work, nodes((4, 0)))
    against = decided([queued("large", cores(4), age=9), long], at_work, nodes((4, 0)))

    assert (beside.start, against.start) == (["long"], [])


def test_where_nothing_is_known_of_the_end_nobody_passes():
    at_work, machine = half_full(hours(0.0))
    queue = [queued("large", cores(4), age=9), queued("small", cores(1), lasts=hours(0.1, 0.2))]

    assert decided(queue, at_work, machine).start == []


def test_those_who_pass_leave_the_large_one_its_place_together():
    at_work = [working("first", cores(2), left=hours(1.0, 1.0))]
    queue = [queued("large", cores(5), age=9)]
    queue += [queued(f"long{number}", cores(1), age=8 - number, lasts=hours(9, 9)) for number in range(3)]

    assert decided(queue, at_work, nodes((6, 0))).start == ["long0"]


# --- stepping back --------------------------------------------------------------------------------------------


def test_lower_priorities_step_back_if_their_projects_let_them():
    urgent = queued("urgent", BOTH, priority=2)
    low = working("low", BOTH, priority=1, may_step_back=True)

    assert decided([urgent], [low]).step_back == ["low"]
    assert decided([urgent], [replace(low, may_step_back=False)]).step_back == []
    assert decided([urgent], [replace(low, priority=2)]).step_back == []
    assert decided([urgent], [replace(low, has_begun=False)]).step_back == []
    assert decided([urgent], [replace(low, is_stopping=True)]).step_back == []  # it does already


def test_no_more_step_back_than_are_needed_and_none_if_they_are_not_enough():
    large, small = (
        working(name, cores(count), priority=0, may_step_back=True)
        for name, count in (("large", 4), ("small", 2))
    )
    kept = working("kept", cores(2))
    machine = nodes((8, 0))

    assert decided([queued("urgent", cores(4))], [large, small, kept], machine).step_back == ["large"]
    assert decided([queued("urgent", cores(8))], [large, small, kept], machine).step_back == []


# --- waiting --------------------------------------------------------------------------------------------------


def test_what_waits_knows_who_is_before_it_and_when_it_starts():
    at_work = [working("now", BOTH, left=hours(0.5, 1.0))]
    queue = [queued(name, BOTH, age=9 - number, lasts=hours(1.0, 2.0)) for number, name in enumerate("abc")]

    waits = decided(queue, at_work).waits

    assert [(wait.run.run, wait.starts) for wait in waits] == [
        ("a", hours(0.5, 1.0)), ("b", hours(1.5, 3.0)), ("c", hours(2.5, 5.0)),
    ]  # fmt: skip


def test_what_waits_for_a_place_of_its_project_starts_when_one_ends_at_the_earliest():
    at_work = [
        working("a", left=hours(2.0)),
        working("b", left=hours(0.5, 1.0)),
        working("theirs", project=2),
    ]
    queue = [queued(name, age=9 - number, lasts=hours(4.0)) for number, name in enumerate("cdef")]
    waits = lambda most: [
        (wait.run.run, wait.starts)
        for wait in decided(queue, at_work, nodes((9, 0)), {1: Share(at_work=2, most_at_work=most)}).waits
    ]

    assert waits(2) == [("c", hours(0.5)), ("d", hours(2.0)), ("e", None), ("f", None)]
    assert waits(1)[0] == ("c", hours(2.0))  # the limit was lowered
    assert waits(3) == [("d", hours(0.5)), ("e", hours(2.0)), ("f", hours(4.0))]  # c goes now


def test_after_a_run_of_unknown_length_the_start_is_known_from_below():
    at_work = [working("now", BOTH, left=hours(0.5))]

    (wait,) = decided([queued("a", BOTH)], at_work).waits
    (unknown,) = decided([queued("a")], [working("now", has_begun=False)], Cluster(None)).waits

    assert (wait.starts, unknown.starts) == (hours(0.5), None)


def test_of_a_long_queue_the_first_are_told():
    queue = [queued(f"r{number:04}", BOTH) for number in range(3 * TOLD)]

    assert len(decided(queue, [working("now", BOTH)]).waits) == TOLD
