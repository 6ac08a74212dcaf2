"""The project's recipes in the groups of docs/recipes.md, one family a recipe in its sizes. Pure functions."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from webapp.record.recipes.models import Revision
from webapp.record.recipes.services import shipped_slugs

PREVALENT = ("scalerl", "deepseek-grpo", "qwen25-dapo", "magistral", "minimax")
SMALL = "tiny-"
GROUPS = (
    "Of this project",
    "ScaleRL",
    "Prevalent",
    "Leave-one-out",
    "One axis of ScaleRL",
    "Other models and machines",
    "Other practice",
)

T = TypeVar("T")
Family = list[T]  # a recipe in its sizes, the small one first


def grouped(recipes: Iterable[T], slug_of: Callable[[T], str]) -> list[tuple[str, list[Family[T]]]]:
    """(title, families) in the order of GROUPS, the usual families first; without the empty groups."""
    families: dict[str, Family[T]] = {}
    for recipe in usual_first(recipes, slug_of):
        families.setdefault(family_of(slug_of(recipe)), []).append(recipe)
    groups: list[tuple[str, list[Family[T]]]] = [(title, []) for title in GROUPS]
    for name, family in families.items():
        groups[_place(name, [slug_of(recipe) for recipe in family])][1].append(family)
    return [group for group in groups if group[1]]


def usual_first(recipes: Iterable[T], slug_of: Callable[[T], str]) -> list[T]:
    """The prevalent ones, each small before full, then the others by name."""
    return sorted(recipes, key=lambda recipe: _order(slug_of(recipe)))


def family_of(slug: str) -> str:
    """A recipe's name whatever its size."""
    return slug.removeprefix(SMALL)


def size_of(slug: str) -> str:
    """ "2 cores", or "as published" where the recipe came with Headroom, else "full"."""
    if slug.startswith(SMALL):
        return "2 cores"
    return "as published" if slug in shipped_slugs() else "full"


def slug_of(revision: Revision) -> str:
    """Of its recipe."""
    return revision.recipe.slug


def options(newest: Iterable[Revision], chosen: Revision) -> list[tuple[str, list[tuple[str, str]]]]:
    """(group, (slug, name) of each recipe), in the size of the chosen one where it has that."""
    is_small = slug_of(chosen).startswith(SMALL)
    found = []
    for title, families in grouped(newest, slug_of):
        shown = [
            next((one for one in family if slug_of(one).startswith(SMALL) == is_small), family[0]).recipe
            for family in families
        ]
        found.append((title, [(recipe.slug, recipe.name) for recipe in shown]))
    return found


def sizes(newest: Iterable[Revision], chosen: Revision, shipped: Mapping[str, int]) -> list[dict[str, Any]]:
    """The sizes of the chosen recipe, each with the revision that it came with: a variant's launch stores a newer."""
    return [
        {
            "title": size_of(slug_of(revision)),
            "slug": slug_of(revision),
            "number": shipped.get(slug_of(revision), revision.number),
            "current": revision.recipe_id == chosen.recipe_id,
        }
        for revision in newest
        if family_of(slug_of(revision)) == family_of(slug_of(chosen))
    ]


def _order(slug: str) -> tuple[int, str, bool]:
    name = family_of(slug)
    place = PREVALENT.index(name) if name in PREVALENT else len(PREVALENT)
    return place, name, not slug.startswith(SMALL)


def _place(name: str, slugs: list[str]) -> int:
    shipped = shipped_slugs()
    if not shipped.issuperset(slugs):
        return 0
    if name in PREVALENT:
        return 1 if name == PREVALENT[0] else 2
    if name.startswith("loo-"):
        return 3
    if name.startswith(f"{PREVALENT[0]}-"):
        return 4 if SMALL + name in shipped else 5
    return 6
