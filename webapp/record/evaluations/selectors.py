"""Checkpoints by benchmarks: what a run measured while it trained, and what was asked for since."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from webapp.identity.accounts.models import Project
from webapp.record.evaluations.models import OPEN, Evaluation, label_of
from webapp.record.runs.models import Run
from webapp.record.runs.points import PASS_RATE

PREFIX = "downstream/"
SUFFIXES = ("contamination", "truncation_rate")
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
    truncation_rate: float | None = None

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
    rows: list[Row] = field(default_factory=list)


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
    held_out = _held_out(run, steps)
    rows = [
        Row(step, held_out.get(step), {name: by[step] for name, by in found.items() if step in by})
        for step in steps
    ]
    return Matrix(list(found), rows)


def _recorded(run: Run) -> dict[str, dict[int, Score]]:
    with connection.cursor() as cursor:
        cursor.execute(_RECORDED, [run.pk])
        rows = cursor.fetchall()
    labels = _labels(run)
    points = {(metric.removeprefix(PREFIX), step): tuple(point) for metric, step, *point in rows}
    found: dict[str, dict[int, Score]] = {}
    for (name, step), (value, stderr) in points.items():
        if not name.endswith(tuple(f"_{suffix}" for suffix in SUFFIXES)):
            said = {suffix: points.get((f"{name}_{suffix}", step), (None,))[0] for suffix in SUFFIXES}
            found.setdefault(labels.get(name, name), {})[step] = Score(value, stderr, **said)
    return found


def _labels(run: Run) -> dict[str, str]:
    """Benchmark of the recipe -> its column: with its options and k, as of one that was asked for."""
    if run.origin != Run.Origin.LAUNCHED:
        return {}
    asked = run.config.get("eval", {}).get("downstream", [])
    return {one["task"]: label_of(one["task"], one.get("options", {}), one.get("k", 1)) for one in asked}


def _held_out(run: Run, steps: list[int]) -> dict[int, Score]:
    with connection.cursor() as cursor:
        cursor.execute(_HELD_OUT, [run.pk, PASS_RATE, steps])
        return {step: Score(value, stderr) for step, value, stderr in cursor.fetchall()}


def _score(result: Mapping[str, Any]) -> Score:
    return Score(
        result["pass_rate"],
        result.get("pass_rate_stderr"),
        result.get("contamination"),
        result.get("truncation_rate"),
    )
