"""Where the time of some steps went: a drawing of lanes, and the same in numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.http import QueryDict

from webapp.interfaces.pages.durations import duration
from webapp.record.runs.models import Run
from webapp.record.runs.timeline import LANES, Span, Timeline, timeline_of

STEPS = 20  # that a page draws
WIDTH, ROW, GAP, MOST_ROWS = 1000, 14, 10, 12
WORDS = {
    "generate": "generation", "reward": "rewards", "weights": "weights on their way", "update": "update",
    "wait": "waits for a batch", "evaluate": "evaluation", "gen": "generation", "testing": "evaluation",
}  # fmt: skip
PLACES = {"wait": "waits"}  # the rest has the colour of its lane


@dataclass(frozen=True)
class Bar:
    """A span as it is drawn."""

    x: str
    y: int
    width: str
    css: str
    words: str


def timeline_context(run: Run, query: QueryDict) -> dict[str, Any]:
    """The steps up to `until` of the query, or the newest."""
    found = timeline_of(run, until_of(query), STEPS)
    if not found.spans:
        return {"timeline": found}
    return {
        "timeline": found,
        "lanes": _lanes(found.spans),
        "bars": _bars(found.spans),
        "height": _heights(found.spans)[-1][1],
        "totals": totals(found),
        "span": _seconds(_ends(found.spans)[1]),
        "earlier": found.first - 1 if found.first > 0 else None,
        "later": min(found.newest or 0, found.last + STEPS) if found.last < (found.newest or 0) else None,
    }


def until_of(query: QueryDict) -> int | None:
    """The step that is asked for; None for the newest, and for what is no step."""
    said = query.get("until", "")
    return int(said) if said.isascii() and said.isdecimal() and len(said) < 16 else None


def totals(timeline: Timeline) -> list[dict[str, str]]:
    """What each part took: of a step on average, and of the whole time."""
    length = _ends(timeline.spans)[1]
    steps = len({span.step for span in timeline.spans if span.lane != "Evaluation"}) or 1
    sums: dict[tuple[int, str], float] = {}
    for span in timeline.spans:
        place = LANES.index(span.lane), WORDS.get(span.name, span.name.replace("_", " "))
        sums[place] = sums.get(place, 0.0) + span.seconds
    return [
        {
            "lane": LANES[lane],
            "name": name,
            "a_step": _seconds(seconds / steps),
            "share": f"{100 * seconds / length:.0f} %",
        }
        for (lane, name), seconds in sorted(sums.items())
    ]


def _ends(spans: Sequence[Span]) -> tuple[float, float]:
    """When the first began, and seconds from there to the last end."""
    began = min(span.began for span in spans)
    return began, max(max(span.began + span.seconds for span in spans) - began, 1e-3)


def _heights(spans: Sequence[Span]) -> list[tuple[str, int]]:
    """(lane, its lower end) from the top, of lanes that have spans."""
    lower, found = 0, []
    for lane in LANES:
        rows = [span.row for span in spans if span.lane == lane]
        if rows:
            lower += ROW * min(MOST_ROWS, max(rows) + 1) + GAP
            found.append((lane, lower))
    return found


def _lanes(spans: Sequence[Span]) -> list[tuple[str, int]]:
    """(lane, where its name stands)."""
    tops = [0, *(lower for _, lower in _heights(spans))]
    return [(lane, top + ROW) for (lane, _), top in zip(_heights(spans), tops, strict=False)]


def _bars(spans: Sequence[Span]) -> list[Bar]:
    began, length = _ends(spans)
    heights = _heights(spans)
    tops = dict(zip((lane for lane, _ in heights), [0, *(lower for _, lower in heights)], strict=False))
    return [
        Bar(
            x=f"{WIDTH * (span.began - began) / length:.1f}",
            y=tops[span.lane] + ROW * (span.row % MOST_ROWS) + 2,
            width=f"{max(1.0, WIDTH * span.seconds / length):.1f}",
            css=PLACES.get(span.name, f"s{LANES.index(span.lane) + 1}"),
            words=f"step {span.step}: {WORDS.get(span.name, span.name)}, {_seconds(span.seconds)}",
        )
        for span in spans
    ]


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 10 else duration(timedelta(seconds=seconds))
