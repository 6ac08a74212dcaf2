"""What a list of runs shows: the state that its address holds, and the page of runs that follows from it.

Every order of runs is total: the newest first, then the id, tells equal runs apart.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.db.models import F
from django.db.models.functions import Lower
from django.http import QueryDict
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from webapp.base.formats import whole_in
from webapp.identity.accounts.models import Project
from webapp.interfaces.pages.marks import shared_scale
from webapp.interfaces.pages.run_list.columns import (
    DEFAULTS,
    Column,
    Row,
    chosen_keys,
    columns_of,
    is_setting,
    row_html,
    rows_of,
)
from webapp.record.runs.filtering import Compiled
from webapp.record.runs.filtering.fields import (
    CONFIG_PREFIX,
    MAX_PATH,
    STATE_GROUPS,
    config_path,
    json_at,
    text_of,
)
from webapp.record.runs.filtering.parsing import And, Comparison, Node, Value, Word, to_text
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import listed
from webapp.record.runs.states import ACTIVE
from webapp.record.savedviews.models import SavedView
from webapp.record.savedviews.selectors import Views

PAGE_SIZE = 50
MAX_TOTAL = 20_000  # runs are counted up to here; beyond, a filter is asked for
DEFAULT_SORT = "-created"
# Name -> what is compared; where it is missing, the run comes last in either direction.
SORTS: dict[str, tuple[Any, ...]] = {
    "created": (F("created_at"),),
    "started": (F("started_at"),),
    "ended": (F("ended_at"),),
    "state": (F("state"),),
    "name": (Lower("name"),),
    "id": (F("id"),),
    "recipe": (Lower("revision__recipe__name"), F("revision__number")),
    "task": (Lower("task"), Lower("model")),
    "model": (Lower("model"),),
    "seed": (F("seed"),),
    "by": (Lower("created_by__username"),),
    "origin": (F("origin"),),
    "attempt": (F("attempt_number"),),
    "budget": (F("budget_hours"),),
    "used": (F("summary__used_hours"),),
    "pass_rate": (F("summary__pass_rate"),),
    "ceiling": (F("summary__ceiling"), F("summary__ceiling_lo")),  # those not known by their lower end
    "ceiling.lo": (F("summary__ceiling_lo"),),
}
TEXT_SORTS = frozenset(
    {"state", "name", "id", "recipe", "task", "model", "by", "origin"}
)  # from a to z at first


@dataclass(frozen=True)
class ListState:
    """All that the address of a list says."""

    filter: str = ""
    sort: str = DEFAULT_SORT
    columns: tuple[str, ...] = DEFAULTS
    view: SavedView | None = None
    view_missing: bool = False  # the address names a view that is not there for this person

    @property
    def changed(self) -> bool:
        """Whether it shows something else than the saved view that it started from."""
        if self.view is None:
            return False
        return replace(of_view(self.view), view=None) != replace(self, view=None)

    @property
    def archived_too(self) -> str:
        """The filter for what it would find among archived runs."""
        return f"archived:yes ({self.filter})" if self.filter else "archived:yes"

    @property
    def column_list(self) -> str:
        """The columns as an address holds them; empty for the default ones."""
        return "" if self.columns == DEFAULTS else ",".join(self.columns)

    @property
    def query(self) -> dict[str, str]:
        """The parameters that make this list again; beside a saved view all of them, whatever becomes of the view."""
        if self.view is not None:
            columns = ",".join(self.columns)
            return {"view": str(self.view.pk), "filter": self.filter, "sort": self.sort, "columns": columns}
        sort = "" if self.sort == DEFAULT_SORT else self.sort
        asked = {"filter": self.filter, "sort": sort, "columns": self.column_list}
        return {name: value for name, value in asked.items() if value} or {"view": "all"}


def of_view(view: SavedView) -> ListState:
    """The list as a saved view has it."""
    return ListState(view.filter, known_sort(view.sort), chosen_keys(view.columns), view)


def state_of(query: QueryDict, views: Views) -> ListState:
    """What the address asks for; what it does not say, its saved view or the default says."""
    asked = query.get("view", "")
    view = views.by_id(asked)
    base = of_view(view) if view else ListState(view_missing=asked.isdigit())
    changes: dict[str, Any] = {}
    if "filter" in query or view is None:
        changes["filter"] = _filter_of(query)
    if query.get("sort"):
        changes["sort"] = known_sort(query.get("sort", ""))
    if any(query.getlist("columns")):
        settings = [key.strip() for key in query.get("setting", "").split(",") if key.strip()]
        changes["columns"] = chosen_keys([*query.getlist("columns"), *settings])
    return replace(base, **changes)


def _filter_of(query: QueryDict) -> str:
    """The filter, with the older parameters q, state, recipe and alarm as what they are short for."""
    said = {name: query.get(name, "").strip() for name in ("state", "recipe", "alarm", "q", "filter")}
    parts: list[Node] = []
    if said["state"] in STATE_GROUPS:
        parts.append(Comparison("state", ":", (Value(said["state"]),)))
    if said["recipe"]:
        parts.append(Comparison("recipe", ":", (Value(said["recipe"], quoted="*" in said["recipe"]),)))
    if said["alarm"] in ("active", "any"):
        parts.append(Comparison("alarm", ":", (Value(said["alarm"]),)))
    if said["q"]:
        parts.append(Word(said["q"]))
    short = to_text(parts[0] if len(parts) == 1 else And(tuple(parts))) if parts else ""
    text = said["filter"]
    return f"{short} ({text})" if short and text else short or text


class Table:
    """A page of the runs that a filter leaves. Reads what is asked of it, each once."""

    def __init__(
        self, project: Project, state: ListState, compiled: Compiled, number: str | None = None
    ) -> None:
        self.state = state
        self._project = project
        self._found = compiled.runs(project)
        self.shows_deleted = compiled.names("deleted")
        self._asked = whole_in(number or "") or 1

    @cached_property
    def total(self) -> int:
        """How many runs there are, at most MAX_TOTAL + 1."""
        return self._found.order_by().values("pk")[: MAX_TOTAL + 1].count()

    @property
    def url_query(self) -> str:
        """The query of this very page."""
        page = {"page": str(self.number)} if self.number > 1 else {}
        return urlencode(self.state.query | page)

    @property
    def list_query(self) -> str:
        """The query of all pages of this list, for its files."""
        return urlencode(self.state.query)

    @property
    def more(self) -> bool:
        return self.total > MAX_TOTAL

    @property
    def pages(self) -> int:
        return max(1, -(-min(self.total, MAX_TOTAL) // PAGE_SIZE))

    @property
    def number(self) -> int:
        return min(max(1, self._asked), self.pages)

    @property
    def first(self) -> int:
        return (self.number - 1) * PAGE_SIZE + 1

    @property
    def last(self) -> int:
        return self.first + len(self.runs) - 1

    @cached_property
    def runs(self) -> list[Run]:
        """The page's runs with summaries and the settings that are shown. Two queries: which, then all of them."""
        start = (self.number - 1) * PAGE_SIZE
        order = self._found.order_by(*ordering(self.state.sort))
        ids = list(order.values_list("pk", flat=True)[start : start + PAGE_SIZE])
        return runs_with_settings(self._project, ids, self.state.columns)

    @cached_property
    def scale(self) -> tuple[float, float]:
        return shared_scale([row.ceiling for row in self.rows])

    @property
    def live(self) -> bool:
        return any(run.state in ACTIVE for run in self.runs)

    @cached_property
    def rows(self) -> list[Row]:
        return rows_of(self.runs)

    @property
    def heads(self) -> list[dict[str, Any]]:
        """The columns with what a click on their head asks for, and how they are sorted now."""
        heads = [_head(column, self.state.sort) for column in columns_of(self.state.columns)]
        for head in [head for head in heads if head["aria"]][1:]:
            head["aria"] = ""  # two columns may show the same order; one says so
        return heads

    @property
    def layout(self) -> str:
        """A digest of all but the rows' content: as long as it stays, single rows can be exchanged."""
        parts = (self.total, self.scale, self.state.columns, [run.pk for run in self.runs])
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]

    @property
    def cursor(self) -> str:
        """What the page knows: its layout and each row's version."""
        return ".".join([self.layout, *(str(run.version) for run in self.runs)])

    def keep_changed(self, cursor: str) -> bool:
        """Keep only the runs that changed since `cursor`; False where more than rows changed."""
        layout, *versions = cursor.split(".")
        if layout != self.layout or len(versions) != len(self.runs):
            return False
        pairs = zip(self.runs, versions, strict=True)
        self.changed_runs = [run for run, version in pairs if str(run.version) != version]
        return True

    def html_of(self, rows: list[Row]) -> SafeString:
        """These rows of the table."""
        columns, scale = columns_of(self.state.columns), self.scale
        return format_html_join("\n", "{}", ((row_html(row, columns, scale),) for row in rows))

    def all_rows(self) -> SafeString:
        return self.html_of(self.rows)


def _head(column: Column, sort: str) -> dict[str, Any]:
    name = sort.removeprefix("-")
    here = bool(column.sort) and column.sort == name
    down = sort.startswith("-")
    is_descending = down != (column.key == "age")  # the newest has the least age
    direction = "descending" if is_descending else "ascending"
    following = (name if down else f"-{name}") if here else first_direction(column.sort)
    return {"column": column, "aria": direction if here else "", "next": following if column.sort else ""}


def everything(compiled: Compiled, project: Project, limit: int, sort: str = DEFAULT_SORT) -> list[str]:
    """Ids of the runs that a filter leaves, in this order, at most `limit` + 1."""
    found = compiled.runs(project).order_by(*ordering(sort))
    return list(found.values_list("pk", flat=True)[: limit + 1])


def runs_with_settings(project: Project, ids: Sequence[str], columns: Iterable[str]) -> list[Run]:
    """These runs in this order, each with its summary and the settings that the columns show. One query."""
    settings = [key for key in columns if is_setting(key)]
    aliases = {f"setting_{i}": text_of("config", config_path(key)) for i, key in enumerate(settings)}
    by_id: dict[str, Any] = listed(project).annotate(**aliases).in_bulk(ids)
    found = [by_id[pk] for pk in ids if pk in by_id]
    for run in found:
        run.settings_shown = {key: getattr(run, f"setting_{i}") for i, key in enumerate(settings)}
    return found


def known_sort(sort: str) -> str:
    """The same order, or the default where there is none of this name."""
    name = sort.removeprefix("-")
    path = config_path(name)
    is_setting = name.startswith(CONFIG_PREFIX) and all(path) and len(path) <= MAX_PATH
    return sort if name in SORTS or is_setting else DEFAULT_SORT


def first_direction(name: str) -> str:
    """What a first click on a column asks for: words from a to z, numbers and times from the greatest."""
    return name if name in TEXT_SORTS else f"-{name}"


def ordering(sort: str) -> list[Any]:
    """For `order_by`; a leading `-` turns it around."""
    sort = known_sort(sort)
    name = sort.removeprefix("-")
    down = sort.startswith("-")
    if name == "created":  # no run lacks it, and so an index serves the order
        return ["-created_at" if down else "created_at", "id"]
    keys = SORTS.get(name) or (json_at("config", config_path(name)),)
    ordered = [key.desc(nulls_last=True) if down else key.asc(nulls_last=True) for key in keys]
    return [*ordered, "-created_at", "id"]
