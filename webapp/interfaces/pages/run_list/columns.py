"""The columns of the runs list: which there are, and what each shows of a row. Pure functions from a row to HTML.

Rows of the runs list: everything about a page of runs in a constant number of queries, none of them for points.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import prefetch_related_objects
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from scaling.course import widened_ceiling
from webapp.interfaces.pages import marks
from webapp.interfaces.pages.templatetags.headroom import age, pill, span
from webapp.record.runs.filtering.fields import CONFIG_PREFIX, MAX_PATH, config_path
from webapp.record.runs.filtering.parsing import Comparison, Value, to_text
from webapp.record.runs.ingest import spent_hours, summary_of
from webapp.record.runs.models import Run, State
from webapp.reporting.alarms.judge import alarm_payload
from webapp.reporting.alarms.models import Alarm
from webapp.reporting.alarms.selectors import active_alarms
from webapp.science.curves import ahead, words
from webapp.science.curves.ahead import NO_FORECAST
from webapp.science.curves.record.recalibrating import Record, record_of
from webapp.science.curves.words import DEFAULT_LEVEL

Scale = tuple[float, float]
MAX_SETTINGS = 6  # columns of settings at a time
MAX_SHOWN = 60  # characters of a setting
MAX_KEY = 120  # characters of a setting's path
NOTHING = SafeString('<span class="faint">–</span>')
NO_FORECAST_YET = format_html('<span class="faint" title="{}">–</span>', NO_FORECAST)
NO_HOURS = SafeString('<span class="small muted">needs device-hours</span>')
NOT_KNOWN = SafeString('<span class="small muted">not known</span>')
ALWAYS = "name"
UNJUDGED_AFTER = timedelta(seconds=60)


@dataclass(frozen=True)
class Row:
    """One run as the list shows it."""

    run: Run
    spark: Sequence[float]
    latest: float | None
    latest_stderr: float | None
    used_hours: float | None  # None: nothing reported, or not known
    share: float | None  # of the budget; None without a budget, or where not known
    ceiling: dict[str, Any] | None  # None: no forecast
    alarms: Sequence[Alarm] = ()  # active ones, the worst first

    @property
    def alarm_words(self) -> str:
        """The active alarms in full, for the mark's tooltip."""
        return " ".join(alarm_payload(alarm)["message"] for alarm in self.alarms)

    @property
    def spent(self) -> float | None:
        """Device-hours; a run that trains elsewhere may not say them, and then nobody knows."""
        return spent_hours(self.run, self.used_hours)

    @property
    def unjudged(self) -> bool:
        """Whether no mark means nothing, because nobody has judged the newest records for a while."""
        wanted = self.run.alarms_wanted_at
        return wanted is not None and timezone.now() - wanted > UNJUDGED_AFTER


def rows_of(runs: Sequence[Run]) -> list[Row]:
    """For any number of runs one query for the active alarms, one for the record that their project's forecasts are
    recalibrated by, and one for the summaries of those that come without."""
    prefetch_related_objects(runs, "summary")
    alarms = active_alarms([run.pk for run in runs])
    records = {project: record_of(project) for project in {run.project_id for run in runs}}
    return [_row(run, alarms.get(run.pk, []), records[run.project_id]) for run in runs]


def _row(run: Run, alarms: Sequence[Alarm], record: Record) -> Row:
    summary = summary_of(run)
    spent = spent_hours(run, summary.used_hours)
    return Row(
        run=run,
        spark=summary.spark,
        latest=summary.pass_rate,
        latest_stderr=summary.pass_rate_stderr,
        used_hours=summary.used_hours,
        share=None if spent is None or not run.budget_hours else min(1.0, spent / run.budget_hours),
        ceiling=_ceiling(run, record),
        alarms=alarms,
    )


def _ceiling(run: Run, record: Record) -> dict[str, Any] | None:
    """The forecast ceiling as the run's own page has it, with words; None where nothing is forecast."""
    summary = summary_of(run)
    if summary.tail is None or summary.ceiling_lo is None or summary.ceiling_hi is None:
        return None
    status, level = summary.fit_status, summary.level or DEFAULT_LEVEL
    interval = (summary.ceiling_lo, summary.ceiling_hi)
    factor = record.widening(level, without=run.pk).factor
    if factor != 1.0:
        status, interval = widened_ceiling(summary.tail, interval, level, factor, summary.reached)
    return ahead.ceiling_from(status, summary.tail, interval, level)


@dataclass(frozen=True)
class Column:
    """One column. `cell` gives its content; `sort` names the order that its head asks for, if any."""

    key: str
    title: str
    cell: Callable[[Row, Scale], Any]
    sort: str = ""
    css: str = ""
    says: str = ""
    default: bool = False
    scale: bool = False  # its head shows the ends of the shared scale


def state_cell(row: Row, scale: Scale) -> SafeString:
    """The state, and the mark of what alarms."""
    return format_html("{}{}", pill(row.run.state), _alarm_mark(row))


def _alarm_mark(row: Row) -> SafeString | str:
    if row.alarms:
        level, count = row.alarms[0].level, len(row.alarms)
        return format_html(
            '<a class="alarm-count {}" href="{}#alarms" title="{}">{}{}<span class="sr"> alarm{}: {}</span></a>',
            level, reverse("run", args=[row.run.pk]), row.alarm_words, marks.alarm_mark(level), count,
            "" if count == 1 else "s", row.alarm_words,
        )  # fmt: skip
    if row.unjudged:
        return format_html(
            '<span class="alarm-count muted" title="{}">?<span class="sr"> alarms unknown</span></span>',
            "Its newest records were not judged for alarms: is a worker running?",
        )
    return ""


def name_cell(row: Row, scale: Scale) -> SafeString:
    """The name as a link, with recipe and tags below."""
    run = row.run
    return format_html(
        '<a href="{}">{}</a><div class="small muted">{}{}{}{}</div>',
        reverse("run", args=[run.pk]),
        run.name,
        str(run.revision) if run.revision else "tracked",
        SafeString(' <span class="pill">archived</span>') if run.archived_at else "",
        SafeString(' <span class="pill">deleted</span>') if run.deleted_at else "",
        format_html(" {}", tags_cell(row, scale)) if run.tags else "",
    )


def tags_cell(row: Row, scale: Scale) -> SafeString:
    """Tags as links to the runs that have them."""
    if not row.run.tags:
        return NOTHING
    link = lambda tag: to_text(Comparison("tag", ":", (Value(tag),)))
    return format_html_join(
        " ", '<a class="tag" href="{}?{}">{}</a>',
        ((reverse("runs"), urlencode({"filter": link(tag)}), tag) for tag in row.run.tags),
    )  # fmt: skip


def task_cell(row: Row, scale: Scale) -> SafeString:
    return format_html('{}<div class="small muted">{}</div>', row.run.task, row.run.model)


def recipe_cell(row: Row, scale: Scale) -> SafeString | str:
    if row.run.revision is None:
        return NOTHING
    recipe = row.run.revision.recipe
    return format_html('<a href="{}">{}</a>', reverse("recipe", args=[recipe.slug]), recipe.name)


def used_cell(row: Row, scale: Scale) -> SafeString | str:
    """Device-hours of the budget, in numbers and as a bar; none where they are not known."""
    budget = row.run.budget_hours
    if row.spent is None:
        return NOT_KNOWN
    return format_html(
        '<span class="small">{}{}</span>{}',
        words.amount(row.spent),
        format_html(' <span class="muted">/ {}</span>', words.amount(budget)) if budget else "",
        marks.meter(row.share, "compute used of the budget"),
    )


def whisker_cell(row: Row, scale: Scale) -> SafeString:
    """The ceiling; of what waits, when it starts, and under it for what it waits."""
    if row.ceiling is None and row.run.state == State.QUEUED and row.run.state_reason:
        *_, starts = row.run.state_reason.split("; ")
        return format_html('<span class="small muted" title="{}">{}</span>', row.run.state_reason, starts)
    if row.ceiling is None:
        return NO_FORECAST_YET if row.spent is not None else NO_HOURS
    return marks.whisker(row.ceiling, scale)


def ceiling_cell(row: Row, scale: Scale) -> SafeString | str:
    """The ceiling in numbers, never without its interval."""
    if row.ceiling is None:
        return ""
    if not row.ceiling["identified"]:
        return format_html('<span class="muted nowrap" title="not known yet">{}</span>', span(row.ceiling))
    return format_html(
        '<strong>{}</strong> <span class="muted nowrap">{}</span>', row.ceiling["text"], span(row.ceiling)
    )


def _moment(value: datetime | None) -> SafeString | str:
    return age(value) if value else NOTHING


def _text(value: Any) -> Any:
    return NOTHING if value in (None, "") else value


COLUMNS = (
    Column("state", "State", state_cell, "state", "nowrap", "State, and alarms now", True),
    Column("name", "Run", name_cell, "name", "name", "Name, recipe and tags; always shown", True),
    Column("task", "Task, model", task_cell, "task", "later", "", True),
    Column("seed", "Seed", lambda row, scale: row.run.seed, "seed", "num later", "", True),
    Column(
        "spark",
        "Pass rate",
        lambda row, scale: marks.sparkline(row.spark),
        "",
        "hide-s",
        "As a small line",
        True,
    ),
    Column(
        "latest",
        "Latest",
        lambda row, scale: words.measured(row.latest, row.latest_stderr),
        "pass_rate",
        "num",
        "Newest held-out pass rate",
        True,
    ),
    Column("used", "Device-hours", used_cell, "used", "nowrap hide-s", "Used of the budget", True),
    Column(
        "whisker",
        "Forecast ceiling, 90 %",
        whisker_cell,
        "ceiling",
        "hide-s",
        "With its interval, on one scale",
        True,
        True,
    ),
    Column(
        "ceiling", "In numbers", ceiling_cell, "ceiling", "num small", "The forecast ceiling in numbers", True
    ),
    Column(
        "age",
        "Age",
        lambda row, scale: age(row.run.created_at),
        "created",
        "num small muted nowrap",
        "Since its launch",
        True,
    ),
    Column("recipe", "Recipe", recipe_cell, "recipe"),
    Column(
        "revision",
        "Revision",
        lambda row, scale: row.run.revision.number if row.run.revision else NOTHING,
        "recipe",
        "num",
    ),
    Column("by", "By", lambda row, scale: row.run.created_by or NOTHING, "by", "", "Who launched it"),
    Column("tags", "Tags", tags_cell),
    Column("origin", "Origin", lambda row, scale: row.run.origin, "origin", "", "Launched here, or tracked"),
    Column(
        "budget",
        "Budget",
        lambda row, scale: words.amount(row.run.budget_hours),
        "budget",
        "num",
        "Device-hours",
    ),
    Column("attempt", "Attempt", lambda row, scale: row.run.attempt_number, "attempt", "num"),
    Column(
        "started", "Started", lambda row, scale: _moment(row.run.started_at), "started", "num small nowrap"
    ),
    Column("ended", "Ended", lambda row, scale: _moment(row.run.ended_at), "ended", "num small nowrap"),
    Column(
        "reason",
        "Why",
        lambda row, scale: _text(row.run.state_reason[:MAX_SHOWN]),
        "",
        "small",
        "Why it is in this state",
    ),
    Column("id", "Id", lambda row, scale: row.run.pk, "id", "mono"),
)
BY_KEY = {column.key: column for column in COLUMNS}
DEFAULTS = tuple(column.key for column in COLUMNS if column.default)


def chosen_keys(asked: Iterable[str]) -> tuple[str, ...]:
    """The known ones of what an address asks for, in its order, each once, settings last; the defaults where none is
    known. Without the run's name it comes first, or next to the state."""
    keys = [key for part in asked for key in part.split(",")]
    plain = [key for key in dict.fromkeys(keys) if key in BY_KEY]
    settings = [key for key in dict.fromkeys(keys) if is_setting(key)][:MAX_SETTINGS]
    if not plain and not settings:
        return DEFAULTS
    if ALWAYS not in plain:
        plain.insert(1 if plain[:1] == ["state"] else 0, ALWAYS)
    return (*plain, *settings)


def is_setting(key: str) -> bool:
    """Whether the key names a setting of the configuration, such as config.loss.type."""
    path = config_path(key)
    is_path = key.startswith(CONFIG_PREFIX) and all(path) and len(path) <= MAX_PATH
    return is_path and key.isprintable() and len(key) <= MAX_KEY


def columns_of(keys: Iterable[str]) -> list[Column]:
    """The columns in the order of their keys."""
    return [BY_KEY.get(key) or _setting_column(key) for key in keys]


def row_html(row: Row, columns: Iterable[Column], scale: Scale) -> SafeString:
    """A row of the table. Written here, not in a template, which would look each of the page's 500 cells up by name."""
    cells = format_html_join(
        "", "<td{}>{}</td>",
        ((format_html(' class="{}"', column.css) if column.css else "", column.cell(row, scale)) for column in columns),
    )  # fmt: skip
    run = row.run
    return format_html(
        '<tr data-run="{0}" data-version="{1}"><td><input type="checkbox" form="bulk-form" name="run" value="{0}"'
        ' aria-label="Choose {2}"></td>{3}</tr>',
        run.pk, run.version, run.name, cells,
    )  # fmt: skip


def _setting_column(key: str) -> Column:
    def cell(row: Row, scale: Scale) -> Any:
        value = row.run.settings_shown.get(key)  # type: ignore[attr-defined]
        return _text(value if value is None or len(value) <= MAX_SHOWN else f"{value[:MAX_SHOWN]}…")

    return Column(key, key.removeprefix(CONFIG_PREFIX), cell, key, "small", "A setting of the configuration")
