"""The decision log as rows of a table, for CSV: a row for each run that a decision is of."""

from collections.abc import Iterable, Iterator
from typing import Any

from webapp.base.spreadsheets import harmless
from webapp.base.times import utc
from webapp.science.decisions.selectors import Entry

COLUMNS = (
    "decision", "decided_at", "decided_by", "kind", "run", "run_name", "recipe", "task", "model", "to", "reason",
    "prediction", "pass_rate", "used_hours", "budget_hours", "ceiling", "ceiling_lo", "ceiling_hi",
    "forecast", "forecast_lo", "forecast_hi", "revises", "revised_by", "came_of_it",
)  # fmt: skip


def rows_of(entries: Iterable[Entry]) -> Iterator[list[Any]]:
    """Cells in the order of COLUMNS; a missing value is None."""
    for entry in entries:
        for subject in entry.of:
            yield [harmless(cell) for cell in _row(entry, subject)]


def _row(entry: Entry, subject: Any) -> list[Any]:
    decision, state = entry.decision, subject.state
    ceiling, forecast = state["ceiling"], state["forecast"] or {}
    return [
        decision.pk, utc(decision.decided_at), decision.decided_by.username, decision.kind, subject.run_key,
        subject.name, subject.recipe, subject.task, subject.model, target_of(entry), decision.reason,
        decision.prediction_id, state["pass_rate"], state["used_hours"], state["budget_hours"], ceiling["value"],
        ceiling["lo"], ceiling["hi"], forecast.get("value"), forecast.get("lo"), forecast.get("hi"),
        decision.revises_id, revised_by(decision), " ".join(one.sentence for one in entry.came),
    ]  # fmt: skip


def target_of(entry: Entry) -> str:
    """What a switch goes to, in words; "" for other kinds."""
    if entry.to is not None:
        return entry.to.name
    return str(entry.decision.to_revision) if entry.decision.to_revision else ""


def revised_by(decision: Any) -> str | None:
    """The decision that revises this one."""
    later = getattr(decision, "revised_by", None)
    return later.pk if later else None
