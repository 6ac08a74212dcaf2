"""What the list says of a filter that was understood but may not mean what its author thinks."""

from collections.abc import Iterator

from django.db.models import QuerySet

from webapp.identity.accounts.models import Project
from webapp.interfaces.pages.run_list.listing import ListState
from webapp.record.recipes.models import Recipe
from webapp.record.runs.filtering import Compiled, config_values
from webapp.record.runs.filtering.completing import settings_of_newest
from webapp.record.runs.filtering.errors import nearest
from webapp.record.runs.filtering.fields import BY_NAME, config_path
from webapp.record.runs.filtering.tree import And, Node, Not, Or, Word, comparisons
from webapp.record.runs.models import Run

MISSING_VIEW = "This view does not exist any more, or is not shared with you."


def notes(compiled: Compiled, state: ListState, project: Project) -> list[str]:
    """Sentences in the order of the filter; a query only where it names a recipe, a person or a setting."""
    found = [_missing_view(state)] if state.view_missing else []
    recipes = _named(compiled, "recipe")
    if recipes:
        known = {
            text.lower()
            for pair in Recipe.objects.filter(project=project).values_list("slug", "name")
            for text in pair
        }
        found += [_unknown("recipe", name, known, state) for name in recipes if name.lower() not in known]
    people = [name for field in ("by", "user") for name in _named(compiled, field) if name.lower() != "me"]
    if people:
        known = {name.lower() for name in project.members.values_list("username", flat=True)}
        found += [_unknown("member", name, known, state) for name in people if name.lower() not in known]
    found += _unknown_settings(compiled, project)
    return found + [_field_as_word(word) for word in _words(compiled.node) if word.lower() in BY_NAME]


def _missing_view(state: ListState) -> str:
    return MISSING_VIEW if state.filter else f"{MISSING_VIEW} You see all runs."


def _named(compiled: Compiled, field: str) -> list[str]:
    """Whole names (no patterns, no parts) that the filter asks for."""
    return [
        value.text
        for comparison in comparisons(compiled.node)
        if comparison.field == field and comparison.op != "~"
        for value in comparison.values
        if value.quoted or ("*" not in value.text and value.text.lower() != "none")
    ]


def _unknown(what: str, name: str, known: set[str], state: ListState) -> str:
    named = f"The view “{state.view}” names" if state.view and not state.changed else "This filter names"
    return f"{named} the {what} “{name}”, which this project does not have (any more).{_did_you_mean(name, known)}"


def _unknown_settings(compiled: Compiled, project: Project) -> list[str]:
    """The settings of the filter that no run of the project has."""
    named = {each.field for each in comparisons(compiled.node) if each.field.startswith("config.")}
    if not named:
        return []
    known = settings_of_newest(project)
    runs = Run.objects.filter(project=project)
    missing = [name for name in sorted(named - known) if not _some_have(runs, name)]
    return [
        f"No run of this project has the setting “{name}”.{_did_you_mean(name, known)}" for name in missing
    ]


def _some_have(runs: QuerySet[Run], setting: str) -> bool:
    return runs.exclude(config_values.missing("config", config_path(setting))).exists()


def _did_you_mean(name: str, known: set[str]) -> str:
    hint = nearest(name, sorted(known))
    return f" {hint[:1].upper()}{hint[1:]}" if hint else ""


def _field_as_word(word: str) -> str:
    example = BY_NAME[word.lower()].example
    return f"“{word}” is searched for as a word. To compare, write for example {example}"


def _words(node: Node | None) -> Iterator[str]:
    if isinstance(node, Word):
        yield node.text
    elif isinstance(node, Not):
        yield from _words(node.item)
    elif isinstance(node, And | Or):
        for item in node.items:
            yield from _words(item)
