"""What an averaged forecast costs: one with a band of 100 points, and those of many runs over several processes.

    OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.bench_forecast [--points N] [--many N] [--jobs N]

Seconds of CPU and of the clock, of random curves as in `bench_fit`. Ends with status 1 if two forecasts of the same
evaluations differ.
"""

import argparse
import multiprocessing
import sys
import time

import numpy as np

from benchmarks.bench_fit import random_curve
from benchmarks.timing import percentiles
from scaling.extrapolate import extrapolate

BAND = 100
REPEATS = 30


def band(curve: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """[3, BAND]: lower end, median and upper end, up to four times the compute so far."""
    compute, reward = curve
    said = extrapolate(compute, reward, np.geomspace(compute[0], 4.0 * compute[-1], BAND))
    return np.stack([said.lo, said.value, said.hi])


def main() -> int:
    args = _arguments()
    rng = np.random.default_rng(0)
    curves = [random_curve(rng, args.points) for _ in range(max(args.many, REPEATS))]
    band(curves[0])
    cpu = []
    for curve in curves[:REPEATS]:
        start = time.process_time()
        band(curve)
        cpu.append(1e3 * (time.process_time() - start))
    median, p95 = percentiles(cpu, 50, 95)
    print(
        f"one forecast of {args.points} points with a band of {BAND}: {median:.0f} ms of CPU (95 %: {p95:.0f})"
    )
    if args.many:
        start = time.perf_counter()
        with multiprocessing.Pool(args.jobs) as processes:
            for _ in processes.imap(band, curves[: args.many], chunksize=50):
                pass
        seconds = time.perf_counter() - start
        print(f"{args.many} of them over {args.jobs} processes: {seconds:.0f} s of the clock")
    return int(not all((band(curve) == band(curve)).all() for curve in curves[:3]))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=60)
    parser.add_argument("--many", type=int, default=0, help="default: 0")
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
