"""A row of a data set, the problem made of it, and the error that says which row and field is wrong."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

ProblemKind = Literal["math", "code", "choice", "exact"]


class DataError(ValueError):
    """Data that cannot be used: the message names file, row (the line, from 1), field and reason."""

    def __init__(self, file: object, reason: str, *, row: int | None = None, field: str = "") -> None:
        where = f"{file}, row {row}" if row else str(file)
        super().__init__(
            ": ".join(part for part in (where, f"field {field}" if field else "", reason) if part)
        )
        self.file, self.row, self.field, self.reason = str(file), row, field, reason


@dataclass(frozen=True)
class Problem:
    """What an adapter makes of a row. `answer` has the form that the kind's verifier wants.

    `id` is the data set's own, or "". `difficulty` grows with it, on the data set's own scale; None: not known.
    """

    text: str
    answer: str
    id: str = ""
    difficulty: float | None = None


class Row:
    """A row with its place, so that a wrong field can be named. All getters raise DataError."""

    def __init__(self, values: Mapping[str, Any], file: object, number: int) -> None:
        self._values, self._file, self.number = values, file, number

    def error(self, field: str, reason: str) -> DataError:
        """To be raised where this field is wrong."""
        return DataError(self._file, reason, row=self.number, field=field)

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._values.get(name) is not None

    def raw(self, *names: str) -> tuple[str, Any]:
        """(name, value) of the first of these fields that is there."""
        for name in names:
            if self.has(name):
                return name, self._values[name]
        raise self.error(" or ".join(names), "is missing")

    def text(self, *names: str) -> str:
        """A string that is not blank."""
        name, value = self.raw(*names)
        if not isinstance(value, str):
            raise self.error(name, f"must be a string, not {kind_of(value)}")
        if not value.strip():
            raise self.error(name, "is blank")
        return value

    def optional_text(self, *names: str) -> str:
        """The string, or "" where it is missing or blank."""
        found = [name for name in names if self.has(name) and self._values[name] != ""]
        return self.text(found[0]) if found else ""

    def label(self, *names: str) -> str:
        """A string or number, as a string: an id or a short answer."""
        name, value = self.raw(*names)
        return as_label(value) or self.text(name).strip()

    def optional_label(self, *names: str) -> str:
        """The same, or "" where it is missing."""
        return next((as_label(self._values[name]) for name in names if self.has(name)), "")

    def texts(self, name: str, *, least: int = 1) -> list[str]:
        """A list of at least so many strings, none of them blank."""
        _, value = self.raw(name)
        return self.check_texts(name, value, least=least)

    def check_texts(self, field: str, value: Any, *, least: int = 1) -> list[str]:
        """`value` as such a list; `field` is its name for the error."""
        is_list = isinstance(value, list) and all(isinstance(item, str) and item.strip() for item in value)
        if not is_list or len(value) < least:
            raise self.error(field, f"must be a list of at least {least} strings, none of them blank")
        return value

    def mapping(self, name: str) -> Mapping[str, Any]:
        """An object."""
        _, value = self.raw(name)
        if not isinstance(value, Mapping):
            raise self.error(name, f"must be an object, not {kind_of(value)}")
        return value

    def parsed(self, name: str) -> Any:
        """JSON kept in a string; what is no string is taken as it is."""
        _, value = self.raw(name)
        return self.parse(name, value) if isinstance(value, str) else value

    def parse(self, field: str, text: str) -> Any:
        """JSON; `field` is its name for the error."""
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise self.error(field, "is not JSON") from None


def as_label(value: Any) -> str:
    """A string or number as a stripped string; "" for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()


def kind_of(value: Any) -> str:
    """What JSON calls a value's type."""
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return "null" if value is None else names.get(type(value), "an object")
