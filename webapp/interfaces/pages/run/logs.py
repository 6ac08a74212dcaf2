"""The log of a run's attempt as its page shows it: the newest lines, earlier ones, or those that hold a text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict
from django.template.loader import render_to_string

from webapp.record.logs.selectors import MOST_WANTED, Gap, Kept, Line, last_error_of
from webapp.record.runs.models import Attempt, Run

SHOWN = 500  # lines at a time
CONTEXT = 50  # lines that follow a line which somebody asked to see in its place
MOST_AT_ONCE = 2000  # of a poll


@dataclass(frozen=True)
class LogPage:
    """Some lines. `gap`: what was left out between them, at its place; `is_live`: the newest are among them."""

    kept: Kept
    lines: Sequence[Line]
    wanted: str
    is_live: bool
    more: bool  # there are more matches than are shown

    context = CONTEXT

    @property
    def before(self) -> Sequence[Line]:
        """The lines before the gap; all where there is none in between."""
        gap = self.gap
        return self.lines if gap is None else [line for line in self.lines if line.number < gap.first]

    @property
    def after(self) -> Sequence[Line]:
        gap = self.gap
        return [] if gap is None else [line for line in self.lines if line.number >= gap.first]

    @property
    def gap(self) -> Gap | None:
        """What was left out, where its place is among the lines."""
        gap = self.kept.gap
        if gap is None or self.wanted or not self.lines or not self.cursor >= gap.first - 1:
            return None
        return gap if self.lines[0].number <= gap.first + gap.lines else None

    @property
    def cursor(self) -> int:
        """The number of the last line that is shown."""
        return self.lines[-1].number if self.lines else 0

    @property
    def earlier(self) -> int:
        """The number before which earlier lines lie; 0 where there are none."""
        first = self.lines[0].number if self.lines else 0
        return first if first > 1 and not self.wanted else 0

    @property
    def later(self) -> int:
        """The number before which the next lines lie; 0 where the newest are shown."""
        return 0 if self.is_live or self.wanted else min(self.cursor + SHOWN + 1, self.kept.total + 1)


def log_page(attempt: Attempt, query: QueryDict) -> LogPage:
    """What the address asks for: `q` lines that hold a text, `before` the lines before a number, else the newest."""
    kept = Kept(attempt)
    wanted = query.get("q", "")[:MOST_WANTED]
    if wanted:
        lines = kept.newest_matching(wanted, SHOWN + 1)
        return LogPage(kept, lines[-SHOWN:], wanted, False, len(lines) > SHOWN)
    before = _number(query.get("before", ""))
    if before is not None and 1 < before <= kept.total:
        return LogPage(kept, kept.before(before, SHOWN), "", False, False)
    return LogPage(kept, kept.newest(SHOWN), "", True, False)


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


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None


def last_words(run: Run) -> str:
    """The end of a failed run's log as HTML, for the top of its page; empty where there is none."""
    lines = last_error_of(run)
    return render_to_string("run/_last_words.html", {"run": run, "lines": lines}).strip() if lines else ""
