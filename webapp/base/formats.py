"""Numbers that people type into addresses and forms: "12,000", "1e21", " 0.6". One reading for every page.

How a time is written for programs, in JSON and in tables.

CSV files that people open in a spreadsheet.

YAML that people type: bounded in size and depth, without aliases, and only what JSON can hold.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import yaml
from django.http import HttpResponse

from training.plain_yaml import LOADER

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


MAX_TEXT = 100_000  # characters; the longest recipe has 4,000
MAX_DEPTH = 20


class Unreadable(ValueError):
    """A text that is no value; the message is a sentence without the field."""


def load_yaml(text: str) -> Any:
    """A value of plain parts. Raises Unreadable with the line at fault."""
    if len(text) > MAX_TEXT:
        raise Unreadable(f"is longer than {MAX_TEXT:,} characters")
    try:
        depth = 0
        for event in yaml.parse(text, Loader=LOADER):
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise Unreadable(f"has an alias (*{event.anchor}) in line {line}: write it out")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH + 1:  # `strange` would say so, too, after seconds where there are thousands
                raise Unreadable(f"is nested deeper than {MAX_DEPTH} levels")
        value = yaml.load(text, Loader=LOADER)  # nosec B506  # a safe one
    except yaml.MarkedYAMLError as error:
        raise Unreadable(_yaml_words(error, text)) from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Unreadable("is not YAML: " + str(error).splitlines()[0][:200]) from None
    if problem := strange(value):
        raise Unreadable(problem)
    return value


def _yaml_words(error: yaml.MarkedYAMLError, text: str) -> str:
    mark, where = error.problem_mark or error.context_mark, ""
    if mark:  # the end of the text is said to be on a line after the last
        lines = text.split("\n")
        line = min(mark.line, len(lines) - 1)
        column = mark.column if line == mark.line else len(lines[line])
        where = f" in line {line + 1}, column {column + 1}"
    return f"is not YAML{where}: {error.problem or error.context}"


def strange(value: Any, depth: int = 0) -> str:
    """What of a value no configuration can hold, in words that follow its name; empty where all is well."""
    if depth > MAX_DEPTH:
        return f"is nested deeper than {MAX_DEPTH} levels"
    if isinstance(value, Mapping):
        if (odd := next((key for key in value if not isinstance(key, str)), None)) is not None:
            return f"has the key {odd!r}, which is no text"
        return next(filter(None, (strange(part, depth + 1) for pair in value.items() for part in pair)), "")
    if isinstance(value, list | tuple):
        return next(filter(None, (strange(part, depth + 1) for part in value)), "")
    if isinstance(value, str):
        return "" if _is_storable(value) else "has a character that cannot be stored"
    if isinstance(value, float) and not math.isfinite(value):
        return "has a number that is not finite"
    if value is None or isinstance(value, bool | int | float):
        return ""
    return f"has a value that is neither text, number, list nor mapping: {str(value)[:40]}"


def _is_storable(text: str) -> bool:
    """PostgreSQL keeps no NUL, and UTF-8 no halves of characters."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
