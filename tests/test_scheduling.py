"""What fills the machine is in one unit, whoever marks a new test."""

import os
from types import SimpleNamespace

import pytest

from stack.environment import ROOT
from tests.scheduling import MARKS, STACKS, InUnits, fills_the_machine, turn


def needs_it_whole(item):
    return any(map(item.get_closest_marker, MARKS)) or set(STACKS) & set(item.fixturenames)


def test_what_needs_the_whole_machine_is_in_one_unit(request):
    """Of the tests of this run: all of them where the whole suite runs."""
    wrong = {
        item.nodeid
        for item in request.session.items
        if needs_it_whole(item) and not fills_the_machine(item.nodeid)
    }

    assert wrong == set()


@pytest.mark.parametrize(
    ("test", "fills"),
    [
        ("tests/e2e/test_story.py::test_the_run_succeeds_within_its_budget", True),
        ("tests/worker/test_ray_jobs.py::test_real_ray_runs_a_job_once", True),
        ("tests/worker/test_ray_jobs.py::test_unknown_cluster_is_said_so", False),
        ("tests/training/test_losses.py::test_any[cispo-1]", False),
    ],
)
def test_the_mark_of_a_file_or_of_the_test_decides(test, fills):
    assert fills_the_machine(test) == fills


def test_the_machine_first_and_browsers_last():
    tests = [
        "tests/browser/test_shell.py::test_a", "tests/scaling/test_cli.py::test_a",
        "tests/stack/test_supervisor.py::test_sigterm_stops_every_child",
        "tests/worker/test_ray_jobs.py::test_real_ray_runs_a_job_once",
    ]  # fmt: skip

    assert sorted(tests, key=turn) == tests[::-1]


class Node:
    """A process of pytest-xdist, which does at once what it is given but for the last test."""

    def __init__(self) -> None:
        self.config = None
        self.gateway = SimpleNamespace(id="gw0")
        self.given: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.mark.parametrize(("cores", "ends"), [(1, True), (2, False)])
def test_beyond_a_process_a_core_the_one_that_filled_the_machine_ends_with_that(
    request, monkeypatch, cores, ends
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    of_the_unit = [f"tests/worker/test_ray_jobs.py::test_real_ray_runs_a_job_once[{i}]" for i in range(4)]
    others = [f"tests/scaling/{file.name}::test_a" for file in (ROOT / "tests" / "scaling").glob("test_*.py")]
    nodes = Node(), Node()
    scheduling = InUnits(
        SimpleNamespace(option=SimpleNamespace(tx=["2*popen"]), getvalue=lambda _: ["2*popen"])
    )
    for node in nodes:
        scheduling.add_node(node)
        scheduling.add_node_collection(node, of_the_unit + others)
    scheduling.schedule()
    assert nodes[0].given == [0, 1, 2, 3]

    for index in (0, 1):
        scheduling.mark_test_complete(nodes[0], index)

    assert nodes[0].shutting_down == ends
    assert (nodes[0].given == [0, 1, 2, 3]) == ends
    while nodes[1].given:
        scheduling.mark_test_complete(nodes[1], nodes[1].given.pop(0))
    assert nodes[1].shutting_down and not scheduling.workqueue
