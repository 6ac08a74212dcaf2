"""Ties drawn as ties: a bar on the left of rows that cannot be told apart."""

from collections.abc import Sequence
from typing import Any


def tie_stripes(rows: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    """Each row with the class of its tie bar: neighbouring tie groups alternate, who is alone has none."""
    striped, current, parity = [], None, False
    for row in rows:
        if row["tied"] and row["tie_group"] != current:
            current, parity = row["tie_group"], not parity
        striped.append((row, ("odd" if parity else "even") if row["tied"] else ""))
    return striped
