"""Checkpoints by benchmarks: what a run measured while it trained, and what was asked for since."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webapp.base.compiled import rows_of
from webapp.identity.accounts.models import Project
from webapp.record.evaluations.models import OPEN, Evaluation, label_of
from webapp.record.runs.models import Run
from webapp.record.runs.points import PASS_RATE

PREFIX = "downstream/"
SUFFIXES = ("_contamination", "_truncation_rate")  # of what is said beside a benchmark's score
_RECORDED = """
SELECT metric, step, value, stderr FROM runs_effective_point
WHERE run_id = %s AND metric LIKE 'downstream/%%' ORDER BY attempt, seq
"""
_HELD_OUT = """
SELECT step, value, stderr FROM runs_effective_point
WHERE run_id = %s AND metric = %s AND step = ANY(%s) ORDER BY attempt, seq
"""


@dataclass(frozen=True)
class Score:
    """A benchmark of a checkpoint. stderr: over prompts. contamination: share of its prompts that training prompts
    overlap with. None: not known."""

    value: float
    stderr: float | None = None
    contamination: float | None = None

    @property
    def seen(self) -> str:
        """The contamination in words."""
        return f"{100 * (self.contamination or 0):.1f} %"


@dataclass(frozen=True)
class Row:
    """A step, its held-out pass rate where it was evaluated then, and benchmark -> score."""

    step: int
    held_out: Score | None
    scores: Mapping[str, Score]


@dataclass(frozen=True)
class Matrix:
    """Rows by step; `names` in the order of first appearance."""

    names: list[str]
    rows: list[Row]


def open_of(project: Project, most: int) -> list[Evaluation]:
    """Benchmarks that are at work, and after them those that wait, oldest first. One query."""
    rows = Evaluation.objects.filter(OPEN, run__project=project).select_related("run")
    return list(rows.order_by("-state", "id")[:most])  # stopping, running, queued


def matrix_of(run: Run) -> Matrix:
    """Three queries."""
    found = _recorded(run)
    for one in run.evaluations.filter(state=Evaluation.State.SUCCEEDED):
        found.setdefault(one.label, {})[one.step] = _score(one.result or {})
    steps = sorted({step for by_step in found.values() for step in by_step})
    rated = rows_of(_HELD_OUT, [run.pk, PASS_RATE, steps])
    held_out = {step: Score(value, stderr) for step, value, stderr in rated}
    rows = [
        Row(step, held_out.get(step), {name: by[step] for name, by in found.items() if step in by})
        for step in steps
    ]
    return Matrix(list(found), rows)


def _recorded(run: Run) -> dict[str, dict[int, Score]]:
    labels = _labels(run)
    rows = rows_of(_RECORDED, [run.pk])
    points = {(metric.removeprefix(PREFIX), step): tuple(point) for metric, step, *point in rows}
    found: dict[str, dict[int, Score]] = {}
    for (name, step), (value, stderr) in points.items():
        if not name.endswith(SUFFIXES):
            contamination, *_ = points.get((f"{name}_contamination", step), (None,))
            found.setdefault(labels.get(name, name), {})[step] = Score(value, stderr, contamination)
    return found


def _labels(run: Run) -> dict[str, str]:
    """Benchmark of the recipe -> its column: with its options and k, as of one that was asked for."""
    if run.origin != Run.Origin.LAUNCHED:
        return {}
    asked = run.config.get("eval", {}).get("downstream", [])
    return {one["task"]: label_of(one["task"], one.get("options", {}), one.get("k", 1)) for one in asked}


def _score(result: Mapping[str, Any]) -> Score:
    return Score(result["pass_rate"], result.get("pass_rate_stderr"), result.get("contamination"))
