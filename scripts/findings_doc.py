"""Writes the tables and figures of docs/findings.md from the corpus: `python scripts/findings_doc.py [--check]`.

One block a study, between `<!-- table: STUDY -->` and `<!-- end -->`, and docs/images/findings/STUDY.svg (--check looks
at the tables alone). The rule is the one that the study file states, so nothing here is chosen after the runs.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from doc_tables import main, table  # noqa: E402
from scipy.special import stdtrit  # noqa: E402

import scaling  # noqa: E402
from scaling.seeds import joint  # noqa: E402
from training.study.corpus import PASS_RATE, Corpus, Points, read_corpus  # noqa: E402
from training.study.file import Study, Written, load_study  # noqa: E402
from training.study.plan import plan  # noqa: E402

CORPUS = ROOT / "corpus" / "miniature"
PAGE = ROOT / "docs" / "findings.md"
PICTURES = ROOT / "docs" / "images" / "findings"
LEVEL = 0.9
LATE = 1 / 8  # of the steps, whose mean is a run's result
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf")


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


@cache
def read() -> tuple[Corpus, Written]:
    """The corpus, and the file that asked for it."""
    return read_corpus(CORPUS), load_study(CORPUS / "study.yaml")


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
    noise = points.of("eval/pass_rate_sampling_error").value
    x = own.step.astype(float) if axis == "steps" else getattr(own, axis)
    after = own.step > 0
    return Curve(seed, x[after], own.value[after], noise[after], float(own.value[~after][0]))


def measure_of(study: Study, curve: Curve, end: float) -> float:
    """What the study compares: the late mean, or the mean of the curve until the end of its shortest run."""
    return curve.mean_until(end) if study.judgement.measure == "efficiency" else curve.late_mean


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


def trained_arms(study: Study) -> dict[str, list[Curve]]:
    """The arms that have runs; none while there is nothing to compare: the baseline or every other arm is missing."""
    corpus, _ = read()
    arms = {arm: curves_of(corpus, study, arm) for arm in study.arms}
    trained = {arm: curves for arm, curves in arms.items() if curves}
    return trained if study.baseline in trained and len(trained) >= min(2, len(arms)) else {}


def study_block(study: Study) -> str:
    """Question, table, answer and figure."""
    trained = trained_arms(study)
    if not trained:
        return f"**{study.question}** Not trained yet.\n"
    end = min(curve.x[-1] for curves in trained.values() for curve in curves)
    values = {arm: [measure_of(study, one, end) for one in curves] for arm, curves in trained.items()}
    found = {arm: difference(own, values[study.baseline]) for arm, own in values.items()}
    answers = {arm: one.answer(study.judgement.margin) for arm, one in found.items() if arm != study.baseline}
    planned, there = sum(len(study.seeds_of(arm)) for arm in study.arms), sum(map(len, trained.values()))
    if there < planned:  # whoever looks at each new run finds a difference in the end
        answers = {}
    rows = [_row(study, arm, trained[arm], values[arm], found[arm], answers.get(arm)) for arm in trained]
    header = ["arm", "runs", _measure_words(study), "sd between seeds", "A of Eq. 1", "difference", ""]
    stated = {"yes": study.judgement.yes, "no": study.judgement.no, "undecided": study.judgement.undecided}
    answer = verdict(list(answers.values()))
    said = f"**{answer.capitalize()}.** {stated[answer]}" if answers else _so_far(there, planned)
    return (
        f"**{study.question}**\n\n{table(header, rows)}\n"
        f"{said}\n\n![{study.name}](images/findings/{study.name}.svg)\n"
    )


def _so_far(there: int, planned: int) -> str:
    return (
        f"**No answer yet**: {there} of {planned} runs are there."
        if there < planned
        else "Nothing is compared."
    )


def _measure_words(study: Study) -> str:
    if study.judgement.measure == "efficiency":
        return f"mean of the curve over {study.axis.replace('_', '-')}"
    return "late mean"


def _row(
    study: Study,
    arm: str,
    curves: list[Curve],
    values: list[float],
    found: Difference,
    answer: str | None,
) -> list[str]:
    spread = f"{np.std(values, ddof=1):.3f}" if len(values) > 1 else "one seed"
    name = f"{arm} (baseline)" if arm == study.baseline else arm
    shown = "" if answer is None else _difference_words(found)
    return [name, str(len(curves)), f"{np.mean(values):.3f}", spread, _ceiling(curves), shown, answer or ""]


def _difference_words(found: Difference) -> str:
    if found.lo is None or found.hi is None:
        return f"{found.value:+.3f}"
    return f"{found.value:+.3f} [{found.lo:+.3f}, {found.hi:+.3f}]"


def _ceiling(curves: list[Curve]) -> str:
    """Eq. 1's A, pooled over the seeds."""
    fits = [scaling.fit(one.x, one.y, stderr=one.noise, level=LEVEL) for one in curves]
    pooled = joint(fits, level=LEVEL).parameters["A"]
    if pooled is None:
        return "not identified"
    hi = "open" if pooled.hi is None else f"{pooled.hi:.3f}"
    return f"{pooled.value:.3f} [{'open' if pooled.lo is None else format(pooled.lo, '.3f')}, {hi}]"


def draw(study: Study) -> None:
    """PICTURES/STUDY.svg: every run's evaluations, a colour an arm. Nothing where nothing can be compared."""
    import plotly.graph_objects as go

    trained = trained_arms(study)
    if not trained:
        return
    figure = go.Figure()
    for arm, colour in zip(study.arms, cycle(COLOURS), strict=False):
        for number, one in enumerate(trained.get(arm, ())):
            x, y = np.r_[0.0, one.x], np.r_[one.start, one.y]
            line = {"color": colour, "width": 1.3}
            figure.add_scatter(
                x=x,
                y=y,
                name=arm,
                legendgroup=arm,
                showlegend=number == 0,
                mode="lines",
                line=line,
                opacity=0.8,
            )
    figure.update_layout(
        template="simple_white",
        width=760,
        height=380,
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        xaxis_title=study.axis.replace("_", "-"),
        yaxis_title="held-out pass rate",
        font={"size": 12},
    )
    PICTURES.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(suffix=".svg", dir=PICTURES, delete=False) as partial:
        figure.write_image(partial.name)
    Path(partial.name).replace(PICTURES / f"{study.name}.svg")


def size_table() -> str:
    """How much was run."""
    corpus, written = read()
    runs = list(corpus.runs.values())
    done = [run for run in runs if run.state == "succeeded"]
    planned = len(plan(written))
    hours = sum(run.wall_seconds for run in done) / 3600
    rows = [
        ["studies", str(len(written.says.studies))],
        [
            "runs finished",
            f"{len(done)} of {planned} (a run that stands in several studies is trained once)",
        ],
        ["runs lost", str(len(runs) - len(done))],
        ["hours on two cores", f"{hours:.1f}"],
        ["processors", "; ".join(sorted({str(run.machine["processor"]) for run in done}))],
    ]
    return table(["", ""], rows)


def blocks() -> dict[str, object]:
    """Name of a block -> what makes it."""
    return {"runs": size_table} | {
        study.name: lambda study=study: study_block(study) for study in read()[1].says.studies
    }


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        for one in read()[1].says.studies:
            draw(one)
    sys.exit(main(PAGE, blocks()))  # type: ignore[arg-type]
