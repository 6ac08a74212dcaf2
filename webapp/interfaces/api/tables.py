"""Rows of CSV downloads."""

from collections.abc import Iterable, Sequence
from typing import Any

from webapp.record.runs.points import CurvePoint

CURVE_COLUMNS = ("compute", "value", "stderr", "step", "attempt", "device_hours", "flops", "tokens", "reward")
LEADERBOARD_COLUMNS = (
    "task", "model", "unit", "rank", "tied", "recipe", "recipe_slug", "revision", "published", "identified",
    "A", "lo", "hi", "B", "B_lo", "B_hi", "c90", "c90_lo", "c90_hi", "at_budget", "at_budget_lo", "at_budget_hi",
    "seeds", "identified_seeds", "evidence", "runs", "source",
)  # fmt: skip


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
