"""What fills the machine is in one unit, whoever marks a new test."""

import pytest

from tests.scheduling import MARKS, STACKS, fills_the_machine, turn


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
