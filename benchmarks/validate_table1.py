"""Table 1's curves simulated and fitted by our method and by the paper's grid, side by side.

    .venv/bin/python -m benchmarks.validate_table1 [--curves N] [--seed S] [--jobs N]

Writes Markdown. N is the number of simulated runs of each of the ten rows (default 1; the paper's grid takes seconds a
run). Both methods see the same points: evaluations up to 4 C_mid and one before the first update, which is how the
paper's method knows R0. The first run of each row is shown; the errors are over all runs.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

import scaling
from benchmarks.table1 import published_fits
from benchmarks.validation import NOISES, POINTS, R0, Trial, arguments, evaluate, run_all
from scaling.cli.options import markdown
from scaling.models import Fit

TIMES = 4.0
NOISE = "ar1"
PARAMETERS = ("A", "B", "C_mid")


@dataclass(frozen=True)
class Pair:
    """Both fits of one run, reduced to what is printed: parameters by name, intervals of ours, sums of squares."""

    trial: Trial
    ours: dict[str, float]
    intervals: dict[str, tuple[float | None, float | None]]
    paper: dict[str, float] | None
    status: tuple[str, str]
    sse: tuple[float, float | None]


def both(trial: Trial) -> Pair:
    """Fit one run by both methods."""
    compute, reward = trial.points()
    before = evaluate(np.array([R0]), trial.noise, np.random.default_rng((*trial.seed, 1))).tolist()
    ours = scaling.fit(compute, reward, r0_observed=before)
    paper = scaling.fit(compute, reward, r0_observed=before, method="paper")
    assert ours.params is not None and ours.sse is not None
    return Pair(
        trial, ours.params, _intervals(ours), paper.params, (ours.status, paper.status), (ours.sse, paper.sse)
    )


def _intervals(fit: Fit) -> dict[str, tuple[float | None, float | None]]:
    return {name: fit.interval(name) for name in PARAMETERS}


def truth(trial: Trial, name: str) -> float:
    row = trial.published
    return {"A": row.a, "B": row.b, "C_mid": row.c_mid}[name]


def rows_table(pairs: Sequence[Pair]) -> str:
    header = ["run"]
    for name in PARAMETERS:
        header += [f"{name} true", "ours (90 %)", "paper's"]
    header += ["SSE ours", "SSE paper's"]
    rows = [_row(pair) for pair in pairs[: len(published_fits())]]
    note = (
        f"{POINTS} evaluations up to {TIMES:g} C_mid and one at the start; noise: {NOISES[NOISE]}. The paper's method "
        + "has no intervals; its sum of squares is with R0 held at the evaluation before the start."
    )
    return markdown("Table 1, one run a row", note, header, rows)


def _row(pair: Pair) -> list[str]:
    cells = [pair.trial.published.name]
    for name in PARAMETERS:
        paper = "failed" if pair.paper is None else _number(name, pair.paper[name])
        lo, hi = (None if end is None else _number(name, end) for end in pair.intervals[name])
        known = name != "A" or pair.status[0] == "ok"
        value = _number(name, pair.ours[name]) if known else "not identified"
        cells += [
            _number(name, truth(pair.trial, name)),
            f"{value} ({lo or 'open'} to {hi or 'open'})",
            paper,
        ]
    return [*cells, f"{pair.sse[0]:.5f}", "-" if pair.sse[1] is None else f"{pair.sse[1]:.5f}"]


def _number(name: str, value: float) -> str:
    return f"{value:.0f}" if name == "C_mid" else f"{value:.2f}" if name == "B" else f"{value:.3f}"


def errors_table(pairs: Sequence[Pair]) -> str:
    rows = [_errors(pairs, name) for name in PARAMETERS]
    failed = sum(pair.paper is None for pair in pairs)
    edges = sum(pair.paper is not None and pair.status[1] != "ok" for pair in pairs)
    note = (
        f"Root mean square errors over {len(pairs) - failed} runs that both methods fit, with their standard errors; "
        + f"B and C_mid relative. Of {len(pairs)} runs the grid failed for {failed}, and {edges} of its answers have "
        + "the status not identified (a grid edge, or our verdict on the same points)."
    )
    header = ("parameter", "ours", "paper's", "ours covered by its 90 % interval")
    return markdown("Errors", note, header, rows)


def _errors(pairs: Sequence[Pair], name: str) -> tuple[str, str, str, str]:
    found = [(pair, pair.paper) for pair in pairs if pair.paper is not None]
    scale = [1.0 if name == "A" else truth(pair.trial, name) for pair, _ in found]
    ours = [
        (pair.ours[name] - truth(pair.trial, name)) / s for (pair, _), s in zip(found, scale, strict=True)
    ]
    theirs = [(p[name] - truth(pair.trial, name)) / s for (pair, p), s in zip(found, scale, strict=True)]
    inside = sum(_covers(pair.intervals[name], truth(pair.trial, name)) for pair in pairs)
    return name, _rmse(ours), _rmse(theirs), f"{inside} of {len(pairs)}"


def _rmse(errors: Sequence[float]) -> str:
    """Root mean square with its standard error (delta method)."""
    if len(errors) < 2:
        return "-"
    squares = np.square(errors)
    root = math.sqrt(float(squares.mean()))
    return f"{root:.4f} ± {float(squares.std(ddof=1)) / math.sqrt(len(errors)) / (2 * root):.4f}"


def _covers(interval: tuple[float | None, float | None], value: float) -> bool:
    lo, hi = interval
    return (lo is None or lo <= value) and (hi is None or value <= hi)


def main() -> int:
    args = arguments(__doc__ or "", curves=1).parse_args()
    rows = len(published_fits())
    trials = [Trial(k % rows, NOISE, TIMES, (args.seed, 7, k)) for k in range(rows * args.curves)]
    print(f"{datetime.now(UTC):%Y-%m-%d}, {args.curves} runs of each row, seed {args.seed}.\n")
    pairs = run_all(both, trials, args.jobs)
    print(rows_table(pairs))
    print(errors_table(pairs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
