"""CSV files that people open in a spreadsheet."""

import csv
import io
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.http import HttpResponse

from webapp.base.times import utc

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


def lines(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV: a missing value is an empty cell, and no text becomes a formula."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(map(_cell, row) for row in rows)
    return text.getvalue()


def csv_file(name: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> HttpResponse:
    """A download, `name`.csv, with a header."""
    response = HttpResponse(lines([columns]) + lines(rows), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return response


def _cell(value: Any) -> Any:
    return utc(value) if isinstance(value, datetime) else harmless(value)
