"""What fills the machine is in one unit, whoever marks a new test."""

import pytest

from tests.scheduling import MARKS, file_of, fills_the_machine, turn


def needs_it_whole(item):
    return any(map(item.get_closest_marker, MARKS)) or {"stack", "stack_with_model"} & set(item.fixturenames)


def test_what_needs_the_whole_machine_is_in_one_unit(request):
    """Of the tests of this run: all of them where the whole suite runs."""
    needed = {file_of(item.nodeid) for item in request.session.items if needs_it_whole(item)}

    assert {file for file in needed if not fills_the_machine(file)} == set()


@pytest.mark.parametrize(
    ("file", "fills"),
    [
        ("tests/e2e/test_story.py", True),
        ("tests/browser/test_training.py", True),
        ("tests/training/cluster/test_kill.py", True),
        ("tests/browser/test_shell.py", False),
        ("tests/training/test_losses.py", False),
    ],
)
def test_a_mark_in_a_file_decides(file, fills):
    assert fills_the_machine(file) == fills


def test_the_machine_first_and_browsers_last():
    files = ["tests/browser/test_shell.py", "tests/scaling/test_cli.py", "tests/e2e/test_story.py"]

    assert sorted(files, key=turn) == files[::-1]
