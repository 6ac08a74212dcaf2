"""Claimed against observed: how often the intervals of a team's predictions held what came, and how wide they were.

Each prediction counts once, by its primary outcome: that of the run it was made from, else of the run of its recipe
that was scored first. Projections, withdrawn and replaced predictions have no outcome; they are counted beside, so
that what is missing can be seen.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from django.db.models import Exists, F, OuterRef, Q, Subquery, Value
from django.db.models.functions import Coalesce

from scaling import scores
from webapp.base.errors import InvalidInput
from webapp.identity.accounts.models import Project, User
from webapp.science.predictions.models import Outcome, Pending, Prediction
from webapp.science.predictions.status import with_status

CONFIDENCE = 0.9  # of the interval around an observed coverage
BINS = 5
MIN_RANKED = 5  # scored intervals before somebody is ranked

# Horizon: target / newest evaluation known at freezing; (key, upper end, words).
HORIZONS = (
    ("2", 2.0, "up to 2 times"),
    ("4", 4.0, "2 to 4 times"),
    ("8", 8.0, "4 to 8 times"),
    ("more", float("inf"), "more than 8 times"),
)


@dataclass(frozen=True)
class Row:
    """Interval claims of one group. kind: all, level, horizon, author, recipe, statement; key, label: which group.

    claimed: mean level; observed: share inside, with its exact 90 % interval [lo, hi]. runs: different runs that
    scored them: fewer than n means that outcomes hang together, and [lo, hi] is too narrow. mean_error: mean of
    (came - claimed); width: mean width; all None for n = 0.
    """

    kind: str
    key: str
    label: str
    n: int
    inside: int
    claimed: float | None
    observed: float | None
    lo: float | None
    hi: float | None
    runs: int
    interval_score: float | None
    width: float | None
    mean_error: float | None
    mean_abs_error: float | None

    @property
    def words(self) -> str:
        """What the coverage says, no more than the interval allows."""
        if self.claimed is None or self.lo is None or self.hi is None:
            return "nothing scored yet"
        if self.hi < self.claimed:
            return "too narrow: fewer came inside than claimed"
        if self.lo > self.claimed:
            return "too wide: more came inside than claimed"
        return "agrees with what was claimed, as far as the number tells"


@dataclass(frozen=True)
class Probabilities:
    """Claims that a rival is passed: mean Brier and log score, the share that happened, and bins of reliability."""

    n: int
    brier: float | None
    log_score: float | None
    happened: float | None
    bins: tuple[scores.Bin, ...]


@dataclass(frozen=True)
class Counts:
    """Of all predictions of the choice, by where they stand. pending: open, and a run was there but could not tell;
    extra: outcomes beside the primary ones; measured_before: scored by evaluations older, by the trainer's clock, than
    the claim."""

    total: int
    open: int
    projection: int
    scored: int
    withdrawn: int
    replaced: int
    pending: int
    extra: int
    measured_before: int


@dataclass(frozen=True)
class Calibration:
    """`overall` and the rows of each kind, first by what was claimed; `confidence`: of each row's [lo, hi]."""

    overall: Row
    rows: tuple[Row, ...]
    probabilities: Probabilities
    counts: Counts
    confidence: float

    def of(self, kind: str) -> tuple[Row, ...]:
        """The rows of one kind: level, horizon, author, recipe, statement."""
        return tuple(row for row in self.rows if row.kind == kind)


@dataclass(frozen=True)
class Record:
    """What became of somebody's predictions, or of those about a recipe."""

    counts: Counts
    intervals: Row
    probabilities: Probabilities


@dataclass(frozen=True)
class Forecaster:
    """A place in the ranking. score: mean interval score over that of the frozen forecasts' own intervals for the same
    outcomes, with its interval [lo, hi]; below 1 is better than that alone. rank: shared by ties; None: too few."""

    author: str
    n: int
    score: float | None
    lo: float | None
    hi: float | None
    rank: int | None
    tied: bool
    coverage: Row
    withdrawn: int


def calibration(
    project: Project,
    *,
    author: User | None = None,
    recipe: str | None = None,
    horizon: str | None = None,
    task: str | None = None,
) -> Calibration:
    """The calibration of a project's predictions, or of an author's, of a recipe's (slug), of a horizon (a key of
    HORIZONS), of a task. Raises InvalidInput (horizon)."""
    asked = {"author": author, "revision__recipe__slug": recipe, "task": task}
    about = Q(**{name: value for name, value in asked.items() if value}) & _within(horizon)
    scored = _scored(project, about)
    rows = [row for kind, key in _KINDS for row in _rows(kind, scored, key)]
    return Calibration(
        _row("all", "all", "All", scored), tuple(rows), _probabilities(scored), _counts(project, about, scored),
        CONFIDENCE,
    )  # fmt: skip


def record_of(project: Project, about: Q) -> Record:
    """What became of the predictions of this condition."""
    scored = _scored(project, about)
    return Record(_counts(project, about, scored), _row("all", "all", "All", scored), _probabilities(scored))


def forecasters(project: Project) -> list[Forecaster]:
    """People by how much their intervals gained on the frozen forecasts' own; empty unless the project ranks people.

    Ranked from MIN_RANKED scored intervals on, whose fit gave an interval itself. Who cannot be told apart from the
    best of a rank shares it: that one's score lies inside the interval of theirs. Who withdrew how often stands beside.
    """
    if not project.ranks_forecasters:
        return []
    scored = _scored(project, Q())
    withdrawn = Counter(
        Prediction.objects.filter(project=project, withdrawn_at__isnull=False).values_list(
            "author__username", flat=True
        )
    )
    people = {_author_of(one) for one in scored if one.inside is not None}
    found = [
        _forecaster(name, [s for s in scored if _author_of(s) == name], withdrawn[name])
        for name in sorted(people)
    ]
    return _ranked(found)


def horizon_of(ratio: float) -> str:
    """The key of the band of HORIZONS that target / known lies in."""
    return next(key for key, end, _ in HORIZONS if ratio <= end)


def _within(horizon: str | None) -> Q:
    if not horizon:
        return Q()
    keys = [key for key, _, _ in HORIZONS]
    if horizon not in keys:
        raise InvalidInput("horizon", f"horizon must be one of {', '.join(keys)}.")
    place = keys.index(horizon)
    known = F("known_until")
    condition = Q() if place == 0 else Q(target__gt=known * Value(HORIZONS[place - 1][1]))
    end = HORIZONS[place][1]
    return condition if end == float("inf") else condition & Q(target__lte=known * Value(end))


def _scored(project: Project, about: Q) -> list[Outcome]:
    """The scored predictions with their primary outcomes, one query."""
    rows = Prediction.objects.filter(about, project=project).annotate(primary=primary_outcome())
    chosen = rows.filter(primary__isnull=False).values("primary")
    outcomes = Outcome.objects.filter(pk__in=chosen).select_related(
        "prediction__author", "prediction__revision__recipe", "prediction__run"
    )
    light = outcomes.defer(
        "prediction__frozen",
        "prediction__rival_frozen",
        "prediction__run__config",
        "prediction__revision__config",
    )
    return list(light.order_by("id"))


def primary_outcome() -> Any:
    """The pk of the outcome that counts: of the run that the claim was made from, else the first that was scored."""
    own = Outcome.objects.filter(prediction=OuterRef("pk"), run=OuterRef("run")).values("pk")[:1]
    first = Outcome.objects.filter(prediction=OuterRef("pk")).order_by("pk").values("pk")[:1]
    return Coalesce(Subquery(own), Subquery(first))


def _author_of(outcome: Outcome) -> str:
    return outcome.prediction.author.get_username()


def _recipe_of(outcome: Outcome) -> str:
    revision = outcome.prediction.revision
    return revision.recipe.slug if revision else outcome.prediction.run.name


_KINDS: tuple[tuple[str, Callable[[Outcome], str]], ...] = (
    ("level", lambda one: f"{one.prediction.level:.4g}"),
    ("horizon", lambda one: horizon_of(one.prediction.target / one.prediction.known_until)),
    ("author", _author_of),
    ("recipe", _recipe_of),
    ("statement", lambda one: one.prediction.statement),
)
_STATEMENTS = {"pass_rate": "Pass rate at the target", "ceiling": "Ceiling"}


def _rows(kind: str, scored: Sequence[Outcome], key: Callable[[Outcome], str]) -> list[Row]:
    groups: dict[str, list[Outcome]] = {}
    for one in scored:
        if one.inside is not None:
            groups.setdefault(key(one), []).append(one)
    order = [name for name, _, _ in HORIZONS]
    keys = sorted(groups, key=order.index) if kind == "horizon" else sorted(groups)
    return [_row(kind, name, _label(kind, name), groups[name]) for name in keys]


def _label(kind: str, key: str) -> str:
    if kind == "level":
        return f"{100 * float(key):.4g} %"
    if kind == "horizon":
        return next(words for name, _, words in HORIZONS if name == key)
    return _STATEMENTS.get(key, key) if kind == "statement" else key


def _row(kind: str, key: str, label: str, scored: Sequence[Outcome]) -> Row:
    intervals = [one for one in scored if one.inside is not None]
    covered = scores.coverage(
        [bool(one.inside) for one in intervals], [one.prediction.level for one in intervals], level=CONFIDENCE
    )
    errors = [one.error for one in intervals if one.error is not None]
    claims = [one.prediction for one in intervals]
    return Row(
        kind, key, label, covered.n, covered.inside, covered.claimed, covered.observed, covered.lo, covered.hi,
        runs=len({one.run_id for one in intervals}),
        interval_score=_mean([one.interval_score for one in intervals]),
        width=_mean([claim.hi - claim.lo for claim in claims if claim.hi is not None and claim.lo is not None]),
        mean_error=_mean(errors),
        mean_abs_error=_mean([abs(error) for error in errors]),
    )  # fmt: skip


def _probabilities(scored: Sequence[Outcome]) -> Probabilities:
    told = [one for one in scored if one.happened is not None and one.prediction.probability is not None]
    p = [one.prediction.probability or 0.0 for one in told]
    came = [bool(one.happened) for one in told]
    return Probabilities(
        n=len(told),
        brier=_mean([one.probability_score for one in told]),
        log_score=_mean([one.log_score for one in told]),
        happened=_mean([float(one) for one in came]),
        bins=scores.reliability(p, came, bins=BINS, level=CONFIDENCE) if told else (),
    )


def _counts(project: Project, about: Q, scored: Sequence[Outcome]) -> Counts:
    predictions = with_status(Prediction.objects.filter(about, project=project))
    lives = Counter(predictions.values_list("life_state", flat=True))
    waits = Pending.objects.filter(prediction=OuterRef("pk"))
    plain = Prediction.objects.filter(about, project=project)
    outcomes = Outcome.objects.filter(prediction__in=plain).count()
    return Counts(
        total=sum(lives.values()),
        open=lives["open"],
        projection=lives["projection"],
        scored=lives["scored"],
        withdrawn=lives["withdrawn"],
        replaced=lives["replaced"],
        pending=predictions.filter(Exists(waits), life_state="open").count(),
        extra=outcomes - len(scored),
        measured_before=sum(bool(one.how.get("measured_before_claim")) for one in scored),
    )


def _forecaster(name: str, scored: Sequence[Outcome], withdrawn: int) -> Forecaster:
    row = _row("author", name, name, scored)
    pairs = [
        (one.interval_score, baseline)
        for one in scored
        if one.interval_score is not None and (baseline := one.how.get("own_interval_score")) is not None
    ]
    if len(pairs) < MIN_RANKED:
        return Forecaster(name, len(pairs), None, None, None, None, False, row, withdrawn)
    own, fits = np.array(pairs).T
    value, lo, hi = scores.relative_score(own, fits, level=CONFIDENCE)
    return Forecaster(name, len(pairs), value, lo, hi, None, False, row, withdrawn)


def _ranked(found: Sequence[Forecaster]) -> list[Forecaster]:
    """Best first, ties share a rank (1, 1, 3); then who has too few."""
    placed = sorted((one for one in found if one.score is not None), key=lambda one: (one.score, one.author))
    groups: list[list[Forecaster]] = []
    for one in placed:
        best = groups[-1][0] if groups else None
        if best is not None and one.lo is not None and best.score is not None and one.lo <= best.score:
            groups[-1].append(one)
        else:
            groups.append([one])
    ranked, place = [], 1
    for group in groups:
        ranked += [replace(one, rank=place, tied=len(group) > 1) for one in group]
        place += len(group)
    return ranked + [one for one in found if one.score is None]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
