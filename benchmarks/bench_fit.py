"""Our fit against the paper's grid (arXiv 2510.13786, A.5), side by side in one run.

    .venv/bin/python -m benchmarks.bench_fit [--curves N] [--points N] [--many N]

For random curves: the time of the parameters alone (`fit_many` of one curve), of `fit` with its status, and of `fit`
with all intervals and a 100-point band; the time of the published procedure (7,100 calls of SciPy's curve_fit,
parameters only) on the same points; their ratios, and both sums of squares with R0 held alike. Then `--many` curves
in one call. Ends with status 1 if our sum of squares is ever the larger.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

import scaling
from scaling.paper import fit_grid
from scaling.simulate import rewards

R0 = 0.1
REPEATS = 20


def main() -> int:
    args = _arguments()
    rng = np.random.default_rng(args.seed)
    seconds: dict[str, list[float]] = {"parameters": [], "fit": [], "intervals": [], "grid": []}
    worse = 0
    print(
        f"{'curve':>5} {'parameters ms':>14} {'fit ms':>8} {'with intervals ms':>18} {'grid s':>7}   SSE ours / grid"
    )
    for k in range(args.curves):
        compute, reward = random_curve(rng, args.points)
        theirs, grid_seconds = _timed(lambda c=compute, r=reward: fit_grid(c, r, r0=R0), 1)
        ours = scaling.fit(compute, reward, r0=R0)
        assert theirs is not None and ours.sse is not None
        worse += ours.sse > theirs.sse * (1.0 + 1e-12)
        row = {**_our_seconds(compute, reward), "grid": grid_seconds}
        for name, value in row.items():
            seconds[name].append(value)
        print(
            f"{k:>5} {1e3 * row['parameters']:14.2f} {1e3 * row['fit']:8.2f} {1e3 * row['intervals']:18.2f}"
            f" {grid_seconds:7.2f}   {ours.sse / theirs.sse:.4f}"
        )
    median = {name: statistics.median(values) for name, values in seconds.items()}
    for name, text in (
        ("parameters", "parameters"),
        ("fit", "fit with status"),
        ("intervals", "with intervals and band"),
    ):
        print(
            f"{text:<24} {1e3 * median[name]:7.2f} ms, {median['grid'] / median[name]:6.0f} times faster than the grid"
        )
    print(f"larger sum of squares than the grid in {worse} of {args.curves}")
    _many(args, rng, median["grid"])
    return 1 if worse else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--curves", type=int, default=4)
    parser.add_argument("--points", type=int, default=60)
    parser.add_argument("--many", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def random_curve(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Parameters inside the paper's grid, observed up to 1.5 to 8 times C_mid, noise 0.01."""
    c_mid = float(np.exp(rng.uniform(np.log(500), np.log(15_000))))
    compute = np.linspace(1 / n, 1, n) * c_mid * rng.uniform(1.5, 8.0)
    shape: dict = {"r0": R0, "a": rng.uniform(0.47, 0.78), "b": rng.uniform(1.0, 2.5), "c_mid": c_mid}
    return compute, rewards(compute, **shape, sd=0.01, rng=rng)


def _our_seconds(compute: np.ndarray, reward: np.ndarray) -> dict[str, float]:
    band = np.geomspace(compute[0], 4 * compute[-1], 100)

    def everything() -> None:
        fit = scaling.fit(compute, reward)
        _ = fit.intervals, fit.predict_interval(band)

    return {
        "parameters": _timed(lambda: scaling.fit_many([(compute, reward)]), REPEATS)[1],
        "fit": _timed(lambda: scaling.fit(compute, reward), REPEATS)[1],
        "intervals": _timed(everything, REPEATS)[1],
    }


def _timed(work: Callable, repeats: int):
    """(what it gave, median seconds)."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
    return result, statistics.median(seconds)


def _many(args: argparse.Namespace, rng: np.random.Generator, grid_seconds: float) -> None:
    curves = [random_curve(rng, args.points) for _ in range(args.many)]
    _, seconds = _timed(lambda: scaling.fit_many(curves), 1)
    each = seconds / max(args.many, 1)
    print(f"{args.many} curves in one call: {seconds:.1f} s, {1e3 * each:.2f} ms each,", end=" ")
    print(f"{grid_seconds / each:.0f} times faster than the grid for each")


if __name__ == "__main__":
    sys.exit(main())
