"""Recipes ranked by their forecasts at one compute, per task and model; those that cannot be told apart share a rank.

A row is one revision of a recipe with the newest whole-curve fits of its runs (its seeds): rank, pass rate at the
shared compute and forecast ceiling by `webapp.science.curves.ranking.standing`, beside them the parameters of Eq. 1.
Everything comes from stored fits and what was stored beside them, in a number of queries that does not grow. The
published curves form groups of their own: a pass rate on another task is no rival.

Runs that have a pass rate and stand in no ranking, because nobody knows their device-hours.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from threading import Lock
from typing import Any
from urllib.parse import urlencode

import numpy as np
from cachetools import LRUCache, cached
from django.db.models import Count, Exists, OuterRef, Prefetch, Q, QuerySet
from django.urls import reverse

from scaling import curve, ranking
from webapp.identity.accounts.models import Project
from webapp.record.recipes.models import Revision
from webapp.record.runs.bounds import label_of, recipe_key
from webapp.record.runs.models import Run
from webapp.science.curves import answers, estimates, words
from webapp.science.curves.models import Fit, ReferenceFit
from webapp.science.curves.ranking import standing
from webapp.science.curves.ranking.evidence import GRADES, MARKS, Forecast, facts_of, forecast_of
from webapp.science.curves.ranking.variation import course, seeds_of_tasks, units
from webapp.science.curves.record.recalibrating import record_of
from webapp.science.curves.selectors import published_ceiling
from webapp.science.curves.words import DEFAULT_AXIS, DEFAULT_METRIC, Payload

MOST_RUNS = 2000  # newest fitted runs that are ranked
REVISIONS = Prefetch(
    "revision", Revision.objects.select_related("recipe").defer("config")
)  # few stand behind many runs
SORTS: dict[str, tuple[str, float]] = {
    "ceiling": ("forecast", -1.0),
    "a": ("A", -1.0),
    "b": ("B", -1.0),
    "c90": ("c90", 1.0),
    "seeds": ("seeds", -1.0),
    "evidence": ("evidence_grade", -1.0),
}
FILTER = "used:none ceiling.lo:none NOT pass_rate:none"  # as the list of runs understands it


@dataclass
class Evidence:
    """The runs of one recipe revision on one task and model, with their newest fits, in the same order."""

    runs: list[Run] = field(default_factory=list)
    fits: list[estimates.RunFit] = field(default_factory=list)
    forecasts: list[Forecast | None] = field(default_factory=list)

    @property
    def pinned(self) -> list[estimates.RunFit]:
        """Those of the fits that pin the ceiling."""
        return estimates.identified(self.fits)


def leaderboard(
    project: Project,
    *,
    budget: float | None = None,
    x: str = DEFAULT_AXIS,
    published: bool = True,
    task: str = "",
    model: str = "",
    pairs: Sequence[tuple[str, str]] | None = None,
) -> list[Payload]:
    """Groups of rows, the best first; those not compared last, unranked. At most ten queries, whatever the size.

    budget: the compute on axis `x` at which they are compared; None: the largest that any run of the group has seen. On
    axes other than device-hours each run's compute is taken in proportion to what it has spent so far. task, model:
    leave only these ("" is any); pairs: only these (task, model).
    """
    evidence = _evidence(project, task, model, pairs)
    unit = units([run.pk for each in evidence for run in each.runs], x)
    seeds = seeds_of_tasks(project, x) if evidence else {}
    record = record_of(project)
    grouped: dict[tuple[str, str], list[Evidence]] = defaultdict(list)
    for each in evidence:
        grouped[each.runs[0].task, each.runs[0].model].append(each)
    groups = []
    for key, rivals in sorted(grouped.items()):
        courses = [
            [
                course(run.pk, fit.forecast, unit, record)
                for run, fit in zip(each.runs, each.fits, strict=True)
            ]
            for each in rivals
        ]
        groups.append(_own_group(key, rivals, ranking.compared(courses, seeds[key[0]], budget), x))
    return groups + (published_groups() if published else [])


def tasks_and_models(project: Project) -> dict[tuple[str, str], int]:
    """(task, model) of every fitted run, in order, with how many recipes it has there (`recipe_key`). One query."""
    known = _fitted(project).order_by("task", "model").values_list("task", "model")
    tracked = Count("name", filter=Q(revision=None), distinct=True)
    counted = known.annotate(recipes=Count("revision", distinct=True) + tracked)
    return {(task, model): recipes for task, model, recipes in counted}


def _fitted(project: Project) -> QuerySet[Run]:
    stored = Fit.objects.filter(run=OuterRef("pk"), metric=DEFAULT_METRIC, x=DEFAULT_AXIS, superseded=False)
    return Run.objects.filter(Exists(stored), project=project)


def left_out(project: Project, pairs: Sequence[tuple[str, str]]) -> int:
    """How many fitted runs of these tasks and models are too old to be ranked among the newest. One query."""
    return max(0, _of_pairs(_fitted(project), pairs).count() - MOST_RUNS)


def _of_pairs(runs: QuerySet[Run], pairs: Sequence[tuple[str, str]]) -> QuerySet[Run]:
    chosen = [Q(task=task, model=model) for task, model in pairs]
    return runs.filter(reduce(or_, chosen)) if chosen else runs.none()


def _evidence(
    project: Project, task: str, model: str, pairs: Sequence[tuple[str, str]] | None = None
) -> list[Evidence]:
    """Evidence by recipe; a tracked run without a recipe stands under its own name."""
    named = {name: value for name, value in (("task", task), ("model", model)) if value}
    wanted = _fitted(project).filter(**named).defer("config").prefetch_related(REVISIONS)
    if pairs is not None:
        wanted = _of_pairs(wanted, pairs)
    runs = list(wanted.order_by("-created_at", "id")[:MOST_RUNS])
    newest = estimates.latest([run.pk for run in runs])
    earlier = estimates.halfway({pk: 0.5 * fit.window[1] for pk, (_, fit) in newest.items()})
    found: dict[tuple, Evidence] = {}
    for run in runs:
        if run.pk in newest:
            each = found.setdefault(recipe_key(run), Evidence())
            each.runs.append(run)
            each.fits.append(newest[run.pk].fit)
            before = earlier.get(run.pk)
            each.forecasts.append(_forecast(before, newest[run.pk]) if before else None)
    return list(found.values())


@cached(LRUCache(MOST_RUNS), key=lambda earlier, newest: (earlier.pk, newest.pk), lock=Lock())
def _forecast(earlier: estimates.Stored, newest: estimates.Stored) -> Forecast | None:
    """As `forecast_of`, remembered: of two rows it is always the same."""
    return forecast_of(earlier.fit, newest.fit)


def _own_group(key: tuple[str, str], evidence: list[Evidence], found: ranking.Compared, x: str) -> Payload:
    """All numbers of a group at once: pooling is done for its recipes side by side."""
    pinned = [each.pinned for each in evidence]
    ceilings = estimates.ceilings([each.fits for each in evidence])
    efficiency = estimates.parameters(pinned, "B")
    shares = estimates.computes_to_share([each.fits for each in evidence])
    columns = zip(evidence, ceilings, efficiency, shares, _run_rows(evidence), strict=True)
    rows = [_own_row(*one) | standing.told(found, index) for index, one in enumerate(columns)]
    group = _group(*key, "device-hours", [rows[index] for index in found.here.all_in_order()])
    names = [standing.name_of(row) for row in rows]
    return group | {
        "axis": x,
        "compared_at": found.here.compute,
        "answer": standing.answer(names, found, x),
        "headline": standing.headline(names, found, x),
    }


def _own_row(
    evidence: Evidence,
    ceiling: Payload,
    efficiency: estimates.Estimate,
    share: estimates.Estimate | None,
    behind: list[Payload],
) -> Payload:
    first = evidence.runs[0]
    recipe = first.revision.recipe if first.revision else None
    facts = facts_of(evidence.fits, evidence.forecasts)
    known = ceiling["identified"]
    c90 = share or (None, None, None)
    b = efficiency if known and np.isfinite(efficiency[0]) else (None, None, None)
    return {
        "recipe": recipe.name if recipe else first.name,
        "recipe_slug": recipe.slug if recipe else None,
        "revision": first.revision.number if first.revision else None,
        "published": False,
        "source": "",
        "seeds": facts.seeds,
        "identified_seeds": facts.pinned,
        "runs": [run.pk for run in evidence.runs],
        "run_rows": behind,
        "ceiling": ceiling,
        "A": ceiling["value"], "lo": ceiling["lo"], "hi": ceiling["hi"],
        "B": b[0], "B_lo": b[1], "B_hi": b[2], "B_text": words.span(b[1:], "{:.2f}".format) if any(b[1:]) else "",
        "c90": c90[0], "c90_lo": c90[1], "c90_hi": c90[2], "c90_text": words.compute_span(*c90[1:]) if share else "",
        "evidence": GRADES[facts.grade], "evidence_grade": facts.grade, "evidence_mark": MARKS[facts.grade],
        "evidence_words": facts.sentences,
    }  # fmt: skip


def _run_rows(evidence: Sequence[Evidence]) -> list[list[Payload]]:
    """The runs behind each row; the ceilings of all of them are worked out in one go."""
    ceilings = iter(estimates.ceilings([[fit] for each in evidence for fit in each.fits]))
    return [
        [_run_row(*one, next(ceilings)) for one in zip(each.runs, each.fits, each.forecasts, strict=True)]
        for each in evidence
    ]


def _run_row(run: Run, fit: estimates.RunFit, forecast: Forecast | None, ceiling: Payload) -> Payload:
    """One run behind a row."""
    return {
        "id": run.pk,
        "label": label_of(run),
        "state": run.state,
        "ceiling": ceiling,
        "n": fit.n,
        "r2": fit.r2,
        "window_text": f"{words.amount(fit.window[0])} to {words.amount(fit.window[1])} h",
        "status": fit.status,
        "message": fit.message,
        "forecast": forecast.words if forecast else "",
        "held": forecast.held if forecast else None,
    }


def published_groups() -> list[Payload]:
    """The published curves, grouped by their task and model. Their R0 is not published: no pass rate at a budget."""
    grouped: dict[tuple[str, str, str], list[Payload]] = defaultdict(list)
    for reference in ReferenceFit.objects.all():
        grouped[reference.task, reference.model, reference.unit].append(_published_row(reference))
    return [
        _group(task, model, unit, _ranked_as_published(rows))
        for (task, model, unit), rows in sorted(grouped.items(), reverse=True)
    ]


def _published_row(reference: ReferenceFit) -> Payload:
    ceiling = published_ceiling(reference)
    c90 = curve.compute_for(answers.SHARE_OF_GAIN, r0=0.0, a=1.0, b=reference.b, c_mid=reference.c_mid)
    empty = ("B_lo", "B_hi", "c90_lo", "c90_hi")
    return dict.fromkeys(empty) | standing.NOTHING | {
        "recipe": reference.name,
        "recipe_slug": reference.slug,
        "revision": None,
        "published": True,
        "source": reference.source,
        "margin": reference.margin,
        "seeds": None,
        "identified_seeds": None,
        "runs": [],
        "run_rows": [],
        "ceiling": ceiling,
        "A": reference.a, "lo": ceiling["lo"], "hi": ceiling["hi"], "B": reference.b,
        "B_text": "", "c90": c90, "c90_text": "",
        "evidence": "published", "evidence_grade": None, "evidence_mark": "", "evidence_words": [],
    }  # fmt: skip


def _ranked_as_published(rows: Sequence[Payload]) -> list[Payload]:
    """By A with its authors' margin, which knows of seeds: there is no forecast of a published curve."""
    means = [ranking.mean_of([(row["A"], row["lo"], row["hi"])], ranking.ALONE) for row in rows]
    places = [one.rank for one in ranking.standings(means, ranking.ALONE)]
    ranked = [
        row | {"rank": rank, "tied": places.count(rank) > 1, "tie_group": rank}
        for row, rank in zip(rows, places, strict=True)
    ]
    return sorted(ranked, key=lambda row: (row["rank"], -row["A"]))


def _group(task: str, model: str, unit: str, rows: list[Payload]) -> Payload:
    """Rows in their order, with one scale for their whiskers."""
    forecast = [{"lo": row["forecast_lo"], "hi": row["forecast_hi"]} for row in rows]
    return {
        "task": task,
        "model": model,
        "unit": unit,
        "published": bool(rows) and all(row["published"] for row in rows),
        "axis": DEFAULT_AXIS,
        "compared_at": None,
        "rows": rows,
        "scale": words.scale([*rows, *forecast]),
        "answer": [],
        "headline": "",
    }


def in_order(rows: Sequence[Payload], sort: str) -> list[Payload]:
    """Rows sorted by another column, the best first, what is not known last; ranks stay those at the shared compute."""
    if sort not in SORTS:
        return list(rows)
    name, sign = SORTS[sort]
    known = [row for row in rows if row[name] is not None]
    return sorted(known, key=lambda row: sign * row[name]) + [row for row in rows if row[name] is None]


def unranked(project: Project, task: str = "", model: str = "") -> dict[str, Any]:
    """How many there are of this task and model ("" is any), and where they are listed. One query."""
    fitted = Fit.objects.filter(run=OuterRef("pk"), superseded=False)
    named = {name: value for name, value in (("task", task), ("model", model)) if value}
    runs = Run.objects.filter(
        ~Exists(fitted), project=project, summary__used_hours=None, summary__pass_rate__isnull=False, **named
    )
    words = [FILTER, *(f'{name}:"{value}"' for name, value in named.items())]
    return {"count": runs.count(), "url": f"{reverse('runs')}?{urlencode({'filter': ' '.join(words)})}"}
