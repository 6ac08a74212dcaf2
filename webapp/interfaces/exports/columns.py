"""Columns that tables of exports have beside the metrics. What reads them again imports this, too: no Django here."""

RECORD = ("attempt", "seq", "step", "time", "device_hours", "flops", "tokens")
VALUE = ("metric", "value", "stderr")
# What the run is: one object, in the first line of JSONL as it is, in the first row of a table as JSON.
ABOUT = "about"
OF_ABOUT = ("name", "task", "model", "seed", "state", "config", "meaning", "superseded_after")
OWN = frozenset({"run", "compute", "metrics", "reward", *RECORD, *VALUE, ABOUT})
APART = "metric."


def column_of(metric: str) -> str:
    """Of a wide table: the metric's name, with "metric." before one that is called like a column of ours."""
    return f"{APART}{metric}" if _bare(metric) in OWN else metric


def metric_of(column: str) -> str:
    """The inverse of `column_of`."""
    return column.removeprefix(APART) if _bare(column) in OWN else column


def _bare(name: str) -> str:
    while name.startswith(APART):
        name = name.removeprefix(APART)
    return name
