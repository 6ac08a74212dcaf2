"""Cells of tables: text of a CSV, or values of a Parquet file."""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from math import isfinite
from typing import Any, Final

from webapp.interfaces.imports.readers.building import Builder, number, shown
from webapp.interfaces.imports.readers.rows import BadSource

EMPTY = frozenset({"", "na", "n/a", "null", "none", "-"})
WORDS = {"true": 1.0, "false": 0.0}
PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE | re.ASCII)
WITH_COMMA = re.compile(r"[+-]?\d[\d.]*,\d+([eE][+-]?\d+)?", re.ASCII)
NOTHING: Final = float("nan")  # an empty cell, compared by identity
Bad = Callable[[str], BadSource]


def text(cell: Any) -> str:
    """As a person reads it; empty for nothing."""
    if cell is None:
        return ""
    return (
        cell.strip()
        if isinstance(cell, str)
        else cell.isoformat()
        if isinstance(cell, datetime)
        else str(cell)
    )


def is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in EMPTY)


def number_of(bad: Bad, name: str, cell: Any) -> float | None:
    """None where it is not finite. Raises BadSource for what is no number."""
    if isinstance(cell, str):
        return _of_text(bad, name, cell.strip())
    try:
        return number(float(cell) if isinstance(cell, Decimal) else cell)
    except TypeError:
        raise bad(f"{name} is {shown(cell)}, which is no number.") from None


def _of_text(bad: Bad, name: str, cell: str) -> float | None:
    if PLAIN.fullmatch(cell):
        return number(float(cell))
    if cell.lower() in WORDS:
        return WORDS[cell.lower()]
    if WITH_COMMA.fullmatch(cell):
        raise bad(f"{name} is {shown(cell)}: numbers have a decimal point, and no comma.")
    raise bad(f"{name} is {shown(cell)}, which is no number.")


class Numbers:
    """Columns of metrics. One whose first cell is text is left out, and said; later text among numbers is refused."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._is_text: dict[str, bool] = {}

    def of(self, line: int, name: str, cell: Any) -> float | None:
        """NOTHING for an empty cell and in a column of text. Raises BadSource."""
        if type(cell) is str and self._is_text.get(name) is False:  # most are plain numbers
            with suppress(ValueError):
                plain = float(cell)
                if isfinite(plain) and "_" not in cell and cell.isascii():
                    return plain
        if is_empty(cell) or self._is_text.get(name):
            return NOTHING
        if name not in self._is_text:
            self._is_text[name] = self._begins_with_text(line, name, cell)
            if self._is_text[name]:
                return NOTHING
        return number_of(lambda reason: self._builder.bad(line, reason), name, cell)

    def _begins_with_text(self, line: int, name: str, cell: Any) -> bool:
        if isinstance(cell, bool | int | float | Decimal):
            return False
        if isinstance(cell, str):
            cell = cell.strip()
            if PLAIN.fullmatch(cell) or cell.lower() in WORDS or WITH_COMMA.fullmatch(cell):
                return False
        self._builder.note(f"{shown(name)} is text ({shown(text(cell), 30)} in line {line}) and left out.")
        return True
