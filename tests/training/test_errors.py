import pytest

from training.errors import first_line, last_line, telling_line


@pytest.mark.parametrize(
    ("message", "first", "last"),
    [
        ("one", "one", "one"),
        ("\n  Traceback:\n\n  in f\n ValueError: bad \n\n", "Traceback:", "ValueError: bad"),
        (" \n ", "KeyError", "KeyError"),
        ("", "KeyError", "KeyError"),
    ],
)
def test_lines_without_a_word_do_not_count(message: str, first: str, last: str) -> None:
    class KeyError(Exception):
        """Its message is shown as it is."""

    assert (first_line(KeyError(message)), last_line(KeyError(message))) == (first, last)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("the model is of an unknown type\n\nYou can upgrade the library", "the model is of an unknown type"),
        ("ray::Actor.load()\nTraceback (most recent call last):\n  in f\nValueError: bad", "ValueError: bad"),
        ("", "ValueError"),
    ],
)
def test_advice_is_left_out_and_so_is_a_traceback(message: str, told: str) -> None:
    assert telling_line(ValueError(message)) == told
