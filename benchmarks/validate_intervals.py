"""Do the intervals cover, does the status tell the truth, and are the forecasts and choices right?

    .venv/bin/python -m benchmarks.validate_intervals [--curves N] [--seed S] [--jobs N] [--only TABLE]

Simulates runs with the curves of Table 1 (arXiv 2510.13786) as truth and R0 = 0.1, and writes Markdown tables. N is
the number of runs (or pairs, or recipes) behind a row. Shares have their binomial standard error, or a 90 % bound where
all outcomes were alike. The truth is known here, and it is a sigmoid: this says how the method does where its model
holds.
"""

import math
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

import scaling
from benchmarks.validation import (
    NOISES,
    POINTS,
    Trial,
    arguments,
    quantile,
    rate,
    run_all,
    trials,
)
from scaling.cli.options import markdown
from scaling.compare import compare
from scaling.seeds import joint, margin
from scaling.window import propose

LEVEL = 0.9
KINDS = ("binomial", "ar1", "heteroscedastic")
OBSERVED = (1.0, 2.0, 4.0, 8.0)
UNBENT = (0.25, 0.35, 0.5)
BENT = (6.0, 8.0)
BUDGETS = (2.0, 4.0, 8.0)  # whole budgets, of which half is seen
APART = 0.03
SEEDS = (2, 3, 5)
SEED_SD_A = 0.008  # the paper's three runs: A at most 0.015 apart
SEED_SD_LOG_B, SEED_SD_LOG_C_MID = 0.1, 0.15


@dataclass(frozen=True)
class Outcome:
    """What one fit said: identified, its intervals holding the truth, width of A's (None if open), forecast error.

    A failed fit has no interval, which counts as a miss.
    """

    identified: bool
    covers_a: bool
    covers_later: bool
    width: float | None
    error: float | None


def examine(trial: Trial) -> Outcome:
    """Fit one run; later is twice the observed compute."""
    compute, reward = trial.points()
    fit = scaling.fit(compute, reward, level=LEVEL)
    if fit.params is None:
        return Outcome(False, False, False, None, None)
    later = 2.0 * compute[-1]
    true_a, true_later = trial.published.a + trial.lift, float(trial.truth(later))
    lo, hi = fit.interval("A")
    band_lo, band_hi = fit.predict_interval(later)
    assert lo is not None
    return Outcome(
        identified=fit.status == "ok",
        covers_a=lo <= true_a and (hi is None or true_a <= hi),
        covers_later=bool(band_lo <= true_later <= band_hi),
        width=None if hi is None else hi - lo,
        error=abs(float(fit.predict(later)) - true_later),
    )


@dataclass(frozen=True)
class Averaged:
    """The averaged forecast at twice the compute, against Eq. 1's band there: whether each covers, and the widths."""

    covers: bool
    covers_eq1: bool
    width: float
    width_eq1: float
    error: float


def averaged(trial: Trial) -> Averaged | None:
    """None where one of them has no forecast."""
    compute, reward = trial.points()
    later, came = 2.0 * compute[-1], float(trial.truth(2.0 * compute[-1]))
    fit, said = (
        scaling.fit(compute, reward, level=LEVEL),
        scaling.extrapolate(compute, reward, [later], level=LEVEL),
    )
    if fit.params is None or said.status == "failed":
        return None
    lo, hi = (float(end) for end in fit.predict_interval(later))
    return Averaged(
        covers=bool(said.lo[0] <= came <= said.hi[0]),
        covers_eq1=lo <= came <= hi,
        width=float(said.hi[0] - said.lo[0]),
        width_eq1=hi - lo,
        error=float(said.value[0]) - came,
    )


def flagged(trial: Trial) -> bool:
    """Whether the fit says that the ceiling is not identified (or that there is no curve)."""
    return scaling.fit(*trial.points()).status != "ok"


def chosen(trial: Trial) -> str:
    """What `compare` says of a recipe against one with a ceiling APART higher: right, wrong, tie_ceiling, undecided."""
    better = Trial(trial.row, trial.noise, trial.times, (*trial.seed, 1), lift=APART)
    low, high = scaling.fit(*trial.points()), scaling.fit(*better.points())
    verdict = compare(low, high).winner
    return {"a": "wrong", "b": "right"}.get(verdict, verdict)


def replicated(trial: Trial, runs: int) -> list[Trial]:
    """Runs of one recipe whose curves differ around the row's."""
    rng = np.random.default_rng((*trial.seed, 2))
    return [
        replace(
            trial,
            seed=(*trial.seed, 3, k),
            lift=rng.normal(0.0, SEED_SD_A),
            steeper=math.exp(rng.normal(0.0, SEED_SD_LOG_B)),
            later=math.exp(rng.normal(0.0, SEED_SD_LOG_C_MID)),
        )
        for k in range(runs)
    ]


@dataclass(frozen=True)
class Recipe:
    """What `joint` said of one recipe; None where it says nothing. pinned: all its runs identify the ceiling."""

    pinned: bool
    mean: bool | None = None
    width: float | None = None
    sd: bool | None = None
    further: bool | None = None


def pooled(item: tuple[Trial, int]) -> Recipe:
    """Runs of one recipe, and a further one that its margin should hold."""
    trial, runs = item
    *seen, further = replicated(trial, runs + 1)
    found = joint([scaling.fit(*one.points()) for one in seen], level=LEVEL)
    a, other = found.parameters["A"], scaling.fit(*further.points())
    if a is None or a.lo is None or a.sd_lo is None or a.sd_hi is None:
        return Recipe(False)
    reach = margin(a, level=LEVEL).value
    assert reach is not None
    return Recipe(
        pinned=found.identified == runs,
        mean=a.lo <= trial.published.a and (a.hi is None or trial.published.a <= a.hi),
        width=None if a.hi is None else a.hi - a.lo,
        sd=a.sd_lo <= SEED_SD_A <= a.sd_hi,
        further=abs(other.params["A"] - a.value) <= reach if other.params and other.status == "ok" else None,
    )


def shortened(trial: Trial) -> bool:
    """Whether `propose` leaves points of a clean sigmoid out."""
    return propose(*trial.points()).lo is not None


def coverage_table(curves: int, seed: int, jobs: int) -> str:
    rows = []
    for i, kind in enumerate(KINDS):
        for j, times in enumerate(OBSERVED):
            seen = run_all(examine, trials(curves, kind, times, (seed, 1, i, j)), jobs)
            pinned = [one for one in seen if one.identified]
            widths = [one.width for one in pinned if one.width is not None]
            rows.append(
                (
                    kind,
                    f"{times:g}",
                    rate(one.identified for one in seen),
                    rate(one.covers_a for one in seen),
                    rate(one.covers_a for one in pinned),
                    f"{np.median(widths):.4f}" if widths else "-",
                    rate(one.covers_later for one in seen),
                )
            )
    note = (
        f"{POINTS} evaluations up to a multiple of C_mid. A ceiling that is not identified has a lower bound only. "
        + f"Noise: {'; '.join(f'{kind}: {NOISES[kind]}' for kind in KINDS)}."
    )
    header = (
        "noise",
        "observed / C_mid",
        "identified",
        "A covered",
        "A covered where identified",
        "median width where identified",
        "R at twice the compute covered",
    )
    return markdown(f"Coverage of {100 * LEVEL:g} % intervals", note, header, rows)


def averaged_table(curves: int, seed: int, jobs: int) -> str:
    rows = []
    for i, kind in enumerate((*KINDS, "white")):
        for j, times in enumerate(OBSERVED[1:]):
            found = run_all(averaged, trials(curves, kind, times, (seed, 7, i, j)), jobs)
            seen = [one for one in found if one is not None]
            widths = [np.median([one.width for one in seen]), np.median([one.width_eq1 for one in seen])]
            rows.append(
                (
                    kind,
                    f"{times:g}",
                    rate(one.covers for one in seen),
                    f"{np.mean([one.error for one in seen]):+.4f}",
                    f"{widths[0]:.4f}",
                    rate(one.covers_eq1 for one in seen),
                    f"{widths[1]:.4f}",
                    f"{widths[0] / widths[1]:.1f}",
                )
            )
    note = (
        "R at twice the compute, by `scaling.extrapolate` and by Eq. 1 alone, which here is the truth. "
        f"Noise as above, and white: {NOISES['white']}."
    )
    header = (
        "noise",
        "observed / C_mid",
        "covered",
        "bias",
        "median width",
        "covered by Eq. 1",
        "its median width",
        "ratio of widths",
    )
    return markdown("Averaged forecast of curves that are Eq. 1", note, header, rows)


def status_table(curves: int, seed: int, jobs: int) -> str:
    rows = []
    for i, kind in enumerate(KINDS):
        for j, times in enumerate((*UNBENT, *BENT)):
            seen = run_all(flagged, trials(curves, kind, times, (seed, 2, i, j)), jobs)
            wanted = ">= 99 %" if times in UNBENT else "<= 2 %"
            rows.append((kind, f"{times:g}", "unbent" if times in UNBENT else "bent", rate(seen), wanted))
    note = "An unbent curve must be flagged, a bent one must not. Noise as above."
    header = ("noise", "observed / C_mid", "curve", "flagged not identified", "goal")
    return markdown("Is the ceiling identified?", note, header, rows)


def forecast_table(curves: int, seed: int, jobs: int) -> str:
    rows = []
    for j, budget in enumerate(BUDGETS):
        seen = run_all(examine, trials(curves, "white", budget / 2, (seed, 3, j)), jobs)
        every = [one.error for one in seen if one.error is not None]
        pinned = [one.error for one in seen if one.identified and one.error is not None]
        rows.append(
            (
                f"{budget:g}",
                rate(one.identified for one in seen),
                quantile(every, 0.5),
                quantile(every, 0.95),
                quantile(pinned, 0.95),
            )
        )
    note = (
        "Absolute error of the curve fitted to the first half of a budget, at its end, against the true curve; "
        + f"intervals of quantiles are distribution-free 90 % ones. Noise: {NOISES['white']}."
    )
    header = ("budget / C_mid", "identified", "median", "95th percentile", "95th percentile where identified")
    return markdown("Forecast from half of the compute", note, header, rows)


def choice_table(curves: int, seed: int, jobs: int) -> str:
    rows = []
    for j, budget in enumerate(BUDGETS):
        verdicts = run_all(chosen, trials(curves, "white", budget / 2, (seed, 4, j)), jobs)
        decided = [verdict for verdict in verdicts if verdict in ("right", "wrong")]
        shares = [
            rate(verdict == name for verdict in verdicts)
            for name in ("right", "wrong", "tie_ceiling", "undecided")
        ]
        right = rate(verdict == "right" for verdict in decided)
        rows.append((f"{budget:g}", *shares, right))
    note = (
        f"Two recipes of one B and C_mid, ceilings {APART} apart, one run each, compared after half of the budget by "
        + f"`scaling.compare.compare` with its margin of 0.02. Noise: {NOISES['white']}."
    )
    header = (
        "budget / C_mid",
        "right",
        "wrong",
        "tie",
        "undecided",
        "right of those decided",
    )
    return markdown(f"Which of two recipes {APART} apart is better?", note, header, rows)


def seeds_table(curves: int, seed: int, jobs: int) -> str:
    rows = []
    for j, runs in enumerate(SEEDS):
        items = [(trial, runs) for trial in trials(curves, "ar1", 4.0, (seed, 5, j))]
        seen = run_all(pooled, items, jobs)
        whole = [one for one in seen if one.pinned]
        widths = [one.width for one in whole if one.width is not None]
        rows.append(
            (
                str(runs),
                rate(one.pinned for one in seen),
                rate(one.mean for one in seen if one.mean is not None),
                rate(bool(one.mean) for one in whole),
                f"{np.median(widths):.4f}" if widths else "-",
                rate(bool(one.sd) for one in whole),
                rate(one.further for one in whole if one.further is not None),
            )
        )
    note = (
        f"{100 * LEVEL:g} % intervals of `scaling.seeds.joint`; runs of a recipe differ by an sd of {SEED_SD_A} in A, "
        + f"{100 * SEED_SD_LOG_B:g} % in B and {100 * SEED_SD_LOG_C_MID:g} % in C_mid, observed up to 4 C_mid. "
        + f"Noise: {NOISES['ar1']}. The last column: the fitted A of one more run lies within `margin`; "
        + "where not all runs are identified, the interval of the mean is open above."
    )
    header = (
        "runs",
        "all runs identified",
        "mean A covered",
        "mean A covered where all identified",
        "median width there",
        "sd between seeds covered there",
        "a further run within the margin there",
    )
    return markdown("Recipes with several seeds", note, header, rows)


def window_table(curves: int, seed: int, jobs: int) -> str:
    rows = []
    for i, kind in enumerate(KINDS):
        for j, times in enumerate((2.0, 8.0)):
            seen = run_all(shortened, trials(curves, kind, times, (seed, 6, i, j)), jobs)
            goal = "none promised" if kind == "heteroscedastic" else "<= 0.5 %"
            rows.append((kind, f"{times:g}", rate(seen), goal))
    note = "Share of clean sigmoids of which `scaling.window.propose` leaves any point out. Noise as above."
    header = ("noise", "observed / C_mid", "shortened", "goal")
    return markdown("A clean sigmoid is left whole", note, header, rows)


TABLES = {
    "coverage": coverage_table,
    "averaged": averaged_table,
    "status": status_table,
    "forecast": forecast_table,
    "choice": choice_table,
    "seeds": seeds_table,
    "window": window_table,
}


def main() -> int:
    parser = arguments(__doc__ or "", curves=100)
    parser.add_argument("--only", choices=sorted(TABLES), action="append", help="a table; may be repeated")
    args = parser.parse_args()
    print(f"{datetime.now(UTC):%Y-%m-%d}, {args.curves} runs a row, seed {args.seed}.\n")
    for name, table in TABLES.items():
        if not args.only or name in args.only:
            print(table(args.curves, args.seed, args.jobs), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
