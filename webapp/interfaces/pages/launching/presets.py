"""The project's recipes in the order in which people reach for them. Pure functions."""

from collections.abc import Mapping, Sequence

from webapp.record.recipes.models import Revision
from webapp.record.recipes.services import shipped_slugs

PREVALENT = ("scalerl", "deepseek-grpo", "qwen25-dapo", "magistral", "minimax")
SMALL = "tiny-"
GROUPS = (
    "On two CPU cores",
    "As published",
    "Of this project",
    "On two CPU cores: one choice of ScaleRL changed",
    "One choice of ScaleRL changed",
    "More, on two CPU cores",
    "More",
)

Group = tuple[str, list[Revision]]


def grouped(newest: Sequence[Revision]) -> list[Group]:
    """(title, the newest revision of each recipe) in the order of GROUPS; without the empty ones."""
    shipped = shipped_slugs()
    groups: list[Group] = [(title, []) for title in GROUPS]
    for revision in sorted(newest, key=_order):
        groups[_place(revision.recipe.slug, shipped)][1].append(revision)
    return [group for group in groups if group[1]]


def _order(revision: Revision) -> tuple[int, str]:
    name = revision.recipe.slug.removeprefix(SMALL)
    return PREVALENT.index(name) if name in PREVALENT else len(PREVALENT), name


def _place(slug: str, shipped: frozenset[str]) -> int:
    name, is_small = slug.removeprefix(SMALL), slug.startswith(SMALL)
    if slug not in shipped:
        return 2
    if name in PREVALENT:
        return 0 if is_small else 1
    if name.startswith("loo-"):
        return 3 if is_small else 4
    return 5 if is_small else 6


def prominent(
    groups: Sequence[Group], shipped: Mapping[str, int]
) -> list[tuple[str, list[tuple[Revision, int]]]]:
    """(title, (newest revision, the revision to launch) of each recipe) of those that stand above the form as presets.

    A recipe that came with Headroom is launched as it came: launching a variant stores that as its newest revision.
    """
    return [
        (title, [(revision, shipped.get(revision.recipe.slug, revision.number)) for revision in group])
        for title, group in groups
        if title in GROUPS[:3]
    ]
