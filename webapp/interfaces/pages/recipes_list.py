"""The list of recipes: newest revision, use, and the forecast ceiling of the newest tried revision. Few queries."""

from dataclasses import dataclass
from typing import Any

from webapp.identity.accounts.models import Project
from webapp.interfaces.pages.launching.presets import PREVALENT, SMALL
from webapp.interfaces.pages.overview import seeds_words
from webapp.record.recipes.models import Recipe
from webapp.record.recipes.selectors import recipes_of
from webapp.science.curves.ranking.leaderboard import leaderboard

Payload = dict[str, Any]
SORTS = {
    "usual": "Usual first",
    "used": "Most used",
    "changed": "Newest change",
    "name": "Name",
    "ceiling": "Forecast ceiling",
}


@dataclass(frozen=True)
class Entry:
    """A recipe with its best evidence: of the newest revision that has a fit, the task with the most seeds."""

    recipe: Recipe
    evidence: Payload | None  # {"task", "model", "revision", "ceiling", "seeds", "others"}


def entries(project: Project, *, q: str = "", sort: str = "usual") -> list[Entry]:
    """The project's recipes whose name, slug or description holds every word of `q`."""
    evidence = evidence_by_recipe(project)
    words = q.lower().split()
    found = [
        Entry(recipe, evidence.get(recipe.slug))
        for recipe in recipes_of(project)
        if all(word in f"{recipe.name} {recipe.slug} {recipe.description}".lower() for word in words)
    ]
    return sorted(found, key=_ORDERS.get(sort, _usual))


def evidence_by_recipe(project: Project) -> dict[str, Payload]:
    """Slug -> the forecast ceiling of its newest revision with a fit, on the task with most seeds, and on how many
    others."""
    rows: dict[str, list[Payload]] = {}
    for group in leaderboard(project, published=False):
        for row in group["rows"]:
            if row["recipe_slug"]:
                rows.setdefault(row["recipe_slug"], []).append(
                    row | {"task": group["task"], "model": group["model"]}
                )
    return {slug: _best(found) for slug, found in rows.items()}


def _best(rows: list[Payload]) -> Payload:
    newest = max(row["revision"] for row in rows)
    of_newest = sorted((row for row in rows if row["revision"] == newest), key=lambda row: -row["seeds"])
    return of_newest[0] | {"others": len(of_newest) - 1, **_shown(of_newest[0])}


def _shown(row: Payload) -> Payload:
    return {"ceiling": row["forecast_ceiling"], "seeds_text": seeds_words(row)}


def _usual(entry: Entry) -> tuple:
    """As the launch form has them: those in use, then the prevalent ones, the small before the full."""
    name = entry.recipe.slug.removeprefix(SMALL)
    place = PREVALENT.index(name) if name in PREVALENT else len(PREVALENT)
    is_full = not entry.recipe.slug.startswith(SMALL)
    return not _runs(entry), place == len(PREVALENT), is_full, place, entry.recipe.slug


def _runs(entry: Entry) -> int:
    return getattr(entry.recipe, "run_count", 0)


def _ceiling(entry: Entry) -> tuple:
    """Known ones by height, then the others."""
    value = entry.evidence["ceiling"]["value"] if entry.evidence else None
    return value is None, -(value or 0.0), entry.recipe.slug


_ORDERS = {
    "usual": _usual,
    "used": lambda entry: (-_runs(entry), entry.recipe.slug),
    "changed": lambda entry: (
        -entry.recipe.latest_at.timestamp() if entry.recipe.latest_at else 0,
        entry.recipe.slug,
    ),
    "name": lambda entry: (entry.recipe.name.lower(), entry.recipe.slug),
    "ceiling": _ceiling,
}


def evidence_of(recipe: Recipe) -> list[Payload]:
    """Every revision of one recipe that has a fit, on each task and model, newest revision first, on one scale."""
    rows = [
        row | {"task": group["task"], "model": group["model"], "scale": tuple(group["scale"])} | _shown(row)
        for group in leaderboard(recipe.project, published=False)
        for row in group["rows"]
        if row["recipe_slug"] == recipe.slug
    ]
    return sorted(rows, key=lambda row: (-row["revision"], row["task"], row["model"]))
