"""What the runs of a corpus say to the questions of its study file, by the rule that the file states before the runs.

An arm differs from its baseline where the 90 % interval of the difference of means (Welch, over seeds) leaves out zero
and the difference is beyond the study's margin.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

import scaling
from scaling.seeds import joint
from training.study.corpus import PASS_RATE, Corpus, Points
from training.study.file import Study

LEVEL = 0.9
LATE = 1 / 8  # of the evaluations, whose mean is a run's result
SAMPLING_ERROR = "eval/pass_rate_sampling_error"


@dataclass(frozen=True)
class Curve:
    """Evaluations after step 0 of one run: `x` [n] on the study's axis, `y` [n] pass rates, `noise` [n] of each."""

    seed: int
    x: np.ndarray
    y: np.ndarray
    noise: np.ndarray
    start: float  # pass rate at step 0

    @property
    def late_mean(self) -> float:
        """Mean over the last eighth of the evaluations."""
        return float(self.y[-max(1, round(len(self.y) * LATE)) :].mean())

    def mean_until(self, end: float) -> float:
        """Mean of the curve over compute from 0 to `end`: higher where the same is reached with less."""
        x, y = np.r_[0.0, self.x], np.r_[self.start, self.y]
        inside = x < end
        x, y = np.r_[x[inside], end], np.r_[y[inside], np.interp(end, x, y)]
        return float(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum() / end)


@dataclass(frozen=True)
class Difference:
    """Of an arm's measure from the baseline's, with the interval of LEVEL; None where one side has one seed."""

    value: float
    lo: float | None
    hi: float | None

    def answer(self, margin: float) -> str:
        """What the interval allows to say."""
        if self.lo is None or self.hi is None:
            return "one seed: not judged"
        if -margin <= self.lo and self.hi <= margin:
            return "the same"
        if self.lo > 0 and self.value > margin:
            return "higher"
        if self.hi < 0 and self.value < -margin:
            return "lower"
        return "undecided"

    @property
    def words(self) -> str:
        """The difference with its interval."""
        if self.lo is None or self.hi is None:
            return f"{self.value:+.3f}".replace("-", "−")
        return f"{self.value:+.3f} ({self.lo:+.3f} to {self.hi:+.3f})".replace("-", "−")


@dataclass(frozen=True)
class Finding:
    """What is known of one study: curves of its trained arms, a table, and its answer once all runs are there."""

    study: Study
    arms: dict[str, list[Curve]]
    table: str  # Markdown
    answer: str  # yes, no, undecided; empty while runs are missing or where nothing is compared
    sentence: str

    def markdown(self, figure: str) -> str:
        """Question, what the paper found, table, answer, figure; the figure only where there is a table."""
        parts = [
            f"**{self.study.question}**",
            f"The paper: {self.study.paper}" if self.study.paper else "",
            self.table.rstrip(),
            self.sentence,
            figure if self.table else "",
        ]
        return "\n\n".join(filter(None, parts)) + "\n"


def finding(corpus: Corpus, study: Study) -> Finding:
    """The study's runs in the corpus, compared. The table is empty while there is nothing to compare."""
    arms = {arm: curves_of(corpus, study, arm) for arm in study.arms}
    trained = {arm: curves for arm, curves in arms.items() if curves}
    if study.baseline not in trained or len(trained) < min(2, len(arms)):
        return Finding(study, {}, "", "", "Not trained yet.")
    values = _values(study, trained)
    found = {arm: difference(own, values[study.baseline]) for arm, own in values.items()}
    planned, there = sum(len(study.seeds_of(arm)) for arm in study.arms), sum(map(len, trained.values()))
    answers = {arm: one.answer(study.judgement.margin) for arm, one in found.items() if arm != study.baseline}
    if there < planned:  # whoever looks at each new run finds a difference in the end
        answers = {}
    rows = [
        _row(study, arm, trained[arm], values[arm], found[arm] if arm in answers else None, answers.get(arm))
        for arm in trained
    ]
    header = [
        "arm",
        "runs",
        _measure_words(study),
        "sd between seeds",
        "A of Eq. 1, 90 %",
        "difference, 90 %",
        "",
    ]
    answer = verdict(list(answers.values())) if answers else ""
    sentence = _sentence(study, answer, answers) if answer else _so_far(there, planned)
    return Finding(study, trained, markdown_table(header, rows), answer, sentence)


def curves_of(corpus: Corpus, study: Study, arm: str) -> list[Curve]:
    """Of the runs of an arm that succeeded, by seed."""
    runs = [
        run
        for run in corpus.runs.values()
        if run.state == "succeeded" and any(place == (study.name, arm) for place in run.places)
    ]
    runs.sort(key=lambda run: run.seed)
    return [_curve(corpus.points(run.id), run.seed, study.axis) for run in runs]


def _curve(points: Points, seed: int, axis: str) -> Curve:
    own = points.of(PASS_RATE)
    x = own.step.astype(float) if axis == "steps" else getattr(own, axis)
    after = own.step > 0
    sampling = points.of(SAMPLING_ERROR).value
    noise = sampling if len(sampling) == len(own.value) else own.stderr  # other trainers do not report it
    return Curve(seed, x[after], own.value[after], noise[after], float(own.value[~after][0]))


def _values(study: Study, trained: dict[str, list[Curve]]) -> dict[str, list[float]]:
    """What the study compares, by arm and seed: the late mean, or the mean of the curve until its shortest run ends."""
    if study.judgement.measure != "efficiency":
        return {arm: [one.late_mean for one in curves] for arm, curves in trained.items()}
    end = min(float(curve.x[-1]) for curves in trained.values() for curve in curves)
    return {arm: [one.mean_until(end) for one in curves] for arm, curves in trained.items()}


def difference(mine: Sequence[float], base: Sequence[float]) -> Difference:
    """Mean difference with Welch's interval."""
    value = float(np.mean(mine) - np.mean(base))
    if min(len(mine), len(base)) < 2:
        return Difference(value, None, None)
    a, b = np.var(mine, ddof=1) / len(mine), np.var(base, ddof=1) / len(base)
    if a + b == 0:
        return Difference(value, value, value)
    dof = (a + b) ** 2 / (a**2 / (len(mine) - 1) + b**2 / (len(base) - 1))
    reach = float(stdtrit(dof, 0.5 + LEVEL / 2)) * math.sqrt(a + b)
    return Difference(value, value - reach, value + reach)


def verdict(answers: Sequence[str]) -> str:
    """The study's answer: yes where an arm differs, no where all are the same, else undecided."""
    if any(answer in ("higher", "lower") for answer in answers):
        return "yes"
    return "no" if answers and all(answer == "the same" for answer in answers) else "undecided"


def markdown_table(header: list[str], rows: Iterable[list[str]]) -> str:
    """A Markdown table."""
    return "".join(f"| {' | '.join(line)} |\n" for line in [header, ["---"] * len(header), *rows])


def _sentence(study: Study, answer: str, answers: dict[str, str]) -> str:
    stated = {"yes": study.judgement.yes, "no": study.judgement.no, "undecided": study.judgement.undecided}
    ways = {way: [arm for arm, one in answers.items() if one == way] for way in ("higher", "lower")}
    ends = "".join(f" {way.capitalize()}: {', '.join(arms)}." for way, arms in ways.items() if arms)
    return f"**{answer.capitalize()}.** {stated[answer]}{ends}"


def _so_far(there: int, planned: int) -> str:
    if there < planned:
        return f"**No answer yet**: {there} of {planned} runs are there."
    return "Nothing is compared."


def _measure_words(study: Study) -> str:
    if study.judgement.measure == "efficiency":
        return f"mean of the curve over {study.axis.replace('_', '-')}"
    return "late mean"


def _row(
    study: Study,
    arm: str,
    curves: list[Curve],
    values: list[float],
    found: Difference | None,
    answer: str | None,
) -> list[str]:
    spread = f"{np.std(values, ddof=1):.3f}" if len(values) > 1 else "one seed"
    name = f"{arm} (baseline)" if arm == study.baseline else arm
    shown = found.words if found else ""
    return [name, str(len(curves)), f"{np.mean(values):.3f}", spread, _ceiling(curves), shown, answer or ""]


def _ceiling(curves: list[Curve]) -> str:
    """Eq. 1's A, pooled over the seeds."""
    fits = [scaling.fit(one.x, one.y, stderr=one.noise, level=LEVEL) for one in curves]
    if (pooled := joint(fits, level=LEVEL).parameters["A"]) is None:
        return "not identified"
    hi = "open" if pooled.hi is None else f"{pooled.hi:.3f}"
    return f"{pooled.value:.3f} ({'open' if pooled.lo is None else format(pooled.lo, '.3f')} to {hi})"
