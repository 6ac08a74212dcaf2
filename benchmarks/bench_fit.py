"""Our fit against the paper's grid (arXiv 2510.13786, A.5), side by side in one run.

    .venv/bin/python -m benchmarks.bench_fit [--curves N] [--points N]

Prints the time of one fit with all intervals and a 100-point band, the time of the published procedure (7,100 calls
of SciPy's curve_fit, no intervals) on the same points, their ratio, and both sums of squares. Ends with status 1
if ours is ever the larger.
"""

import argparse
import statistics
import sys
import time

import numpy as np

import scaling
from scaling.paper import fit_grid, published_fits
from scaling.simulate import rewards

R0 = 0.1
FAST_REPEATS = 20


def main() -> int:
    args = _arguments()
    fast, grid, worse = [], [], 0
    print(f"{'curve':<26} {'ours ms':>8} {'grid s':>8} {'ratio':>7} {'SSE ours':>10} {'SSE grid':>10}")
    for k in range(args.curves):
        row = published_fits()[k % len(published_fits())]
        compute, reward = _points(row, args.points, seed=k)
        ours, our_seconds = _ours(compute, reward)
        start = time.perf_counter()
        theirs = fit_grid(compute, reward, r0=R0)
        grid_seconds = time.perf_counter() - start
        assert theirs is not None and ours.sse is not None
        worse += ours.sse > theirs.sse
        fast.append(our_seconds)
        grid.append(grid_seconds)
        print(
            f"{row.name:<26} {1e3 * our_seconds:8.1f} {grid_seconds:8.2f} {grid_seconds / our_seconds:7.0f}"
            f" {ours.sse:10.6f} {theirs.sse:10.6f}"
        )
    ratio = statistics.median(grid) / statistics.median(fast)
    print(f"median: ours {1e3 * statistics.median(fast):.1f} ms with intervals and band, grid", end=" ")
    print(
        f"{statistics.median(grid):.2f} s without: {ratio:.0f} times faster; larger SSE in {worse} of {args.curves}"
    )
    return 1 if worse else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--curves", type=int, default=4)
    parser.add_argument("--points", type=int, default=60)
    return parser.parse_args()


def _points(row, n: int, seed: int):
    compute = np.linspace(4 * row.c_mid / n, 4 * row.c_mid, n)
    rng = np.random.default_rng(seed)
    return compute, rewards(compute, r0=R0, a=row.a, b=row.b, c_mid=row.c_mid, sd=0.01, rng=rng)


def _ours(compute, reward):
    """The fit with the same R0 held, and the median seconds of a fit with R0 free, every interval and a band."""
    band = np.geomspace(compute[0], 4 * compute[-1], 100)
    seconds = []
    for _ in range(FAST_REPEATS):
        start = time.perf_counter()
        fit = scaling.fit(compute, reward)
        _ = fit.intervals, fit.predict_interval(band)
        seconds.append(time.perf_counter() - start)
    return scaling.fit(compute, reward, r0=R0), statistics.median(seconds)


if __name__ == "__main__":
    sys.exit(main())
