"""Where the time of some steps went: a drawing of lanes, and the same in numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.http import QueryDict

from webapp.interfaces.pages.ages import duration
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
    tops, height = _places(found.spans)
    began, length = _ends(found.spans)
    return {
        "timeline": found,
        "lanes": [(lane, top + ROW) for lane, top in tops.items()],  # where their names stand
        "bars": _bars(found.spans, tops, began, length),
        "height": height,
        "totals": totals(found),
        "span": _seconds(length),
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


def _places(spans: Sequence[Span]) -> tuple[dict[str, int], int]:
    """(lane -> its upper end, from the top, of lanes that have spans; the height of all)."""
    height, tops = 0, {}
    for lane in LANES:
        rows = [span.row for span in spans if span.lane == lane]
        if rows:
            tops[lane] = height
            height += ROW * min(MOST_ROWS, max(rows) + 1) + GAP
    return tops, height


def _bars(spans: Sequence[Span], tops: Mapping[str, int], began: float, length: float) -> list[Bar]:
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
