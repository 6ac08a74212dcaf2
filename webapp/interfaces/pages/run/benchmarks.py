"""Checkpoints of a run by benchmarks, and the form that asks for one more."""

import json
from collections.abc import Mapping
from typing import Any

from training.benchmarks import BENCHMARKS
from training.tasks import task_names
from webapp.base.errors import InvalidInput
from webapp.base.formats import whole_in
from webapp.record.evaluations.models import Evaluation
from webapp.record.evaluations.selectors import Matrix, Score, matrix_of
from webapp.record.evaluations.services import EvaluationRequest, checkpoints_by_step
from webapp.record.runs.models import Run

MOST_ROWS = 50  # newest steps that the page shows
MOST_JOBS = 20
HELD_OUT = "held out"
ASKED = ("task", "step", "k", "limit", "options")  # fields of the form


def benchmarks_context(run: Run) -> dict[str, Any]:
    """The matrix, a line for each column, jobs that are no result yet, and the steps that could be measured."""
    matrix = matrix_of(run)
    jobs = run.evaluations.exclude(state=Evaluation.State.SUCCEEDED).order_by("-id")[:MOST_JOBS]
    return {
        "run": run,
        "names": matrix.names,
        "rows": [
            (row.step, row.held_out, [row.scores.get(name) for name in matrix.names])
            for row in matrix.rows[::-1][:MOST_ROWS]
        ],
        "more": max(0, len(matrix.rows) - MOST_ROWS),
        "lines": _lines(matrix),
        "whole": (0.0, 1.0),
        "jobs": list(jobs),
        "steps": list(checkpoints_by_step(run.pk))[::-1] if run.origin == Run.Origin.LAUNCHED else [],
        "known": [*BENCHMARKS, *task_names()],
    }


def _lines(matrix: Matrix) -> list[dict[str, Any]]:
    """The held-out pass rate at the steps of the matrix, and each benchmark, where there are two values to join."""
    columns: dict[str, dict[int, Score]] = {
        HELD_OUT: {row.step: row.held_out for row in matrix.rows if row.held_out is not None}
    }
    for name in matrix.names:
        columns[name] = {row.step: row.scores[name] for row in matrix.rows if name in row.scores}
    return [_line(name, by) for name, by in columns.items() if len(by) > 1]


def _line(name: str, by: Mapping[int, Score]) -> dict[str, Any]:
    values, (first, *_, last) = [score.value for score in by.values()], by
    label = f"{name} from {values[0]:.2f} at step {first:,} to {values[-1]:.2f} at step {last:,}"
    return {"name": name, "steps": list(by), "values": values, "label": label}


def asked_in(sent: Mapping[str, str]) -> EvaluationRequest:
    """What the form says. Raises InvalidInput."""
    numbers = {name: _number(name, sent.get(name, "")) for name in ("k", "limit", "step")}
    try:
        options = json.loads(sent.get("options", "").strip() or "{}")
    except (ValueError, RecursionError):
        options = None
    if not isinstance(options, dict):
        raise InvalidInput("options", 'options: JSON such as {"max_digits": 3}.')
    return EvaluationRequest(
        task=sent.get("task", "").strip(),
        options=options,
        k=1 if numbers["k"] is None else numbers["k"],
        limit=numbers["limit"] or 0,
        step=numbers["step"],
    )


def _number(name: str, text: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    if (number := whole_in(text, 11)) is None:
        raise InvalidInput(name, f"{name}: a whole number.")
    return number
