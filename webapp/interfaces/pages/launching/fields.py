"""A draft as the page shows it: sections of fields, each with its text, its problem and what the revision says.

The project's recipes in the groups of docs/recipes.md, one family a recipe in its sizes. Pure functions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django.http import HttpRequest

from training.schema import CLIP_DEFAULTS
from training.tasks import task_options
from webapp.base.formats import whole_in
from webapp.identity.accounts.models import Project
from webapp.interfaces.pages.launching.draft import CLIPS, ESSENTIALS, Draft
from webapp.interfaces.pages.launching.specs import Spec, by_path, cut, fields_of, get, sections, to_text
from webapp.record.recipes.models import Revision
from webapp.record.recipes.services import shipped_slugs

SHORT = 48  # characters of a value in a sentence
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


@dataclass(frozen=True)
class Field:
    """One setting with what was asked for."""

    spec: Spec
    text: str
    base_text: str
    problems: tuple[str, ...] = ()
    note: str = ""  # what another setting makes of this one

    @property
    def is_changed(self) -> bool:
        """Whether it differs from the chosen revision."""
        return self.text != self.base_text

    @property
    def status(self) -> dict[str, Any]:
        """What stands under its widget: its problems, and what the revision says where it differs."""
        return {
            "id": f"st-{self.spec.id}",
            "widget": f"i-{self.spec.id}",
            "name": self.spec.name,
            "problems": self.problems,
            "is_changed": self.is_changed,
            "was": shown(self.spec, self.base_text),
            "base_text": self.base_text,
            "note": self.note,
        }

    @property
    def default(self) -> str:
        """The schema's default in words; empty where a value must be given."""
        return "" if self.spec.required else shown(self.spec, to_text(self.spec, self.spec.default))


def shown(spec: Spec, text: str) -> str:
    """A value in a sentence: "on", "not set", or the text itself, cut where it is long."""
    if spec.kind == "switch":
        return "on" if text == "true" else "off"
    if not text.strip():
        return "not set"
    return cut(text, SHORT)


def field_of(draft: Draft, path: str) -> Field:
    """One setting of a draft."""
    spec = by_path()[path]
    problems = tuple(draft.checked.problems.get(path, ()))
    return Field(spec, draft.text(spec), draft.base_text(spec), problems, _note(draft, path))


def _note(draft: Draft, path: str) -> str:
    """Whether the setting has an effect beside the others."""
    if path not in CLIPS:
        return ""
    loss_type = str(get(draft.config, "loss.type"))
    used = path.rsplit(".", 1)[-1] in CLIP_DEFAULTS.get(loss_type, {})
    return "" if used else f"Not used by the loss {loss_type}."


def sections_of(draft: Draft) -> list[dict[str, Any]]:
    """Every section with the settings that do not stand on top already, what it says first, and how many fields want to
    be seen."""
    on_top = set(ESSENTIALS.values())
    found = []
    for section in sections():
        fields = [field_of(draft, spec.path) for spec in section.specs if spec.path not in on_top]
        said = [one for one in fields if one.text.strip() and not one.spec.is_long]
        own = bool(draft.checked.problems.get(section.key))
        found.append(
            {
                "key": section.key,
                "title": section.title,
                "help": section.help,
                "fields": fields,
                "num_changed": sum(one.is_changed for one in fields),
                "num_problems": sum(bool(one.problems) for one in fields) + own,
                "preview": ", ".join(
                    f"{one.spec.label.lower()} {shown(one.spec, one.text)}" for one in said[:3]
                ),
            }
        )
    return [section for section in found if section["fields"]]


def choices() -> list[tuple[str, list[Spec]]]:
    """Every setting that one may change alone, by the title of its section."""
    return [
        (
            section.title,
            [spec for spec in section.specs if spec.path not in ("seed", "name", "title", "description")],
        )
        for section in sections()
    ]


def options_of(task: str) -> list[Field]:
    """What a task's options are, for reading: the defaults as texts. Empty for a task that is not there."""
    schema = task_options(task)
    return [Field(spec, "", to_text(spec, spec.default)) for spec in fields_of(schema)] if schema else []


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


def newest_revisions(project: Project) -> list[Revision]:
    """The newest revision of each recipe."""
    newest = Revision.objects.filter(recipe__project=project).select_related("recipe")
    return list(newest.order_by("recipe_id", "-number").distinct("recipe_id"))


def asked_revision(request: HttpRequest, newest: Sequence[Revision], usual: int | None = None) -> Revision:
    """The revision that the request names, else the newest of its recipe, else of the first recipe.

    usual: the number that is meant whatever the request says.
    """
    sent = request.POST if request.method == "POST" else request.GET
    found = next((one for one in newest if slug_of(one) == sent.get("recipe")), newest[0])
    number = whole_in(sent.get("revision", "")) if usual is None else usual
    is_of_another = request.headers.get("HX-Trigger-Name") == "recipe"  # the number is of the recipe before
    if number in (None, found.number) or is_of_another:
        return found
    return found.recipe.revisions.select_related("recipe").filter(number=number).first() or found


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
