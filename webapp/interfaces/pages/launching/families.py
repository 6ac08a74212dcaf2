"""The project's recipes in the groups of docs/recipes.md, one family a recipe in its sizes. Pure functions."""

from collections.abc import Callable, Iterable
from typing import TypeVar

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


def in_size_of(slug: str, family: Family[T], slug_of: Callable[[T], str]) -> T:
    """Of a family the member in the size of `slug`, else its first."""
    is_small = slug.startswith(SMALL)
    return next((recipe for recipe in family if slug_of(recipe).startswith(SMALL) == is_small), family[0])


def family_of(slug: str) -> str:
    """A recipe's name whatever its size."""
    return slug.removeprefix(SMALL)


def size_of(slug: str) -> str:
    """ "two CPU cores", or "as published" where the recipe came with Headroom, else "full"."""
    if slug.startswith(SMALL):
        return "two CPU cores"
    return "as published" if slug in shipped_slugs() else "full"


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
