"""The runs list as a page, as what htmx swaps, and as what changed since a cursor."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse

from webapp.base.requests import without_nul
from webapp.identity.accounts.models import Project
from webapp.interfaces.pages.access import current_project, granted, signed_in
from webapp.interfaces.pages.answers import page_or_fragment, wants_fragment
from webapp.interfaces.pages.run_list.columns import (
    ALWAYS,
    BY_KEY,
    COLUMNS,
    DEFAULTS,
    Column,
    is_setting,
    rows_of,
)
from webapp.interfaces.pages.run_list.listing import MAX_TOTAL, ListState, Table, state_of
from webapp.record.recipes.models import Recipe
from webapp.record.runs.bulk import ACTIONS, NEEDS, report_of
from webapp.record.runs.filtering import Compiled, FilterError, compile_filter, fields
from webapp.record.runs.filtering.completing import settings_of_newest
from webapp.record.runs.filtering.fields import BY_NAME, FIELDS, config_path
from webapp.record.runs.filtering.parsing import And, Node, Not, Or, Word, comparisons, nearest
from webapp.record.runs.models import Run
from webapp.record.savedviews.selectors import Views, views_of

CURSOR = "X-Cursor"  # asked: what the page knows; answered: what it knows then
RELOAD = "X-Reload"
BUILT_IN = (
    ("All", ""),
    ("Unfinished", "state:unfinished"),
    ("Mine", "by:me"),
    ("Alarms", "alarm:active"),
    ("Archived", "archived:yes"),
    ("Deleted", "deleted:yes"),
)
BUTTONS = {"change": "Edit"}  # where it is not the action's own name


def list_page(request: HttpRequest, *, problem: str = "", status: int = 200) -> HttpResponse:
    """The list that the address asks for; `problem` is what went wrong with something that was sent."""
    project, user = current_project(request), signed_in(request)
    known = request.headers.get(CURSOR)
    # What a page asks again and again says all of its state, whatever became of its saved view.
    views = views_of(user, project) if known is None else Views([], None)
    plain = not request.GET and not problem and not wants_fragment(request)
    if plain and views.default and views.by_id(str(views.default)):
        return redirect(f"{reverse('runs')}?view={views.default}")
    state = state_of(request.GET, views)
    try:
        compiled = compile_filter(state.filter, user=user)
    except FilterError as error:
        return _wrong_filter(request, project, state, views, error, problem)
    table = Table(project, state, compiled, request.GET.get("page"))
    if known is not None:
        return _what_changed(request, table, known)
    context = _context(request, project, state, views, table) | _empty(compiled, project, table, request)
    context |= {"notes": notes(compiled, state, project), "problem": problem}
    return page_or_fragment(request, "runs/list.html", "runs/_swap.html", context, status)


def state_from(request: HttpRequest, back: str) -> None:
    """Take the list's state from what a form sent along, as if it were in the address."""
    request.GET = without_nul(QueryDict(back[:8000]))  # type: ignore[assignment]


def _what_changed(request: HttpRequest, table: Table, known: str) -> HttpResponse:
    """204, the rows that changed, or the advice to ask for all of it."""
    if known == table.cursor:
        return HttpResponse(status=204)
    if not table.keep_changed(known):
        return HttpResponse(headers={RELOAD: "yes"})
    rows = table.html_of(rows_of(table.changed_runs))
    response = render(request, "runs/_rows.html", {"rows": rows})
    response[CURSOR] = table.cursor
    response["X-Live"] = "yes" if table.live else "no"
    return response


def _wrong_filter(
    request: HttpRequest,
    project: Project,
    state: ListState,
    views: Views,
    error: FilterError,
    problem: str,
) -> HttpResponse:
    """htmx keeps the table that is there; a page shows all runs, and says so."""
    if request.headers.get(CURSOR) is not None:
        return HttpResponse(status=204)
    if wants_fragment(request):
        response = render(request, "runs/_note.html", {"error": error, "oob": True})
        response["HX-Reswap"], response["HX-Push-Url"] = "none", "false"
        return response
    table = Table(project, state, compile_filter("", user=None))
    context = _context(request, project, state, views, table)
    context |= {"error": error, "problem": problem, "any_run": True}
    return render(request, "runs/list.html", context, status=error.status)


def _context(
    request: HttpRequest, project: Project, state: ListState, views: Views, table: Table
) -> dict[str, Any]:
    tabs = [
        {
            "title": title,
            "filter": text,
            "current": not state.view and not state.view_missing and state.filter == text,
        }
        for title, text in BUILT_IN
    ]
    return {
        "state": state,
        "table": table,
        "views": views,
        "tabs": tabs,
        "columns": _columns_to_choose(state),
        "settings_shown": ",".join(key for key in state.columns if is_setting(key)),
        "default_columns": ",".join(DEFAULTS),
        "fields": FIELDS,
        "max_total": MAX_TOTAL,
        "bulk_actions": [
            (action, BUTTONS.get(action, action.capitalize()))
            for action in ACTIONS
            if NEEDS[action] in granted(request) and (action != "restore" or table.shows_deleted)
        ],
        "report": report_of(project, request.GET.get("report", "")),
    }


def _columns_to_choose(state: ListState) -> list[tuple[Column, bool, bool]]:
    """(column, whether it is shown, whether it always is): those that are shown first, in their order."""
    shown = [BY_KEY[key] for key in state.columns if key in BY_KEY]
    others = [column for column in COLUMNS if column not in shown]
    return [(column, column in shown, column.key == ALWAYS) for column in (*shown, *others)]


def _empty(compiled: Compiled, project: Project, table: Table, request: HttpRequest) -> dict[str, Any]:
    """Why nothing is there; read only then."""
    if table.total:
        return {"any_run": True}
    hidden = 0
    if not compiled.names("archived"):
        text = f"archived:yes {f'({compiled.text})' if compiled.node else ''}"
        with suppress(FilterError):  # too long with what was added
            condition = compile_filter(text, user=signed_in(request)).condition
            hidden = Run.objects.filter(project=project).filter(condition).count()
    return {"any_run": Run.objects.filter(project=project).exists(), "archived": hidden}


MISSING_VIEW = "This view does not exist any more, or is not shared with you."


def notes(compiled: Compiled, state: ListState, project: Project) -> list[str]:
    """Sentences in the order of the filter; a query only where it names a recipe, a person or a setting."""
    found = [MISSING_VIEW + ("" if state.filter else " You see all runs.")] if state.view_missing else []
    if recipes := _named(compiled, "recipe"):
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
    missing = [
        name
        for name in sorted(named - known)
        if not runs.exclude(fields.missing("config", config_path(name))).exists()
    ]
    return [
        f"No run of this project has the setting “{name}”.{_did_you_mean(name, known)}" for name in missing
    ]


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
