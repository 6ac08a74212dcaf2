"""How often a comparison of recipes calls one better: of equal recipes, and of recipes that differ.

    .venv/bin/python -m benchmarks.false_wins [--curves PAIRS] [--seed S] [--jobs N] [--corpus DIR]

Pairs of real runs (`corpus/miniature`, by tokens) first, then simulated ones: curves of Burr's family, seeds that
differ as those of the corpus do, evaluations with its noise, one recipe stopped early or not. A pair is judged as pages
do (`scaling.ranking.compared`): one is called better where the difference at the shared compute or that of the forecast
ceilings is real. Beside it stands the paper's rule on Eq. 1's A. Writes Markdown.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import combinations, product
from pathlib import Path

import numpy as np

import scaling
from benchmarks.validation import arguments, rate, run_all
from scaling.cli.options import markdown
from scaling.compare import compare
from scaling.course import Course, course_of
from scaling.curve import Array
from scaling.extrapolate import share
from scaling.points import MIN_POINTS
from scaling.ranking import compared, variation_of
from scaling.scores import LATE
from scaling.seeds import CORPUS, Between
from training.study.corpus import PASS_RATE, read_corpus

EVALUATIONS, NOISE = 34, 0.008  # of a run of the corpus
LIFT, LATER, STEEPER = 0.007, 0.06, 0.05  # sd between seeds of A, log C_mid and log B
TAILS = (0.05, 0.5, 1.0)  # nu of `scaling.extrapolate`
STOPS = (1.0, 0.5, 0.375, 0.3)  # share of the compute that the second got; below a quarter none is compared
SEEDS = ((1, 1), (3, 1), (3, 3))
APART = 0.03
HEADER = ["pairs", "at the shared compute", "by forecast ceiling", "either", "Eq. 1's A, margin 0.02"]


@dataclass(frozen=True, eq=False)  # one is equal to itself alone: its course is worked out once
class Curve:
    """A run's evaluations [n] by compute, and the share of the compute that it may be seen to."""

    compute: Array
    reward: Array

    def until(self, end: float) -> "Curve":
        """What had been seen at that compute."""
        seen = self.compute <= end * (1 + 1e-9)
        return Curve(self.compute[seen], self.reward[seen])

    def late(self, end: float) -> float:
        """Mean of the evaluations in the last eighth before `end`; NaN without one."""
        last = (self.compute > (1.0 - LATE) * end) & (self.compute <= end * (1 + 1e-9))
        return float(self.reward[last].mean()) if last.any() else float("nan")


@dataclass(frozen=True)
class Call:
    """What was said of a pair: +1 the first is better, -1 the second, 0 neither; None where nothing could be said."""

    here: int | None
    ceiling: int | None
    paper: int | None

    @property
    def either(self) -> int:
        """What any sentence says; where they contradict each other it is the one at the shared compute."""
        return self.here or self.ceiling or 0


@dataclass(frozen=True)
class Pair:
    """Two recipes, each with its runs; `better`: which is truly better (0: equal). others: runs by recipe of the same
    task, that may tell how far seeds differ."""

    first: Sequence[Curve]
    second: Sequence[Curve]
    better: int
    others: Sequence[Sequence[Curve]] = field(default=())


def judge(pair: Pair) -> Call:
    """As pages do it: forecasts from stored fits, seeds from all recipes with several runs, the corpus before them.
    Nothing is said where too little has been seen of a run."""
    if any(len(run.compute) < MIN_POINTS for run in (*pair.first, *pair.second)):
        return Call(None, None, None)
    fits = [[scaling.fit(run.compute, run.reward) for run in runs] for runs in (pair.first, pair.second)]
    courses = [[course_of(fit) for fit in own] for own in fits]
    known = [[_course(run) for run in runs] for runs in pair.others]
    between: Between = variation_of([*courses, *known], CORPUS)
    found = compared(courses, between)
    gaps = (found.here.gap(0, 1), found.ceiling.gap(0, 1))
    here, ceiling = (None if gap is None else int(gap.real) * (1 if gap.value > 0 else -1) for gap in gaps)
    return Call(here, ceiling, _papers_rule(*fits))


@cache
def _course(run: Curve) -> Course:
    return course_of(scaling.fit(run.compute, run.reward))


def _papers_rule(first: "Sequence[scaling.Fit]", second: "Sequence[scaling.Fit]") -> int | None:
    """Eq. 1's A with the paper's margin, of single runs."""
    if len(first) > 1 or len(second) > 1:
        return None
    return {"a": 1, "b": -1}.get(compare(first[0], second[0]).winner, 0)


# --- simulated ------------------------------------------------------------------------------------------------


def simulated(number: int, *, apart: float, stop: float, seeds: tuple[int, int], seed: int) -> Pair:
    """A pair whose recipes' pass rates at the last compute differ by `apart` (negative: the second is better)."""
    rng = np.random.default_rng((seed, number, round(1e3 * stop), *seeds, round(1e4 * apart) % 10_000))
    nu, start = TAILS[number % len(TAILS)], rng.uniform(0.2, 0.4)
    a, b, mid = rng.uniform(0.6, 0.85), np.exp(rng.normal(0.3, 0.3)), rng.uniform(0.1, 0.5)
    reached = float(share(np.log(1.0 / mid), np.array(b), np.array(nu)))

    def run(lift: float, last: float) -> Curve:
        compute = np.linspace(1.0 / EVALUATIONS, 1.0, EVALUATIONS)
        log_ratio = np.log(compute / mid) - LATER * rng.standard_normal()
        gained = share(log_ratio, np.array(b * np.exp(STEEPER * rng.standard_normal())), np.array(nu))
        top = a + lift / reached + LIFT * rng.standard_normal()
        mean = start + (top - start) * gained
        return Curve(compute, np.clip(mean + NOISE * rng.standard_normal(len(mean)), 0.0, 1.0)).until(last)

    first, second = (
        [run(lift, last) for _ in range(n)]
        for n, lift, last in zip(seeds, (apart, 0.0), (1.0, stop), strict=True)
    )
    return Pair(first, second, better=int(np.sign(apart)))


def _judged(
    number: int, *, apart: tuple[float, float], stop: float, seeds: tuple[int, int], seed: int
) -> tuple[int, Call]:
    """The truth and what was said of one simulated pair; `apart`: range of the difference, either may be the better."""
    rng = np.random.default_rng((seed, number, 7))
    size = float(rng.uniform(*apart)) * (1 if number % 2 else -1)
    pair = simulated(number, apart=size, stop=stop, seeds=seeds, seed=seed)
    return pair.better, judge(pair)


def of_equals(pairs: int, seed: int, jobs: int) -> str:
    """Pairs of one recipe with itself."""
    rows, calls = [], []
    for stop, seeds in product(STOPS, SEEDS):
        work = partial(_judged, apart=(0.0, 0.0), stop=stop, seeds=seeds, seed=seed)
        mine = [call for _, call in run_all(work, range(pairs), jobs)]
        rows.append([f"{seeds[0]} and {seeds[1]} runs, the second to {100 * stop:g} %", *false_row(mine)])
        calls += mine
    rows.append(["all", *false_row(calls)])
    note = f"Simulated pairs of equal recipes, {pairs} a row: how often one was called better."
    return markdown("Equal recipes", note, HEADER, rows)


def of_different(pairs: int, seed: int, jobs: int) -> str:
    """Pairs that differ by 0.03 to 0.1 at the end, seen to half of it."""
    rows = []
    for low, high in ((0.03, 0.05), (0.05, 0.10)):
        for seeds in SEEDS:
            work = partial(_half_judged, apart=(low, high), seeds=seeds, seed=seed)
            found = run_all(work, range(pairs), jobs)
            rows.append([f"{low:g} to {high:g} apart, {seeds[0]} and {seeds[1]} runs", *true_row(found)])
    note = (
        f"Simulated pairs seen to half of the compute, {pairs} a row: how often the better one was called so."
    )
    return markdown("Recipes that differ", note, HEADER, rows)


def _half_judged(
    number: int, *, apart: tuple[float, float], seeds: tuple[int, int], seed: int
) -> tuple[int, Call]:
    rng = np.random.default_rng((seed, number, 8))
    size = float(rng.uniform(*apart)) * (1 if number % 2 else -1)
    whole = simulated(number, apart=size, stop=1.0, seeds=seeds, seed=seed)
    first, second = ([run.until(0.5) for run in runs] for runs in (whole.first, whole.second))
    half = Pair(first, second, whole.better)
    return half.better, judge(half)


def false_row(calls: Sequence[Call]) -> list[str]:
    """Shares of those that were called different."""
    parts = [[getattr(one, name) for one in calls] for name in ("here", "ceiling", "either", "paper")]
    return [rate(said != 0 for said in part if said is not None) for part in parts]


def true_row(judged: Sequence[tuple[int, Call]]) -> list[str]:
    """Shares of right calls, and of wrong ones where there are any."""
    cells = []
    for name in ("here", "ceiling", "either", "paper"):
        known = [(better, said) for better, call in judged if (said := getattr(call, name)) is not None]
        wrong = sum(better == -said for better, said in known)
        cells.append(rate(better == said for better, said in known) + (f", {wrong} wrong" if wrong else ""))
    return cells


# --- real -----------------------------------------------------------------------------------------------------

Recipe = tuple[str, str]  # model, loss


def recipes_of(folder: Path) -> dict[Recipe, list[Curve]]:
    """The evaluations of each recipe's runs by tokens. Raises training.study.corpus.CorpusError."""
    corpus = read_corpus(folder)
    found: dict[Recipe, list[Curve]] = defaultdict(list)
    for run in sorted(corpus.runs.values(), key=lambda one: one.seed):
        points = corpus.points(run.id).of(PASS_RATE)
        kept = np.isfinite(points.tokens) & (points.tokens > 0)
        if run.state == "succeeded" and kept.any():
            found[_recipe(run.model, run.config)].append(
                Curve(points.tokens[kept], points.value[kept].astype(float))
            )
    return dict(found)


def _recipe(model: str, config: dict) -> Recipe:
    """Runs that differ in their seed only."""
    named = {key: value for key, value in config.items() if key not in ("seed", "name", "note")}
    return model, repr(sorted(named.items()))


def real_equals(recipes: dict[Recipe, list[Curve]]) -> tuple[list[list[str]], list[Call]]:
    """Every two runs of one recipe as recipes of one seed each; how seeds differ is known from the model's others."""
    rows, calls = [], []
    for stop in STOPS:
        mine = [judge(pair) for pair in _alike(recipes, stop)]
        rows.append([f"two seeds of one recipe, the second to {100 * stop:g} %", *false_row(mine)])
        calls += mine
    return rows, calls


def _alike(recipes: dict[Recipe, list[Curve]], stop: float) -> Iterable[Pair]:
    for key, runs in recipes.items():
        others = [own for other, own in recipes.items() if other != key and other[0] == key[0]]
        for a, b in combinations(runs, 2):
            for first, second in ((a, b), (b, a)) if stop < 1.0 else ((a, b),):
                end = min(first.compute[-1], second.compute[-1])
                yield Pair([first.until(end)], [second.until(stop * end)], 0, others)


def real_different(recipes: dict[Recipe, list[Curve]]) -> list[tuple[int, Call]]:
    """Every two runs of different recipes of one model (and so of one task) whose late means differ by more than APART,
    seen to half of the compute."""
    found = []
    for one, other in ((a, b) for a, b in combinations(recipes, 2) if a[0] == b[0]):
        rest = [runs for key, runs in recipes.items() if key not in (one, other) and key[0] == one[0]]
        for a, b in product(recipes[one], recipes[other]):
            end = min(a.compute[-1], b.compute[-1])
            apart = a.late(end) - b.late(end)
            if abs(apart) > APART:
                half = [own.until(0.5 * end) for own in (a, b)]
                found.append(
                    (int(np.sign(apart)), judge(Pair([half[0]], [half[1]], int(np.sign(apart)), rest)))
                )
    return found


def of_real(folder: Path) -> str:
    """Both tables of real runs, and how far their seeds differ."""
    recipes = {key: runs for key, runs in recipes_of(folder).items() if len(runs) > 1}
    equal, _ = real_equals(recipes)
    different = real_different(recipes)
    rows = [*equal, [f"late means more than {APART:g} apart, half of the compute", *true_row(different)]]
    note = (
        f"Runs of `{folder}` by tokens, one seed a recipe: how often one of two equal recipes was called better, and "
        "how often the better of two was."
    )
    return markdown("Real pairs", note, HEADER, rows) + "\n" + _seeds_table(recipes)


def _seeds_table(recipes: dict[Recipe, list[Curve]]) -> str:
    rows = []
    for cut in (0.25, 0.5, 0.75, 1.0):
        courses = []
        for runs in recipes.values():
            end = cut * min(run.compute[-1] for run in runs)
            seen = [part for run in runs if len((part := run.until(end)).compute) >= MIN_POINTS]
            courses.append([course_of(scaling.fit(run.compute, run.reward)) for run in seen])
        alone = variation_of(courses, Between(1e-6, 1e-3, "nothing"))
        rows.append(
            [f"{100 * cut:g} %", f"{alone.sd:.4f}", f"{alone.dof:.0f}", f"{variation_of(courses).sd:.4f}"]
        )
    note = f"Standard deviation between seeds of {sum(map(len, recipes.values()))} runs of {len(recipes)} recipes."
    header = ["of the compute", "sd", "degrees of freedom", f"with the prior ({CORPUS.sd:g}, {CORPUS.dof:g})"]
    return markdown("Seeds", note, header, rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the tables."""
    parser = arguments(__doc__ or "", 40)
    parser.add_argument("--corpus", type=Path, default=Path("corpus/miniature"), metavar="DIR")
    options = parser.parse_args(argv)
    print(of_real(options.corpus))
    print(of_equals(options.curves, options.seed, options.jobs))
    print(of_different(options.curves, options.seed, options.jobs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
