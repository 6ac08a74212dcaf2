"""Small charts of long series, whatever their steps count."""

import pytest

from webapp.record.runs import ingest
from webapp.record.runs.sampling import MAX_POINTS, thinned_series


@pytest.mark.parametrize(
    "step_of",
    [lambda i: i, lambda i: 50 * i + 1, lambda i: 30_000_019 * i, lambda i: 2 * i - 301],
    ids=["updates", "far apart", "tokens", "from below 0"],
)
def test_a_long_series_is_thinned_and_not_emptied(tracked, make_record, step_of):
    steps = [step_of(i) for i in range(300)]
    records = [
        make_record(i, {"train/loss": float(i)}).model_copy(update={"step": step})
        for i, step in enumerate(steps)
    ]
    ingest.store_records(tracked, records)

    line = thinned_series(tracked, ["train/loss"])[0]["train/loss"]

    assert MAX_POINTS // 8 <= len(line.steps) <= MAX_POINTS + 1
    assert line.steps == sorted(line.steps) and line.steps[-1] == steps[-1]
    assert line.values == [float(steps.index(step)) for step in line.steps]
