"""What a comparison shows side by side: a run, a recipe (its runs together), or a published curve.

What a comparison cannot show on its axis, and why: nothing reported yet, compute not known, no fit at hand.

What somebody wants to see side by side, as it stands in a URL or in a request to the API.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from django.db.models import Q

from scaling import ranking, seeds
from scaling.recipes import Columns
from webapp.base.formats import whole_in
from webapp.identity.accounts.models import Project
from webapp.record.runs.bounds import label_of, recipe_key, recipe_name
from webapp.record.runs.models import Run
from webapp.record.runs.points import arrays_of
from webapp.science.curves import estimates
from webapp.science.curves.answers import UNITS
from webapp.science.curves.fitting import CRASHED, Curve, Thinned, crash_note
from webapp.science.curves.models import ReferenceFit
from webapp.science.curves.selectors import published_ceiling
from webapp.science.curves.words import AXES, DEFAULT_AXIS, DEFAULT_LEVEL, DEFAULT_METRIC, few

RUN, RECIPE, PUBLISHED = "run", "recipe", "published"
MOST_RUNS = 120
BY = {"run": "Runs", "recipe": "Recipes"}


@dataclass(frozen=True, eq=False)
class Entry:
    """One series. curves, fits: of its runs, in their order; thinned: some points of each where many share a chart.

    courses: its runs' forecasts, in their order; between: how far seeds differ on its task.
    """

    key: str
    kind: str
    label: str
    detail: str
    task: str
    model: str
    runs: tuple[Run, ...] = ()
    curves: tuple[Curve | None, ...] = ()
    thinned: tuple[Thinned | None, ...] = ()
    fits: tuple[estimates.RunFit | None, ...] = ()
    reference: ReferenceFit | None = None
    courses: tuple[ranking.Course | None, ...] = ()
    between: seeds.Between = seeds.CORPUS

    @property
    def rivals(self) -> tuple[str, str]:
        """Entries with the same pair are rivals: pass rates on another task, or of another model, are none."""
        return self.task, self.model

    @property
    def grouped(self) -> bool:
        """Whether several runs stand behind it as one."""
        return self.kind == RECIPE

    @cached_property
    def drawn_fits(self) -> list[estimates.RunFit]:
        """The runs' fits that have a curve."""
        return [fit for fit in self.fits if fit is not None and fit.params is not None]

    @cached_property
    def pinned(self) -> list[estimates.RunFit]:
        """The runs' fits that identify their ceiling."""
        return estimates.identified(self.fits)

    @cached_property
    def ceiling(self) -> dict:
        """The ceiling as it may be shown."""
        if self.reference is not None:
            return published_ceiling(self.reference)
        return estimates.ceilings([self.fits])[0]

    @cached_property
    def joint(self) -> seeds.Joint | None:
        """The runs pooled by `scaling.seeds.joint`, where each pins its ceiling and was fitted just now."""
        live = [fit.live for fit in self.pinned if fit.live is not None]
        return seeds.joint(live, level=DEFAULT_LEVEL) if live and len(live) == len(self.pinned) else None

    @cached_property
    def parameters(self) -> dict[str, estimates.Estimate] | None:
        """A, B, C_mid and R0 with their intervals; None where no run pins its ceiling."""
        if not self.pinned:
            return None
        if self.grouped and self.joint is not None:
            pooled = {name: self.joint.parameters[name] for name in estimates.PARAMETERS}
            return {
                name: (one.value, one.lo, one.hi) if one else (np.nan, None, None)
                for name, one in pooled.items()
            }
        return {name: estimates.parameters([self.pinned], name)[0] for name in estimates.PARAMETERS}

    @property
    def window(self) -> tuple[float, float] | None:
        """First and last compute fitted by any of its runs; None without a curve."""
        windows = [fit.window for fit in self.drawn_fits]
        return (min(lo for lo, _ in windows), max(hi for _, hi in windows)) if windows else None

    def at(self, compute: np.ndarray) -> Columns:
        """Its curve of Eq. 1 at computes with the interval of the (mean) curve; NaN without one."""
        return estimates.curve_at(self.fits, compute)

    def forecast_at(self, compute: np.ndarray) -> Columns:
        """What it is forecast to reach at computes, seeds in the interval; NaN where nothing is forecast."""
        return ranking.over(self.courses, self.between, compute, level=DEFAULT_LEVEL)

    @property
    def reach(self) -> tuple[float, float] | None:
        """First compute fitted and last compute forecast from, of any of its runs; None without a forecast."""
        seen = [one.seen for one in self.courses if one is not None and one.seen]
        return (self.window[0] if self.window else max(seen) / 10, max(seen)) if seen else None


def run_entries(runs: Sequence[Run]) -> list[Entry]:
    """An entry for each run, without curves and fits. Labels that are the same get the run's id behind them."""
    seen = Counter(label_of(run) for run in runs)
    found = []
    for run in runs:
        label = f"{label_of(run)} ({run.pk})" if seen[label_of(run)] > 1 else label_of(run)
        recipe = str(run.revision) if run.revision else ""
        found.append(Entry(run.pk, RUN, label, recipe, run.task, run.model, runs=(run,)))
    return found


def recipe_entries(runs: Sequence[Run], totals: dict[tuple, int]) -> list[Entry]:
    """Runs of one recipe revision, task and model as one entry.

    A recipe of which there is one run is a single run, too: nothing is known of how its seeds differ.
    """
    groups: dict[tuple, list[Run]] = {}
    for run in runs:
        groups.setdefault(recipe_key(run), []).append(run)
    labels = Counter(recipe_name(group[0]) for group in groups.values() if len(group) > 1)
    found: list[Entry] = []
    for key, group in groups.items():
        if len(group) == 1:
            found += run_entries(group)
        else:
            found.append(_recipe_entry(key, group, totals, plain=labels[recipe_name(group[0])] == 1))
    return found


def _recipe_entry(key: tuple, runs: list[Run], totals: dict[tuple, int], *, plain: bool) -> Entry:
    label = recipe_name(runs[0])
    if not plain:
        label = f"{label} on {runs[0].task}, {runs[0].model}"
    of = max(totals.get(key, 0), len(runs))
    chosen = f"{len(runs)} runs" if of == len(runs) else f"{len(runs)} of its {of} runs"
    ordered = tuple(sorted(runs, key=lambda run: (run.seed, run.pk)))
    return Entry(
        "-".join(run.pk for run in ordered[:1]) + f"x{len(runs)}",
        RECIPE,
        label,
        chosen,
        runs[0].task,
        runs[0].model,
        runs=ordered,
    )


def published_entries(references: Iterable[ReferenceFit]) -> list[Entry]:
    """An entry for each published curve."""
    return [
        Entry(
            one.slug,
            PUBLISHED,
            f"{one.name} (published)",
            one.source,
            one.task,
            one.model,
            reference=one,
        )
        for one in references
    ]


def with_fits(
    entry: Entry,
    fits: dict[str, estimates.RunFit | None],
    *,
    curves: dict[str, Curve] | None = None,
    thinned: dict[str, Thinned] | None = None,
) -> Entry:
    """The entry with what is known of its runs."""
    ids = [run.pk for run in entry.runs]
    return replace(
        entry,
        fits=tuple(fits.get(pk) for pk in ids),
        curves=tuple((curves or {}).get(pk) for pk in ids),
        thinned=tuple((thinned or {}).get(pk) for pk in ids),
    )


def mixed(entries: Sequence[Entry]) -> bool:
    """Whether single runs stand beside recipes of several runs."""
    return {RUN, RECIPE} <= {entry.kind for entry in entries}


def notes(entries: Sequence[Entry], x: str) -> list[str]:
    """A sentence for each reason, with the names. One query, for runs that train elsewhere."""
    own = [entry for entry in entries if entry.kind != PUBLISHED]
    elsewhere = [run.pk for entry in own for run in entry.runs if run.origin == Run.Origin.TRACKED]
    is_unknown = f"p.{AXES[x].key} IS NULL AND p.step > 0"
    unknown = arrays_of(elsewhere, DEFAULT_METRIC, ["step"], is_unknown) if elsewhere and x != "step" else {}
    lacks = lambda entry: any(run.pk in unknown for run in entry.runs)
    silent = [entry.label for entry in own if not _is_shown(entry) and lacks(entry)]
    partly = [entry.label for entry in own if _is_shown(entry) and lacks(entry)]
    nothing = [entry.label for entry in own if not _is_shown(entry) and not lacks(entry)]
    crashed = [
        label_of(run)
        for entry in entries
        for run, fit in zip(entry.runs, entry.fits, strict=False)
        if fit is not None and fit.message == CRASHED
    ]
    unit = UNITS[x]
    said = (
        (silent, f"Not drawn, because their {unit} are not known; steps are: {few(silent)}."),
        (partly, f"Drawn and fitted without the evaluations whose {unit} are not known: {few(partly)}."),
        (nothing, f"No evaluation on this axis yet: {few(nothing)}."),
        (crashed, crash_note(crashed, "Without parameters of Eq. 1")),
    )
    return [sentence for names, sentence in said if names]


def why_unfitted(entries: Sequence[Entry], x: str, *, many: bool) -> str:
    """Why no entry has a fit, in a sentence; empty where one has."""
    if fits := [fit for entry in entries for fit in entry.fits if fit is not None]:
        return f"Nothing fitted. {CRASHED}" if all(fit.message == CRASHED for fit in fits) else ""
    if many and x != DEFAULT_AXIS:
        return f"Of so many only the fits by {UNITS[DEFAULT_AXIS]} are at hand: choose fewer, or that axis."
    known = (
        " whose compute is known"
        if any(run.origin == Run.Origin.TRACKED for entry in entries for run in entry.runs) and x != "step"
        else ""
    )
    return f"Nothing fitted yet: a fit needs at least five evaluations after the first update{known}."


def is_empty(entries: Sequence[Entry]) -> bool:
    """Whether no run has a point on this axis and nothing published is chosen."""
    return not any(entry.kind == PUBLISHED or _is_shown(entry) for entry in entries)


def _is_shown(entry: Entry) -> bool:
    return any(len(one.x) for one in (*entry.curves, *entry.thinned) if one is not None)


@dataclass(frozen=True)
class Choice:
    """Chosen runs, published curves, and what was asked for but is not there. `dropped`: runs beyond MOST_RUNS."""

    runs: list[Run] = field(default_factory=list)
    references: list[ReferenceFit] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    dropped: int = 0

    def __bool__(self) -> bool:
        return bool(self.runs or self.references)


def choose(
    project: Project,
    *,
    runs: Sequence[str] = (),
    recipes: Sequence[str] = (),
    references: Sequence[str] = (),
) -> Choice:
    """Runs by id and all runs of recipe revisions ("slug@2"), published curves by slug; in the order asked for.

    Two queries. What this project does not have is `missing`.
    """
    wanted = list(dict.fromkeys(pk.strip() for pk in runs if pk))
    revisions = {token: _revision(token) for token in dict.fromkeys(map(str.strip, recipes)) if token}
    found = _runs(project, wanted, [pair for pair in revisions.values() if pair])
    by_id = {run.pk: run for run in found}
    ordered = [by_id[pk] for pk in wanted if pk in by_id]
    of_recipes = [run for run in found if run.pk not in set(wanted)]
    of_recipes.sort(key=lambda run: (run.revision.recipe.slug, run.revision.number, run.seed, run.pk))  # type: ignore[union-attr]
    here = {(run.revision.recipe.slug, run.revision.number) for run in found if run.revision}
    missing = [pk for pk in wanted if pk not in by_id]
    missing += [token for token, pair in revisions.items() if pair not in here]
    slugs = list(dict.fromkeys(map(str.strip, references)))
    published = {one.slug: one for one in ReferenceFit.objects.filter(slug__in=slugs)} if slugs else {}
    missing += [slug for slug in slugs if slug and slug not in published]
    chosen = ordered + of_recipes
    return Choice(
        chosen[:MOST_RUNS],
        [published[slug] for slug in slugs if slug in published],
        missing,
        max(0, len(chosen) - MOST_RUNS),
    )


def _runs(project: Project, ids: list[str], revisions: list[tuple[str, int]]) -> list[Run]:
    if not ids and not revisions:
        return []
    wanted = Q(pk__in=ids)
    for slug, number in revisions:
        wanted |= Q(revision__recipe__slug=slug, revision__number=number)
    found = Run.objects.filter(wanted, project=project).select_related("revision__recipe")
    return list(found.defer("revision__config", "revision__recipe__description"))  # kilobytes each


def _revision(token: str) -> tuple[str, int] | None:
    """("slug", 2) of "slug@2"; None for anything else."""
    slug, _, number = token.rpartition("@")
    value = whole_in(number)
    return (slug, value) if slug and value is not None else None
