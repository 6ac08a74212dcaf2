"""What a queued run says of its wait."""

import pytest

from tests.webapp.record.runs.admission.plain import cores, decided, gpus, hours, node, nodes, queued, working
from webapp.record.runs.admission.acting import UNKNOWN, sentences, when
from webapp.record.runs.admission.parts import Cluster, Share

BOTH = cores(1, 1)
TWO = node(2)
AT_WORK = [working("now", BOTH, left=hours(0.4, 0.6))]


def said(queue, at_work=AT_WORK, cluster=None, has=TWO, shares=None, names=(), working=((1, "the first"),)):
    decision = decided(queue, at_work, cluster, shares)
    return sentences(
        decision, has, shares or {}, working, {**{run.run: run.run for run in queue}, **dict(names)}
    )


def test_the_first_says_what_it_needs_who_has_it_and_when_it_may_start():
    assert said([queued("next", BOTH)])["next"] == (
        "waits for the cluster: needs 2 CPU cores, 0 free; behind 1 run at work: the first; "
        "starts in about 20 to 45 min"
    )


def test_others_say_who_is_before_them_and_name_runs_of_their_own_project_alone():
    queue = [queued(name, BOTH, age=9 - number) for number, name in enumerate(("a", "b", "c", "d"))]
    foreign = queued("e", BOTH, project=2, hours=9.0)
    lines = said([*queue, foreign], shares={2: Share(used=99.0)})

    assert "; behind 1 run: a; " in lines["b"]
    assert "; behind 2 runs: a and b; " in lines["c"]
    assert "; behind 3 runs: a and 2 more; " in lines["d"]
    assert "; behind 4 runs of other projects; " in lines["e"]
    assert lines["d"].endswith("; starts in 20 min at the earliest")


def test_what_is_too_large_names_what_the_cluster_lacks():
    line = said([queued("huge", gpus(2))])["huge"]
    apart = said([queued("apart", cores(3))], [], nodes((2, 0), (2, 0)), node(4))["apart"]

    assert line == "needs 2 GPUs, the cluster has 0"
    assert apart == "needs more on one node than any has"


def test_a_full_project_and_an_unknown_cluster():
    shares = {1: Share(at_work=2, most_at_work=2)}

    at_work = [working("now", BOTH, left=hours(0.4, 0.6)), working("other", left=hours(2.0))]
    names = ((1, "the first"), (2, "theirs"), (1, "the second"))
    assert said([queued("full")], at_work, shares=shares, working=names)["full"] == (
        "waits for a place in its project: 2 of 2 at work; behind 2 runs at work: the first and the second; "
        "starts in 20 min at the earliest"
    )
    starting = [working("now", has_begun=False)]
    assert said([queued("next")], starting, Cluster(None), has=None)["next"] == UNKNOWN


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (None, "when it starts is not known"),
        (hours(0.0), "when it starts is not known"),
        (hours(1.2), "starts in 1 h at the earliest"),
        (hours(0.0, 0.01), "starts within about 1 min"),
        (hours(0.4, 0.6), "starts in about 20 to 45 min"),
        (hours(0.9, 2.5), "starts in about 45 min to 3 h"),
        (hours(1.1, 2.5), "starts in about 1 to 3 h"),
        (hours(2.0, 2.0), "starts in about 2 h"),
        (hours(50.0, 60.0), "starts in about 2 to 3 days"),
        (hours(500.0, 600.0), "starts in about 7 days"),
    ],
)
def test_times_are_round_and_say_how_sure_they_are(span, words):
    assert when(span) == words
