"""From a run's journal to its points in the corpus: what counts of it, evaluations whole, diagnostics thinned."""

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headroom import about
from training.study.corpus import AXES, point_table

MOST_DIAGNOSTICS = 60  # points of a metric that is no evaluation
_STDERR = "_stderr"


def points_of(journal: Path, run_id: str, began: str) -> pa.Table:
    """As `training.study.corpus` stores them. Raises OSError, ValueError."""
    records = list(_effective(journal))
    kept = _kept(records)
    start = datetime.fromisoformat(began)
    rows: list[tuple[Any, ...]] = []
    for place, record in enumerate(records):
        seconds = (datetime.fromisoformat(record["time"]) - start).total_seconds()
        spent = [record["compute"][axis] for axis in AXES]
        metrics = record["metrics"]
        for metric in sorted(metrics):
            if place in kept[metric]:
                value, stderr = metrics[metric], metrics.get(metric + _STDERR)
                rows.append((metric, record["step"], seconds, *spent, value, stderr))
    return point_table(run_id, rows)


def _effective(journal: Path) -> Iterator[dict[str, Any]]:
    """Records without those that a later attempt has superseded: past the checkpoint that it went on from."""
    starts = about.load(journal).starts
    resumed = {int(number): start.get("resumed_from_step") for number, start in starts.items()}
    with journal.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return  # the half of a record that nobody was told of
            record = json.loads(line)
            later = [
                -1 if step is None else step for number, step in resumed.items() if number > record["attempt"]
            ]
            if record["step"] <= min(later, default=record["step"]):
                yield record


def _kept(records: list[dict[str, Any]]) -> dict[str, set[int]]:
    """Metric -> the records whose value of it is kept."""
    found: dict[str, list[int]] = defaultdict(list)
    for place, record in enumerate(records):
        metrics = record["metrics"]
        for metric, value in metrics.items():
            is_stderr = metric.endswith(_STDERR) and metric.removesuffix(_STDERR) in metrics
            if value is not None and not is_stderr:
                found[metric].append(place)
    return defaultdict(
        set, {m: set(places if m.startswith("eval/") else _thinned(places)) for m, places in found.items()}
    )


def _thinned(places: list[int]) -> list[int]:
    """Evenly picked, the first and the last among them."""
    if len(places) <= MOST_DIAGNOSTICS:
        return places
    picked = np.linspace(0, len(places) - 1, MOST_DIAGNOSTICS).round().astype(int)
    return [places[index] for index in picked]
