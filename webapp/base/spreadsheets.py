"""Cells of CSV files that people open in a spreadsheet."""

from typing import Any

FORMULA = "=+-@\t\r\n"  # what a spreadsheet takes for the begin of a formula, or skips before one


def harmless(cell: Any) -> Any:
    """The cell, with an apostrophe before what a spreadsheet would compute."""
    if not isinstance(cell, str):
        return cell
    return f"'{cell}" if cell.lstrip(" ")[:1] in set(FORMULA) else cell


def original(cell: Any) -> Any:
    """The inverse of `harmless`."""
    is_marked = isinstance(cell, str) and cell.startswith("'") and harmless(cell[1:]) == cell
    return cell[1:] if is_marked else cell
