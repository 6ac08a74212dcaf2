"""The priors of the forecast, chosen on some tasks and judged on tasks that they have not seen.

    .venv/bin/python -m benchmarks.tune_forecast [--corpus DIR_OR_FILE]... [--axis AXIS] [--tries N]

Of N priors, spread evenly over what is believable (a Halton sequence; the first is the one in use), the best on all
tasks but one is judged on that one, for each task in turn. The best on all tasks is printed last;
`scaling.extrapolate.Prior` takes it over by hand. What is scored is what `benchmarks.validate_real` judges: the mean of
a run's last eighth, from 3/8, 1/2 and 3/4 of its compute; and the same of runs as if they had ended at ENDS of their
compute, where most still rise. The score of a task is, for each of these ends, the mean over its runs of the continuous
ranked probability score and of the interval score of the 90 % interval; ends and tasks count alike, whatever their
scale (logarithms are averaged). Both are proper: who says what they believe does best.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from multiprocessing import Pool

import numpy as np
from scipy.stats import qmc

from benchmarks.validate_real import of_corpus
from scaling.calibration import CUTS, Curve
from scaling.cli.options import markdown
from scaling.curve import Array
from scaling.extrapolate import PRIOR, Posterior, Prior
from scaling.points import MIN_POINTS, Points, prepare
from scaling.scores import interval_score

LEVEL = 0.9
# What each number between 0 and 1 stands for: least and greatest.
RANGES = {
    "weight of nu 0.05": (0.1, 1.0),
    "weight of nu 0.5": (0.1, 1.0),
    "weight of nu 1": (0.1, 1.0),
    "log B mean": (-0.5, 0.3),
    "log B sd": (0.15, 0.6),
    "log mid mean": (-0.5, 1.6),
    "log mid sd": (0.6, 1.4),
    "greater discrepancy": (0.008, 0.03),
    "its weight": (0.3, 3.0),
    "length": (1.0, 8.0),
    "kappa mean": (-0.1, 0.3),
    "kappa sd": (0.1, 0.5),
}
ENDS = (0.36, 0.5, 0.75, 1.0)  # shares of a run's compute at which it is taken to have ended
FEWEST = 10  # evaluations of such a run


@dataclass(frozen=True)
class Case:
    """A run up to a cut, and what came."""

    task: str
    end: float  # of ENDS
    data: Points
    at: float
    came: float


def cases_of(curves: Sequence[Curve]) -> list[Case]:
    """Each run, ended at each of ENDS, at each cut that leaves enough evaluations."""
    found = []
    for end, whole in product(ENDS, curves):
        curve = whole.until(end)
        at, came = curve.end
        for early in (curve.until(cut) for cut in CUTS if end == 1.0 or len(curve.compute) >= FEWEST):
            if len(early.compute) >= MIN_POINTS:
                data = prepare(early.compute, early.reward)
                found.append(Case(f"{curve.source}, {curve.task}", end, data, at, came))
    return found


def prior_of(numbers: Array) -> Prior:
    """The prior that numbers [len(RANGES)] in [0, 1] stand for."""
    lo, hi = np.array(list(RANGES.values())).T
    w05, w50, w1, b, b_sd, mid, mid_sd, size, weight, length, kappa, kappa_sd = (
        lo + (hi - lo) * numbers
    ).tolist()
    return replace(
        PRIOR,
        nu=((0.05, w05), (0.5, w50), (1.0, w1)),
        log_b=(b, b_sd),
        log_mid=(mid, mid_sd),
        discrepancy=((PRIOR.discrepancy[0][0], length, 1.0), (size, length, weight)),
        kappa=(kappa, kappa_sd),
    )


def score(case: Case, prior: Prior) -> tuple[float, float]:
    """(continuous ranked probability score, interval score of LEVEL) of one forecast."""
    draws = np.sort(Posterior(case.data, prior).draws(np.array([case.at]))[:, 0])
    n = len(draws)
    spread = float((2 * np.arange(1, n + 1) - n - 1) @ draws) / n**2
    lo, hi = np.quantile(draws, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    return float(np.abs(draws - case.came).mean()) - spread, float(interval_score(lo, hi, case.came, LEVEL))


def task_scores(cases: Sequence[Case], priors: Sequence[Prior]) -> tuple[list[str], Array]:
    """Tasks [t], and for each prior [p, t] the logarithms of their two mean scores, summed, averaged over ends."""
    with Pool() as pool:
        rows = np.array(pool.map(partial(_scores, cases), priors, chunksize=1))
    tasks = sorted({case.task for case in cases})
    found = []
    for task in tasks:
        ends = sorted({case.end for case in cases if case.task == task})
        mine = [[case.task == task and case.end == end for case in cases] for end in ends]
        found.append(np.mean([np.log(rows[:, own].mean(axis=1)).sum(axis=1) for own in mine], axis=0))
    return tasks, np.stack(found, axis=1)


def _scores(cases: Sequence[Case], prior: Prior) -> list[tuple[float, float]]:
    return [score(case, prior) for case in cases]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints each left-out task's score, by the prior in use and by the best of the others', and the best on all."""
    parser = argparse.ArgumentParser(prog="tune_forecast", description=__doc__.splitlines()[0])
    parser.add_argument("--tries", type=int, default=200, metavar="N", help="default: 200")
    return of_corpus(parser, arguments, lambda curves, options: _tune(curves, options.tries))


def _tune(curves: Sequence[Curve], tries: int) -> None:
    numbers = qmc.Halton(len(RANGES), scramble=False).random(tries)
    priors = [PRIOR, *map(prior_of, numbers[1:])]
    tasks, scores = task_scores(cases_of(curves), priors)
    rows = []
    for k, task in enumerate(tasks):
        others = np.delete(scores, k, axis=1)
        best = int(others.sum(axis=1).argmin()) if others.shape[1] else 0
        rows.append([task, *(f"{np.exp(scores[p, k] / 2):.4f}" for p in (0, best))])
    note = "Geometric mean of both scores, in pass rate; less is better."
    print(markdown("Tasks left out", note, ["task", "prior in use", "best on the other tasks"], rows))
    best = int(scores.sum(axis=1).argmin())
    print(priors[best])


if __name__ == "__main__":
    sys.exit(main())
