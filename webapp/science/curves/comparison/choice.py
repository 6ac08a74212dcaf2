"""What somebody wants to see side by side, as it stands in a URL or in a request to the API."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db.models import Q

from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Run
from webapp.science.curves.models import ReferenceFit

MOST_RUNS = 120
BY = {"run": "Runs", "recipe": "Recipes"}


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
    if not slug or not number.isdecimal() or len(number) > 9:
        return None
    return slug, int(number)
