"""The list of recipes: newest revision, use, and the forecast ceiling of the newest tried revision. Few queries."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from webapp.identity.accounts.models import Project
from webapp.interfaces.pages.launching.fields import grouped, size_of
from webapp.interfaces.pages.overview import seeds_words
from webapp.record.recipes.models import Recipe
from webapp.record.recipes.selectors import recipes_of
from webapp.science.curves.ranking.leaderboard import leaderboard

Payload = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """A recipe in its sizes, with its best evidence: of the newest revision that has a fit, the task with the most
    seeds."""

    recipes: list[Recipe]  # the small size first
    evidence: Payload | None  # {"task", "model", "revision", "ceiling", "seeds", "others"}

    @property
    def recipe(self) -> Recipe:
        """The largest size, whose name and description speak for all."""
        return self.recipes[-1]

    @property
    def sizes(self) -> list[tuple[str, Recipe]]:
        return [(size_of(recipe.slug), recipe) for recipe in self.recipes]

    @property
    def num_runs(self) -> int:
        return sum(getattr(recipe, "run_count", 0) for recipe in self.recipes)

    @property
    def changed_at(self) -> datetime | None:
        return max((recipe.latest_at for recipe in self.recipes if recipe.latest_at), default=None)  # type: ignore[attr-defined]


def entries(project: Project, *, q: str = "") -> list[tuple[str, list[Entry]]]:
    """(group, recipes) whose name, slug or description holds every word of `q`; the best evidence first."""
    evidence = evidence_by_recipe(project)
    words = q.lower().split()
    found = [
        recipe
        for recipe in recipes_of(project)
        if all(word in f"{recipe.name} {recipe.slug} {recipe.description}".lower() for word in words)
    ]
    return [
        (title, sorted((_entry(family, evidence) for family in families), key=_evidence_first))
        for title, families in grouped(found, lambda recipe: recipe.slug)
    ]


def _entry(family: list[Recipe], evidence: dict[str, Payload]) -> Entry:
    known = [evidence[recipe.slug] for recipe in family if recipe.slug in evidence]
    return Entry(family, max(known, key=lambda row: row["seeds"], default=None))


def _evidence_first(entry: Entry) -> tuple[int, int]:
    return -(entry.evidence["seeds"] if entry.evidence else 0), -entry.num_runs


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


def evidence_of(recipe: Recipe) -> list[Payload]:
    """Every revision of one recipe that has a fit, on each task and model, newest revision first, on one scale."""
    rows = [
        row | {"task": group["task"], "model": group["model"], "scale": tuple(group["scale"])} | _shown(row)
        for group in leaderboard(recipe.project, published=False)
        for row in group["rows"]
        if row["recipe_slug"] == recipe.slug
    ]
    return sorted(rows, key=lambda row: (-row["revision"], row["task"], row["model"]))
