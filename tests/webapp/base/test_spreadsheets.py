"""Cells that a spreadsheet would compute are marked, and come back as they were."""

import pytest

from webapp.base.formats import harmless, original


@pytest.mark.parametrize("cell", ["=1+1", "-x", " @a", "+", "\t", "'", "'a", "plain", "", 1.5, -2, None])
def test_a_marked_cell_comes_back(cell: object) -> None:
    assert original(harmless(cell)) == cell


@pytest.mark.parametrize(
    ("cell", "marked"), [("=1", "'=1"), (" -1", "' -1"), ("a", "a"), ("'a", "'a"), (-1.5, -1.5)]
)
def test_what_would_be_computed_is_marked(cell: object, marked: object) -> None:
    assert harmless(cell) == marked
