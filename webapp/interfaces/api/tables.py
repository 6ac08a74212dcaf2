"""CSV downloads."""

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.http import HttpResponse

from webapp.base.spreadsheets import harmless
from webapp.base.times import utc
from webapp.record.runs.points import CurvePoint

CURVE_COLUMNS = ("compute", "value", "stderr", "step", "attempt", "device_hours", "flops", "tokens", "reward")
LEADERBOARD_COLUMNS = (
    "task", "model", "unit", "rank", "tied", "recipe", "recipe_slug", "revision", "published", "identified",
    "A", "lo", "hi", "B", "B_lo", "B_hi", "c90", "c90_lo", "c90_hi", "at_budget", "at_budget_lo", "at_budget_hi",
    "seeds", "identified_seeds", "evidence", "runs", "source",
)  # fmt: skip


def table(name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> HttpResponse:
    """A CSV file; a missing value is an empty cell, and no text becomes a formula in a spreadsheet."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_text(cell) for cell in row] for row in rows)
    response = HttpResponse(text.getvalue(), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return response


def _text(cell: Any) -> Any:
    return utc(cell) if isinstance(cell, datetime) else harmless(cell)


def curve_row(point: CurvePoint, x: str) -> tuple:
    """In the order of CURVE_COLUMNS. `reward` is the value once more: `python -m scaling fit` reads it by that name."""
    return (
        getattr(point, x), point.value, point.stderr, point.step, point.attempt, point.device_hours, point.flops,
        point.tokens, point.value,
    )  # fmt: skip


def leaderboard_rows(groups: Iterable[dict[str, Any]]) -> Iterable[list[Any]]:
    """Rows of all groups in the order of LEADERBOARD_COLUMNS; no A where the data do not identify it."""
    for group in groups:
        for row in group["rows"]:
            flat = {key: group[key] for key in ("task", "model", "unit")} | row
            flat |= {"identified": row["ceiling"]["identified"], "runs": " ".join(row["runs"] or [])}
            yield [flat.get(column) for column in LEADERBOARD_COLUMNS]
