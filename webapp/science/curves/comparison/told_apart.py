"""Which of the chosen can be told apart, in the sentences of `webapp.science.curves.ranking.standing`."""

from collections.abc import Sequence
from itertools import combinations

from scaling import ranking
from scaling.ranking import Compared
from webapp.science.curves import words
from webapp.science.curves.axes import DEFAULT_AXIS, DEFAULT_LEVEL
from webapp.science.curves.comparison.entries import PUBLISHED, Entry
from webapp.science.curves.ranking import standing

PAIRS_UP_TO = 3  # entries, of which every pair is told


def compared(
    rivals: Sequence[Entry], compute: float | None = None, *, level: float = DEFAULT_LEVEL
) -> Compared:
    """Rivals at `compute`, else at the largest that any of their runs has seen; `level` of each one's interval."""
    return ranking.compared([entry.courses for entry in rivals], rivals[0].between, compute, level=level)


def by_rivals(entries: Sequence[Entry]) -> dict[tuple[str, str], list[Entry]]:
    """Entries by task and model, without the published: those are of other tasks."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if entry.kind != PUBLISHED:
            groups.setdefault(entry.rivals, []).append(entry)
    return groups


def sentences(entries: Sequence[Entry], view: str, x: str = DEFAULT_AXIS, *, unfitted: str = "") -> list[str]:
    """What can be told apart, and what cannot be compared at all. `unfitted`: why none of them has a fit,
    which keeps those without a forecast from being compared."""
    own = [entry for entry in entries if entry.kind != PUBLISHED]
    groups = by_rivals(own)
    several = [rivals for rivals in groups.values() if len(rivals) > 1]
    ordered = [sentence for rivals in several for sentence in _of_rivals(rivals, x)]
    if unfitted and several and not any(entry.reach for entry in own):
        ordered = [f"Nothing can be said of their order. {unfitted}"]
    said = ordered + _apart(groups)
    published = len(entries) > len(own)
    if published and view == "rate":
        said.append(
            "Published curves state no R0, so they cannot be drawn as pass rates; "
            "switch to the share of the gain to see their shapes."
        )
    if published and own:
        said.append("Published pass rates are of other tasks and models: compare shapes, not heights.")
    return said


def _apart(groups: dict[tuple[str, str], list[Entry]]) -> list[str]:
    if len(groups) < 2:
        return []
    if all(len(rivals) == 1 for rivals in groups.values()) and len(groups) == 2:
        a, b = (rivals[0].label for rivals in groups.values())
        return [f"{a} and {b} differ in task or model: they are not rivals."]
    parts = [
        f"{task}, {model} ({words.count(len(rivals), 'curve')})" for (task, model), rivals in groups.items()
    ]
    return [
        f"The chosen differ in task or model: {'; '.join(parts)}. They are ranked within each, not across."
    ]


def _of_rivals(rivals: list[Entry], x: str) -> list[str]:
    """Every pair of a few, and what their seeds say; of more, who is ahead."""
    names, found = [entry.label for entry in rivals], compared(rivals)
    if len(rivals) > PAIRS_UP_TO or not found.here.in_order():
        return standing.answer(names, found, x)
    pairs = [standing.pair(names, found, a, b, x) for a, b in combinations(range(len(rivals)), 2)]
    return [*pairs, standing.seeds_sentence(found)]
