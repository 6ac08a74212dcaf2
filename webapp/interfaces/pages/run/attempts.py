"""The log of a run's attempt as its page shows it: the newest lines, earlier ones, or those that hold a text.

The attempts of a run as its page shows them. Pure functions of stored attempts.

What a run's page says before Resume is pressed, where that would not go on from a checkpoint.

What the run page says of alarms: the banner above the chart, and the words in its head.

What a run's page says of policies that acted in its current attempt.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.http import QueryDict
from django.template.loader import render_to_string
from django.utils.html import format_html

from headroom.adapters.naming import SYSTEM
from webapp.base.formats import whole_in
from webapp.identity.audit.models import Event
from webapp.record.logs.selectors import MOST_WANTED, Kept, Line, last_error_of
from webapp.record.runs.models import Attempt, Run, State
from webapp.record.runs.selectors import asks_the_store, begins_anew
from webapp.reporting.alarms import judge
from webapp.reporting.alarms.models import Alarm
from webapp.reporting.alarms.selectors import most_severe
from webapp.reporting.policies.selectors import acted_on

SHOWN = 500  # lines at a time
CONTEXT = 50  # lines that follow a line which somebody asked to see in its place
MOST_AT_ONCE = 2000  # of a poll
LIVE = {State.RUNNING, State.STOPPING}
REMOVED = "run.checkpoints_removed"
FOLLOWS = (
    "Resume begins anew, from step 0, as its next attempt: every point reported so far stays, but is superseded and "
    "in no fit."
)
STORED = (
    "The run's folder has no checkpoint. Resume takes the newest whole one of the checkpoint store; where that has "
    "none, it begins anew, from step 0, and every point reported so far stays, but is superseded and in no fit."
)


def log_page(attempt: Attempt, query: QueryDict) -> dict[str, Any]:
    """What the address asks for: `q` lines that hold a text, `before` the lines before a number, else the newest."""
    kept = Kept(attempt)
    if wanted := query.get("q", "")[:MOST_WANTED]:
        lines = kept.newest_matching(wanted, SHOWN + 1)
        return _page(kept, lines[-SHOWN:], wanted=wanted, more=len(lines) > SHOWN)
    before = whole_in(query.get("before", ""), 15)
    if before is not None and 1 < before <= kept.total:
        return _page(kept, kept.before(before, SHOWN))
    return _page(kept, kept.newest(SHOWN), is_live=True)


def _page(
    kept: Kept, lines: Sequence[Line], *, wanted: str = "", is_live: bool = False, more: bool = False
) -> dict[str, Any]:
    """Some lines. `is_live`: the newest are among them; `more`: there are more matches than are shown.

    `gap`: what was left out between `before` and `after`, where its place is among the lines; `earlier`, `later`: the
    numbers before which further lines lie, 0 where there are none.
    """
    first, last = (lines[0].number, lines[-1].number) if lines else (0, 0)
    gap = kept.gap
    if gap and (wanted or not lines or last < gap.first - 1 or first > gap.first + gap.lines):
        gap = None
    end = kept.total + 1 if gap is None else gap.first
    return {
        "kept": kept,
        "lines": lines,
        "wanted": wanted,
        "is_live": is_live,
        "more": more,
        "context": CONTEXT,
        "gap": gap,
        "before": [line for line in lines if line.number < end],
        "after": [line for line in lines if line.number >= end],
        "cursor": last,
        "earlier": first if first > 1 and not wanted else 0,
        "later": 0 if is_live or wanted else min(last + SHOWN + 1, kept.total + 1),
    }


def since(attempt: Attempt, after: int) -> dict[str, Any]:
    """The lines after a number as the page's script appends them; `more` where it should ask again at once."""
    kept = Kept(attempt)
    lines = kept.after(after, MOST_AT_ONCE)
    return {
        "lines": [[line.number, line.text] for line in lines],
        "total": kept.total,
        "closed": kept.is_closed,
        "anew": kept.is_tail,  # its end is given as a whole, and its numbers move
        "more": len(lines) == MOST_AT_ONCE,
    }


def last_words(run: Run) -> str:
    """The end of a failed run's log as HTML, for the top of its page; empty where there is none."""
    lines = last_error_of(run)
    return render_to_string("run/_last_words.html", {"run": run, "lines": lines}).strip() if lines else ""


def attempt_rows(attempts: Iterable[Attempt], now: datetime) -> list[dict[str, Any]]:
    """In the order given; `waited` before it started, `lasted` since then until it ended or now, in words."""
    return [
        {
            "attempt": attempt,
            "waited": _between(attempt.created_at, attempt.started_at or attempt.ended_at),
            "lasted": _between(
                attempt.started_at, attempt.ended_at or (now if attempt.state in LIVE else None)
            ),
            "resumed": resumed(attempt),
            "device": device(attempt),
            "reason": last_line(attempt.message),
        }
        for attempt in attempts
    ]


def resumed(attempt: Attempt) -> str:
    """Where it started: "the start", or "step 40"; nothing before it has started."""
    if attempt.started_at is None:
        return "–"
    return "the start" if attempt.resumed_from_step is None else f"step {attempt.resumed_from_step:,}"


def device(attempt: Attempt) -> str:
    """What it trains on, on one line, as its trainer says."""
    if not attempt.device:
        return "–"
    if isinstance(attempt.device, dict):
        return ", ".join(f"{name} {value}" for name, value in attempt.device.items())
    return str(attempt.device)


def last_line(text: str) -> str:
    """The last line that says something: of a traceback the error itself."""
    return (text.strip().splitlines() or [""])[-1].strip()


def _between(start: datetime | None, end: datetime | None) -> str:
    return "–" if start is None or end is None else duration(end - start)


def duration(length: timedelta) -> str:
    """The two greatest units: "3 h 12 min", "45 s"."""
    seconds = max(0, int(length.total_seconds()))
    parts = [
        (seconds // 86400, "d"),
        (seconds // 3600 % 24, "h"),
        (seconds // 60 % 60, "min"),
        (seconds % 60, "s"),
    ]
    first = next((i for i, (value, _) in enumerate(parts) if value), 3)
    shown = [f"{value} {unit}" for value, unit in parts[first : first + 2] if value]
    return " ".join(shown) or "0 s"


def before_resuming(run: Run) -> str:
    """As HTML, for a run that can be resumed; empty where it goes on from a checkpoint, or has not trained yet."""
    if asks_the_store(run):
        return format_html('<div class="note">{}</div>', STORED)
    if not begins_anew(run):
        return ""
    is_removed = Event.objects.filter(project=run.project_id, object_id=run.pk, verb=REMOVED).exists()
    why = "The clean-up has removed its checkpoints." if is_removed else "It has no checkpoint."
    return format_html('<div class="note warn">{} {}</div>', why, FOLLOWS)


def banner(alarms: Sequence[Alarm]) -> str:
    """The banner as HTML: active alarms in full, past ones collapsed; empty without any."""
    shown = most_severe(alarms)
    context: dict[str, Any] = {
        "active": [_item(alarm) for alarm in shown if alarm.active],
        "past": [_item(alarm) for alarm in shown if not alarm.active],
    }
    return render_to_string("run/_alarms.html", context).strip() if shown else ""


def headline(alarms: Sequence[Alarm]) -> str:
    """The worst active alarm in a few words: "truncation rate 12 %, and 1 more"; empty without one."""
    if not (active := [alarm for alarm in most_severe(alarms) if alarm.active]):
        return ""
    more = f", and {len(active) - 1} more" if len(active) > 1 else ""
    return f"{judge.title(active[0])} {judge.number(active[0].metric, active[0].latest)}{more}"


def worst_level(alarms: Sequence[Alarm]) -> str:
    """The level of that alarm; empty without one."""
    return next((alarm.level for alarm in alarms if alarm.active), "")


def _item(alarm: Alarm) -> dict[str, Any]:
    tab = "machines" if alarm.metric.startswith(SYSTEM) else "diagnostics"
    return judge.alarm_payload(alarm) | {"panel": alarm.metric.replace("/", "-"), "tab": tab}


def acted(run: Run) -> str:
    """As HTML; empty where none did. What was done in earlier attempts is in their tab."""
    actions = [action for action in acted_on(run) if action.attempt == run.attempt_number]
    return render_to_string("run/_policies.html", {"actions": actions}).strip() if actions else ""
