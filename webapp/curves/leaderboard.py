"""Recipes ranked by ceiling, per task and model, each with its interval; ties share a rank.

A row is one revision of a recipe with the newest whole-curve fits of its runs (its seeds). The published curves
form groups of their own: a pass rate on another task is no rival.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from scaling import compare, curve
from webapp.accounts.models import Project
from webapp.curves import answers
from webapp.curves.axes import DEFAULT_AXIS, DEFAULT_LEVEL
from webapp.curves.models import Fit, ReferenceFit
from webapp.curves.selectors import latest_fits
from webapp.runs.models import Run

Payload = dict[str, Any]
SHARE_OF_GAIN = answers.SHARE_OF_GAIN


@dataclass(frozen=True)
class Identified:
    """Parameters of a fit whose ceiling is identified, and that ceiling's interval."""

    params: dict[str, float]
    lo: float
    hi: float


@dataclass
class Evidence:
    """The fits of one recipe revision on one task and model."""

    recipe: str
    recipe_slug: str | None
    revision: int | None
    task: str
    model: str
    runs: list[str] = field(default_factory=list)
    fits: list[Fit] = field(default_factory=list)

    def identified(self) -> list[Identified]:
        """Those of the fits that pin the ceiling."""
        return [
            Identified(fit.params, *fit.intervals["A"])
            for fit in self.fits
            if fit.status == "ok" and fit.params and fit.intervals and None not in fit.intervals["A"]
        ]


def leaderboard(project: Project, *, budget: float | None = None, published: bool = True) -> list[Payload]:
    """Groups of rows, best ceiling first; not identified rows last, unranked. Three queries, whatever the size."""
    groups = [_own_group(task, model, rows, budget) for (task, model), rows in _evidence(project).items()]
    return groups + (published_groups(budget) if published else [])


def _evidence(project: Project) -> dict[tuple[str, str], list[Evidence]]:
    """Evidence by (task, model); a tracked run without a recipe stands under its own name."""
    runs = list(
        Run.objects.filter(project=project, fits__isnull=False)
        .select_related("revision__recipe")
        .distinct()
        .order_by("-created_at")
    )
    fits = latest_fits(run.pk for run in runs)
    found: dict[tuple, Evidence] = {}
    for run in runs:
        if run.pk in fits:
            evidence = found.setdefault(_key(run), _empty_evidence(run))
            evidence.runs.append(run.pk)
            evidence.fits.append(fits[run.pk])
    grouped: dict[tuple[str, str], list[Evidence]] = defaultdict(list)
    for evidence in found.values():
        grouped[evidence.task, evidence.model].append(evidence)
    return dict(sorted(grouped.items()))


def _key(run: Run) -> tuple:
    return run.task, run.model, run.revision_id or run.name


def _empty_evidence(run: Run) -> Evidence:
    if run.revision is None:
        return Evidence(run.name, None, None, run.task, run.model)
    recipe = run.revision.recipe
    return Evidence(recipe.name, recipe.slug, run.revision.number, run.task, run.model)


def _own_group(task: str, model: str, rows: list[Evidence], budget: float | None) -> Payload:
    return _group(task, model, "device-hours", [_own_row(row, budget) for row in rows])


def _own_row(evidence: Evidence, budget: float | None) -> Payload:
    identified = evidence.identified()
    row: Payload = {
        "recipe": evidence.recipe,
        "recipe_slug": evidence.recipe_slug,
        "revision": evidence.revision,
        "published": False,
        "source": "",
        "seeds": len(evidence.runs),
        "identified_seeds": len(identified),
        "runs": evidence.runs,
    }
    if not identified:
        return row | _not_identified(evidence.fits)
    ceilings = [(fit.params["A"], fit.lo, fit.hi) for fit in identified]
    a, lo, hi = compare.recipe_ceiling(ceilings, DEFAULT_LEVEL)
    return row | {
        "ceiling": answers.ceiling("ok", (lo, hi), a, DEFAULT_LEVEL),
        "A": a,
        "lo": lo,
        "hi": hi,
        "B": median(fit.params["B"] for fit in identified),
        "c90": median(_compute_to_share(fit.params, SHARE_OF_GAIN) for fit in identified),
        "at_budget": None if budget is None else fmean(_rate_at(fit.params, budget) for fit in identified),
    }


def _not_identified(fits: Iterable[Fit]) -> Payload:
    bounds = [fit.intervals["A"][0] for fit in fits if fit.intervals and fit.intervals["A"][0] is not None]
    lo = min(bounds) if bounds else None
    return {
        "ceiling": answers.ceiling("not_identified", (lo, None), None, DEFAULT_LEVEL),
        "A": None, "lo": lo, "hi": None, "B": None, "c90": None, "at_budget": None,
    }  # fmt: skip


def _compute_to_share(params: dict[str, float], share: float) -> float:
    """Compute at which the share of the gain A - R0 is reached (Eq. 1 solved for C)."""
    return curve.compute_for(share, r0=0.0, a=1.0, b=params["B"], c_mid=params["C_mid"])


def _rate_at(params: dict[str, float], compute: float) -> float:
    return float(curve.curve(compute, r0=params["R0"], a=params["A"], b=params["B"], c_mid=params["C_mid"]))


def published_groups(budget: float | None) -> list[Payload]:
    """The published curves, grouped by their task and model. Their R0 is not published: no pass rate at a budget."""
    grouped: dict[tuple[str, str, str], list[Payload]] = defaultdict(list)
    for reference in ReferenceFit.objects.all():
        grouped[reference.task, reference.model, reference.unit].append(_published_row(reference))
    return [
        _group(task, model, unit, rows) for (task, model, unit), rows in sorted(grouped.items(), reverse=True)
    ]


def _published_row(reference: ReferenceFit) -> Payload:
    lo, hi = reference.a - reference.margin, reference.a + reference.margin
    params = {"B": reference.b, "C_mid": reference.c_mid}
    return {
        "recipe": reference.name,
        "recipe_slug": reference.slug,
        "revision": None,
        "published": True,
        "source": reference.source,
        "seeds": None,
        "identified_seeds": None,
        "runs": [],
        "ceiling": {
            "identified": True, "value": reference.a, "lo": lo, "hi": hi, "text": f"{reference.a:.3f}",
            "interval_text": f"published, margin ± {reference.margin:g}",
        },
        "A": reference.a, "lo": lo, "hi": hi, "B": reference.b,
        "c90": _compute_to_share(params, SHARE_OF_GAIN),
        "at_budget": None,
    }  # fmt: skip


def _group(task: str, model: str, unit: str, rows: list[Payload]) -> Payload:
    """Sort, rank, and give the group one scale for its whiskers."""
    ranked = sorted((row for row in rows if row["A"] is not None), key=lambda row: -row["A"])
    unranked = [row for row in rows if row["A"] is None]
    ranks = compare.rank([(row["A"], row["lo"], row["hi"]) for row in ranked])
    for row, rank in zip(ranked, ranks, strict=True):
        row |= {"rank": rank, "tied": ranks.count(rank) > 1, "tie_group": rank}
    for row in unranked:
        row |= {"rank": None, "tied": False, "tie_group": None}
    ends = [end for row in rows for end in (row["lo"], row["hi"]) if end is not None]
    scale = [max(0.0, min(ends) - 0.05), min(1.0, max(ends) + 0.05)] if ends else [0.0, 1.0]
    return {
        "task": task,
        "model": model,
        "unit": unit,
        "published": bool(rows) and all(row["published"] for row in rows),
        "axis": DEFAULT_AXIS,
        "rows": ranked + unranked,
        "scale": scale,
    }
