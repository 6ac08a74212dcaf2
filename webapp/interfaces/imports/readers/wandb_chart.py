"""What W&B's charts give out as CSV: `Step`, then `RUN - METRIC` of each run, with its `__MIN` and `__MAX`."""

from collections.abc import Iterator, Sequence
from typing import Any

from webapp.interfaces.imports.readers.table import Table

SEPARATOR = " - "  # the last one: names of runs may have it
BOUNDS = ("__MIN", "__MAX")  # of what a pixel of the chart stands for
RUN = "run"


class ChartTable:
    """The same values as a table with a column of runs, one row for each run that has a value at a step."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.file, self.notes = table.file, table.notes
        self._x, *cells = table.columns
        own = {RUN, self._x, *(("_step",) if self._x == "Step" else ())}  # what the first column says, too
        self._places: dict[str, dict[str, int]] = {}
        for place, name in enumerate(cells, start=1):
            run, _, metric = name.rpartition(SEPARATOR)
            if not name.endswith(BOUNDS) and metric not in own:
                self._places.setdefault(run, {})[metric] = place
        self._metrics = tuple(dict.fromkeys(metric for own in self._places.values() for metric in own))
        self.columns = (RUN, self._x, *self._metrics)

    def rows(self, position: Any = None) -> Iterator[tuple[int, Any, Sequence[Any]]]:
        for line, place, cells in self._table.rows(position):
            for run, own in self._places.items():
                values = [cells[own[metric]] if metric in own else "" for metric in self._metrics]
                if any(values):
                    yield line, place, (run, cells[0], *values)


def is_chart(columns: Sequence[str]) -> bool:
    """Whether all columns but the first are of one run each, and come with their bounds."""
    others = set(columns[1:])
    plain = [name for name in others if not name.endswith(BOUNDS)]
    return bool(plain) and all(
        SEPARATOR in name and {f"{name}{bound}" for bound in BOUNDS} <= others for name in plain
    )
