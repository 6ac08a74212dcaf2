"""How good a project's forecasts were, beside simpler methods: over all, and by level, share, task and recipe."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from django.db.models import Count

from scaling import scores
from scaling.course import widen
from webapp.identity.accounts.models import Project
from webapp.science.curves.models import ForecastOrigin, ForecastOutcome
from webapp.science.curves.record.keeping import SHARES, overdue
from webapp.science.curves.record.recalibrating import (
    LEVELS,
    METHODS,
    MOST_RUNS,
    Record,
    key,
    outcomes_of,
    record_of,
)

CONFIDENCE = 0.9  # of the interval around an observed coverage
SHOWN = 0.9  # the level that tables show
RECALIBRATED = "recalibrated"
ORDER = ("forecast", RECALIBRATED, *list(METHODS)[1:])
NO_RECIPE = "no recipe"


@dataclass(frozen=True)
class StoredForecast:
    """A value and its intervals by level; without any where the method gives none. reached: by level, the lower end
    at the last compute known, where it was kept."""

    value: float
    levels: dict[str, tuple[float, float]]
    reached: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Judged:
    """One forecast that was judged. share: the nearest of SHARES of the run's compute; by: what each method said, None
    where it said nothing; as_it_went: stored while the run went on."""

    run: str
    task: str
    recipe: str
    share: float
    came: float
    as_it_went: bool
    by: dict[str, StoredForecast | None]


@dataclass(frozen=True)
class Row:
    """A method over one group. n forecasts of `runs` runs, and `without` one; errors are (came - value).

    inside: how many intervals of SHOWN held what came, of `n_intervals`; observed share with its exact interval
    [lo, hi]. score: mean interval score; width: mean width. None where there is nothing to say it of.
    """

    method: str
    key: str
    label: str
    n: int
    runs: int
    without: int
    bias: float | None
    rmse: float | None
    n_intervals: int
    inside: int
    observed: float | None
    lo: float | None
    hi: float | None
    score: float | None
    width: float | None


@dataclass(frozen=True)
class Level:
    """Reliability at a nominal level: of n intervals `inside` held what came, and `recalibrated_inside` after
    recalibration (None: too few runs). [lo, hi]: exact interval of the observed share."""

    level: float
    n: int
    inside: int
    observed: float | None
    lo: float | None
    hi: float | None
    recalibrated_inside: int | None


@dataclass(frozen=True)
class Found:
    """The record. methods: a row each over all forecasts; by: rows of forecast, "last" and "eq1" of each group.

    runs: judged ones in the tables; as_it_went: forecasts stored before the end; unjudged: ended runs that cannot be
    judged, with the reasons; waiting: not judged yet; of_project: judged runs that recalibration rests on; factors: of
    each level, None where there are too few runs.
    """

    runs: int
    forecasts: int
    as_it_went: int
    methods: tuple[Row, ...]
    levels: tuple[Level, ...]
    by: dict[str, tuple[Row, ...]]
    unjudged: tuple[tuple[str, int], ...]
    waiting: int
    is_on: bool
    of_project: int
    factors: dict[str, float | None]


def record(project: Project, *, task: str = "", recipe: str = "") -> Found:
    """The record of a project, or of a task and a recipe (slug) of it. Of the newest MOST_RUNS runs."""
    own = record_of(project)
    judged = [recalibrated(one, own) for one in _judged(project, task, recipe)]
    present = [name for name in ORDER if any(name in one.by for one in judged)]
    rows = [_row(name, judged, "all", "All") for name in present]
    unjudged = outcomes_of(project).exclude(why="").values("why").annotate(n=Count("pk"))
    return Found(
        runs=len({one.run for one in judged}),
        forecasts=len(judged),
        as_it_went=sum(one.as_it_went for one in judged),
        methods=tuple(rows),
        levels=tuple(_level(level, judged) for level in LEVELS),
        by={kind: tuple(_groups(judged, of)) for kind, of in GROUPS.items()},
        unjudged=tuple(unjudged.order_by("-n", "why").values_list("why", "n")),
        waiting=overdue().filter(project=project).count(),
        is_on=own.is_on,
        of_project=own.n_runs,
        factors={key(level): own.factor(level) for level in LEVELS},
    )


GROUPS: dict[str, Callable[[Judged], str]] = {
    "share": lambda one: f"{one.share:g}",
    "task": lambda one: one.task,
    "recipe": lambda one: one.recipe,
}


def _judged(project: Project, task: str, recipe: str) -> list[Judged]:
    asked = {"run__task": task, "run__revision__recipe__slug": recipe}
    about = {name: value for name, value in asked.items() if value}
    newest = list(outcomes_of(project).filter(why="", **about).order_by("-judged_at")[:MOST_RUNS])
    ends = {outcome.run_id: outcome for outcome in newest}
    rows = ForecastOrigin.objects.filter(run__in=list(ends), said__isnull=False).order_by("run_id", "cut")
    names = ("run_id", "run__task", "run__revision__recipe__slug", "cut", "as_it_went", "said")
    return [_one(ends[row[0]], *row) for row in rows.values_list(*names)]


def _one(
    outcome: ForecastOutcome,
    run: str,
    task: str,
    recipe: str | None,
    cut: float,
    as_it_went: bool,
    said: dict,
) -> Judged:
    last, came = outcome.last, outcome.came
    assert last is not None and came is not None  # it is judged
    share = min(SHARES, key=lambda one: abs(np.log(cut / last / one)))
    by = {name: _said(stored) for name, stored in said.items()}
    return Judged(run, task, recipe or NO_RECIPE, share, came, as_it_went, by)


def _said(stored: dict | None) -> StoredForecast | None:
    if stored is None:
        return None
    levels = {level: (lo, hi) for level, (lo, hi) in stored["levels"].items()}
    return StoredForecast(stored["value"], levels, stored.get("reached", {}))


def recalibrated(one: Judged, own: Record) -> Judged:
    """The same with what the forecast would have said by the record of the other runs, where there are enough."""
    said = one.by.get("forecast")
    factors = {level: own.factor(level, one.run) for level in LEVELS}
    if said is None or None in factors.values():
        return one
    levels = {}
    for level, factor in factors.items():
        below, above = (np.array([end]) for end in said.levels[key(level)])
        lo, hi = widen(np.array([said.value]), below, above, factor or 1.0, said.reached.get(key(level)))
        levels[key(level)] = (float(lo[0]), float(hi[0]))
    return replace(one, by=one.by | {RECALIBRATED: StoredForecast(said.value, levels)})


def _groups(judged: Sequence[Judged], of: Callable[[Judged], str]) -> Iterable[Row]:
    names = sorted({of(one) for one in judged})
    for name in names:
        mine = [one for one in judged if of(one) == name]
        for method in ("forecast", RECALIBRATED, "last", "eq1"):
            if any(method in one.by for one in mine):
                yield _row(method, mine, name, name)


def _row(method: str, judged: Sequence[Judged], group: str, label: str) -> Row:
    asked = [one for one in judged if method in one.by]
    told = [(one, said) for one in asked if (said := one.by[method]) is not None]
    errors = np.array([one.came - said.value for one, said in told])
    ends = [(one, said.levels[key(SHOWN)]) for one, said in told if key(SHOWN) in said.levels]
    inside = [lo <= one.came <= hi for one, (lo, hi) in ends]
    covered = scores.coverage(inside, [SHOWN] * len(inside), level=CONFIDENCE)
    columns = np.array([(*interval, one.came) for one, interval in ends]).reshape(-1, 3).T
    lo, hi, came = columns
    return Row(
        method, group, label, len(told), len({one.run for one, _ in told}), len(asked) - len(told),
        bias=float(errors.mean()) if len(told) else None,
        rmse=float(np.sqrt((errors**2).mean())) if len(told) else None,
        n_intervals=len(ends), inside=covered.inside, observed=covered.observed, lo=covered.lo, hi=covered.hi,
        score=float(scores.interval_score(lo, hi, came, SHOWN).mean()) if ends else None,
        width=float((hi - lo).mean()) if ends else None,
    )  # fmt: skip


def _level(level: float, judged: Sequence[Judged]) -> Level:
    def inside(method: str) -> list[bool]:
        said = ((one.came, one.by[method]) for one in judged if one.by.get(method))
        return [
            found.levels[key(level)][0] <= came <= found.levels[key(level)][1]
            for came, found in said
            if found
        ]

    plain, after = inside("forecast"), inside(RECALIBRATED)
    covered = scores.coverage(plain, [level] * len(plain), level=CONFIDENCE)
    return Level(
        level,
        covered.n,
        covered.inside,
        covered.observed,
        covered.lo,
        covered.hi,
        sum(after) if after else None,
    )
