"""One law over an axis (`scaling.axis`): each value left out in turn, and its curve forecast from the others.

    .venv/bin/python -m benchmarks.validate_axis [--corpus FILE] [--column COL] [--axis AXIS]

By default the sizes of Qwen2.5. Held against the forecast are the run's evaluations and the mean of its last eighth;
beside it stands what the run with the nearest value did in its own last eighth. Writes Markdown.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from scaling.axis import fit_axis
from scaling.calibration import AXES, OWN, Curve, read_along
from scaling.cli.options import markdown
from scaling.curve import Array
from scaling.table import TableError

HEADER = (
    "left out",
    "came",
    "forecast",
    "90 % interval",
    "nearest value's run",
    "rmse of the curve",
    "in 90 %",
)


def row(curves: Sequence[Curve], values: Array, out: int) -> list[str]:
    """The line of one run, forecast from the runs of other values."""
    others = [k for k in range(len(curves)) if values[k] != values[out]]
    law = fit_axis(values[others], [(curves[k].compute, curves[k].reward) for k in others])
    mine = curves[out]
    at, came = mine.end
    late, whole = law.forecast(values[out], [at]), law.forecast(values[out], mine.compute)
    nearest = min(others, key=lambda k: abs(np.log(values[k] / values[out])))
    inside = (whole.lo <= mine.reward) & (mine.reward <= whole.hi)
    return [
        mine.run,
        f"{came:.3f}",
        f"{late.value[0]:.3f}",
        f"{late.lo[0]:.3f} to {late.hi[0]:.3f}",
        f"{curves[nearest].end[1]:.3f}",
        f"{np.sqrt(((whole.value - mine.reward) ** 2).mean()):.3f}",
        f"{100 * inside.mean():.0f} %",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="validate_axis", description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, default=OWN / "qwen25.parquet", metavar="FILE")
    parser.add_argument("--column", default="parameters", metavar="COL")
    parser.add_argument(
        "--axis", choices=AXES, default="flops", help="compute of Parquet files, which have several"
    )
    options = parser.parse_args(arguments)
    try:
        curves, values = read_along(options.corpus, options.column, options.axis)
    except TableError as error:
        print(f"validate_axis: {error}", file=sys.stderr)
        return 2
    note = "In pass rate. In 90 %: share of the run's evaluations inside the interval of the curve (of their mean)."
    rows = [row(curves, np.array(values), k) for k in range(len(curves))]
    print(markdown(f"Each of {len(curves)} runs left out", note, HEADER, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
