"""Numbers that people type into addresses and forms: "12,000", "1e21", " 0.6". One reading for every page."""

import math
import re

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
