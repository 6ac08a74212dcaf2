"""Numbers that people type into addresses and forms: "12,000", "1e21", " 0.6". One reading for every page.

How a time is written for programs, in JSON and in tables.

CSV files that people open in a spreadsheet.
"""

import csv
import io
import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.http import HttpResponse

MAX_LENGTH = 100  # characters; nothing longer is a number that somebody typed
# A comma parts thousands, as our own pages write them. Elsewhere it is refused: "0,5" is not 5.
NUMBER = re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+)?(\.\d*)?([eE][+-]?\d{1,4})?", re.ASCII)


class NoAmount(ValueError):
    """A text that is no number, or not one of those asked for; says why in few words."""


def number_in(text: str) -> float:
    """The finite number that a text says. Raises NoAmount ("not a number", "must be a finite number")."""
    plain = text.strip()
    if len(plain) > MAX_LENGTH or not NUMBER.fullmatch(plain):
        raise NoAmount("not a number")
    try:
        value = float(plain.replace(",", ""))
    except ValueError:  # a sign or a point alone
        raise NoAmount("not a number") from None
    if not math.isfinite(value):
        raise NoAmount("must be a finite number")
    return value


def amount_in(text: str, *, most: float = math.inf, whole: bool = False) -> float:
    """A number above 0 and at most `most`; with `whole` one without a fraction. Raises NoAmount."""
    value = number_in(text)
    if value <= 0:
        raise NoAmount("must be a positive number")
    if value > most:
        raise NoAmount(f"must be at most {most:,.0f}")
    if whole and not value.is_integer():
        raise NoAmount("must be a whole number")
    return value


def whole_in(text: str, digits: int = 9) -> int | None:
    """The whole number from 0 that an address or a button says in at most so many ASCII digits; None for all else."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= digits else None


def utc(moment: datetime, *, exact: bool = False) -> str:
    """ISO 8601 in UTC with milliseconds and Z: 2026-11-25T10:30:00.692Z. `exact`: with microseconds where it has them.

    `moment` must know its offset.
    """
    is_finer = exact and moment.microsecond % 1000
    text = moment.astimezone(UTC).isoformat(timespec="microseconds" if is_finer else "milliseconds")
    return f"{text.removesuffix('+00:00')}Z"


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
