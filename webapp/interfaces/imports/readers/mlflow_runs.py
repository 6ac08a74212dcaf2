"""What MLflow's file store and its server have in common: a run's description, and rows out of metric histories."""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from headroom.adapters import naming
from webapp.interfaces.imports.readers.building import (
    Builder,
    Dialect,
    Rename,
    devices_of_config,
    finite,
    only_pass_rates,
)
from webapp.interfaces.imports.readers.found import (
    grouped,
    model_of,
    plain_value,
    seed_of,
)
from webapp.interfaces.imports.readers.rows import FoundRun, Options, Row
from webapp.interfaces.tracking.translate import TRANSFORMERS, said_by

STATES = {"FINISHED": "succeeded", "FAILED": "failed", "KILLED": "cancelled"}
MAX_METRICS = 10_000
MAX_GROUP = 1000  # metrics of one row


class Point(NamedTuple):
    """One value of one metric. milliseconds: since 1970."""

    milliseconds: int
    step: int
    name: str
    value: float


@dataclass(frozen=True)
class MlflowRun:
    """A run as MLflow keeps it. histories: the points of each metric, in the order they were logged.

    status: MLflow's word, or empty.
    """

    place: str
    run_id: str
    name: str
    experiment: str
    status: str
    params: Mapping[str, str]
    metric_names: Sequence[str]
    histories: Callable[[], Sequence[Iterator[Point]]]
    notes: list[str] = field(default_factory=list)

    def found(self, options: Options) -> FoundRun:
        config = {name: plain_value(value) for name, value in self.params.items()}
        return FoundRun(
            key=self.run_id,
            name=self.name or options.name or self.run_id,
            rows=lambda: self._rows(options, config),
            config=config,
            task=self.experiment,
            model=model_of(config),
            seed=seed_of(config),
            state=STATES.get(self.status),
            notes=self.notes,
        )

    @property
    def _rename(self) -> Rename:
        """transformers says by its params that names without a group are its own."""
        is_transformers = said_by(self.params, {}).trainer == TRANSFORMERS
        return naming.name_of_transformers if is_transformers else naming.of_tracker

    def _rows(self, options: Options, config: Mapping[str, Any]) -> Iterator[Row]:
        """One for all that was logged at a moment, in the order of time; line: the how many-th."""
        builder = Builder(
            self.place,
            options,
            self.notes,
            Dialect(
                rename=self._rename,
                devices=devices_of_config(config),
                pass_rates=only_pass_rates(self.metric_names),
            ),
        )
        points = heapq.merge(*self.histories(), key=lambda point: point[:3])
        for line, group in enumerate(grouped(points, _belong), start=1):
            first = group[0]
            values = {point.name: finite(point.value) for point in group}
            yield builder.of_tracker(line, first.step, _time(first.milliseconds), values)


def _belong(group: Sequence[Point], point: Point) -> bool:
    """MLflow's clients write what is logged together with one time."""
    first = group[0]
    if point[:2] != first[:2] or len(group) == MAX_GROUP:
        return False
    return point.name != group[-1].name  # those of one moment are in the order of their names


def _time(milliseconds: int) -> datetime | None:
    if not 1e11 <= milliseconds < 1e14:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
