"""Lists by cursor: {"items": [...], "next": cursor or null}. A page costs the same wherever it starts.

Rows of CSV downloads.
"""

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.core.exceptions import ValidationError as FieldError
from django.db.models import Model, Q, QuerySet

from webapp.base.errors import InvalidInput
from webapp.record.runs.points import CurvePoint

DEFAULT_LIMIT = 50
MAX_LIMIT = 500
CURVE_COLUMNS = ("compute", "value", "stderr", "step", "attempt", "device_hours", "flops", "tokens", "reward")
LEADERBOARD_COLUMNS = (
    "task", "model", "unit", "rank", "tied", "recipe", "recipe_slug", "revision", "published", "identified",
    "A", "lo", "hi", "B", "B_lo", "B_hi", "c90", "c90_lo", "c90_hi", "at_budget", "at_budget_lo", "at_budget_hi",
    "seeds", "identified_seeds", "evidence", "runs", "source",
)  # fmt: skip


def page(
    rows: QuerySet[Any],
    *,
    order: Sequence[str],
    cursor: str | None,
    limit: int,
    payload: Callable[[Any], Any],
) -> dict[str, Any]:
    """One page of a query. `order` are columns ("-created_at", "id") that together tell any two rows apart.

    Raises InvalidInput (field cursor) for a cursor that no page gave out.
    """
    found = list(rows_after(rows, order=order, cursor=cursor, limit=limit + 1))
    more = len(found) > limit
    return {
        "items": [payload(row) for row in found[:limit]],
        "next": _encode(found[limit - 1], order) if more else None,
    }


def rows_after(
    rows: QuerySet[Any], *, order: Sequence[str], cursor: str | None, limit: int | None
) -> QuerySet[Any]:
    """The rows behind a cursor, in this order; `limit` of them, or all. Raises InvalidInput (cursor)."""
    rows = rows.order_by(*order)
    if cursor:
        try:
            rows = rows.filter(_after(order, _decode(cursor, len(order))))
        except (ValueError, TypeError, FieldError, OverflowError) as error:
            raise InvalidInput("cursor", "cursor is not one that a page gave out.") from error
    return rows[:limit]


def page_since(
    rows: QuerySet[Any],
    *,
    order: Sequence[str],
    cursor: str | None,
    since: str | None,
    limit: int,
    payload: Callable[[Any], Any],
) -> dict[str, Any]:
    """A page of rows that only grow at their end. `since`: the cursor of the last row that was given, or of before.

    Raises InvalidInput (cursor, since) for one that no answer gave out, and (since) for both at once.
    """
    if cursor and since:
        raise InvalidInput("since", "since: give either cursor or since; both are a place in the same order.")
    last: list[Any] = []

    def seen(row: Any) -> Any:
        last[:] = [row]
        return payload(row)

    try:
        found = page(rows, order=order, cursor=cursor or since, limit=limit, payload=seen)
    except InvalidInput as error:
        if since:
            raise InvalidInput("since", "since is not one that an answer gave out.") from error
        raise
    return found | {"since": _encode(last[0], order) if last else cursor or since or None}


def _after(order: Sequence[str], values: Sequence[Any]) -> Q:
    """Rows behind the one with these values, in this order of columns."""
    behind, equal = Q(), Q()
    for column, value in zip(order, values, strict=True):
        name = column.lstrip("-")
        behind |= equal & Q(**{f"{name}__{'lt' if column.startswith('-') else 'gt'}": value})
        equal &= Q(**{name: value})
    return behind


def _encode(row: Model, order: Sequence[str]) -> str:
    values = [getattr(row, column.lstrip("-")) for column in order]
    text = json.dumps(values, default=lambda value: value.isoformat())
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(cursor: str, length: int) -> list[Any]:
    padded = cursor.encode() + b"=" * (-len(cursor) % 4)
    values = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    plain = isinstance(values, list) and all(isinstance(v, str | int) and v is not True for v in values)
    if not plain or len(values) != length or any(isinstance(v, str) and "\0" in v for v in values):
        raise ValueError("not a cursor")
    if any(isinstance(v, int) and abs(v) >= 2**63 for v in values):
        raise ValueError("not a cursor")
    return values


def curve_row(point: CurvePoint, x: str) -> tuple:
    """In the order of CURVE_COLUMNS. `reward` is the value once more: `python -m scaling fit` reads it by that name."""
    return (
        getattr(point, x), point.value, point.stderr, point.step, point.attempt, point.device_hours, point.flops,
        point.tokens, point.value,
    )  # fmt: skip


def leaderboard_rows(
    groups: Iterable[dict[str, Any]], columns: Sequence[str] = LEADERBOARD_COLUMNS
) -> Iterable[list[Any]]:
    """Rows of all groups in the order of the columns; no A where the data do not identify it."""
    for group in groups:
        for row in group["rows"]:
            flat = {key: group[key] for key in ("task", "model", "unit")} | row
            flat |= {"identified": row["ceiling"]["identified"], "runs": " ".join(row["runs"] or [])}
            yield [flat.get(column) for column in columns]
