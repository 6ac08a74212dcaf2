"""What fills the machine is in one unit, whoever marks a new test."""

import pytest
from django.conf import settings

from tests.scheduling import WHOLE_MACHINE, fills_the_machine, turn


@pytest.mark.parametrize("path", WHOLE_MACHINE)
def test_every_place_is_there(path):
    assert (settings.BASE_DIR / path).exists()


def test_what_starts_a_stack_or_vllm_fills_the_machine(request):
    """Of the tests of this session: all of them where the whole suite runs."""
    marked = [
        i.nodeid
        for i in request.session.items
        if i.get_closest_marker("stack") or i.get_closest_marker("vllm")
    ]

    assert [test for test in marked if not fills_the_machine(test)] == []


def test_the_machine_first_and_browsers_last():
    tests = [
        "tests/browser/test_shell.py::test_a",
        "tests/scaling/test_cli.py::test_b",
        "tests/e2e/test_story.py::test_c",
    ]

    assert sorted(tests, key=turn) == tests[::-1]
