"""Which of the chosen can be told apart, in sentences: ceilings by the paper's rule, then how fast they climb."""

from collections.abc import Sequence
from itertools import combinations

from scaling import compare
from webapp.curves import words
from webapp.curves.axes import DEFAULT_LEVEL
from webapp.curves.comparison.entries import PUBLISHED, Entry

PAIRS_UP_TO = 3  # entries; of more only the leader is told apart from the others


def ranks(entries: Sequence[Entry]) -> dict[str, int]:
    """Key -> rank among its rivals by `scaling.compare.rank`; without those whose ceiling is not identified."""
    found: dict[str, int] = {}
    for rivals in by_rivals(entries).values():
        ranked = [one for one in rivals if one.ceiling["identified"]]
        places = compare.rank([_ceiling(one) for one in ranked])
        found |= {one.key: place for one, place in zip(ranked, places, strict=True)}
    return found


def by_rivals(entries: Sequence[Entry]) -> dict[tuple[str, str], list[Entry]]:
    """Entries by task and model, without the published: those are of other tasks."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if entry.kind != PUBLISHED:
            groups.setdefault(entry.rivals, []).append(entry)
    return groups


def sentences(entries: Sequence[Entry], view: str, *, unfitted: str = "") -> list[str]:
    """What can be told apart, and what cannot be compared at all. `unfitted`: why none of them has a fit."""
    own = [entry for entry in entries if entry.kind != PUBLISHED]
    groups = by_rivals(own)
    several = [rivals for rivals in groups.values() if len(rivals) > 1]
    ordered = [sentence for rivals in several for sentence in _of_rivals(rivals)]
    if unfitted and several:
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
        return [f"{a} and {b} differ in task or model: their ceilings are not rivals."]
    parts = [
        f"{task}, {model} ({words.count(len(rivals), 'curve')})" for (task, model), rivals in groups.items()
    ]
    return [
        f"The chosen differ in task or model: {'; '.join(parts)}. Ceilings are ranked within each, not across."
    ]


def _of_rivals(rivals: list[Entry]) -> list[str]:
    """Every pair of a few; of more, the leader against the rest."""
    if len(rivals) <= PAIRS_UP_TO:
        return [pair_sentence(a, b) for a, b in combinations(rivals, 2)]
    ranked = sorted(
        (one for one in rivals if one.ceiling["identified"]), key=lambda one: -one.ceiling["value"]
    )
    silent = len(rivals) - len(ranked)
    rest = [f"{words.count(silent, 'ceiling is', 'ceilings are')} not identified yet."] if silent else []
    if not ranked:
        return [
            f"None of the {len(rivals)} ceilings is identified yet, so nothing can be said of their order."
        ]
    places = ranks(rivals)
    tied = [one for one in ranked[1:] if places[one.key] == 1]
    below = [one for one in ranked[1:] if places[one.key] > 1]
    leader = ranked[0]
    said = [
        f"{leader.label} has the highest ceiling, {leader.ceiling['text']} ({leader.ceiling['interval_text']})."
    ]
    if tied:
        said.append(f"It cannot be told apart from {_names(tied)}.")
    if below:
        said.append(_below(leader, below))
    return said + rest


def _below(leader: Entry, others: list[Entry]) -> str:
    """How far the nearest of the others lies below."""
    delta, (lo, hi) = compare.difference(_ceiling(leader), _ceiling(others[0]))
    ends = " to ".join("open" if end is None else words.signed(end) for end in (lo, hi))
    apart = f"by {delta:.3f} ({words.percent(DEFAULT_LEVEL)} {ends})"
    if len(others) == 1:
        return f"{others[0].label} lies below, {apart}."
    return f"{_names(others)} lie below. The nearest of them, {others[0].label}, {apart}."


def _names(entries: Sequence[Entry], most: int = 4) -> str:
    labels = [entry.label for entry in entries]
    if len(labels) > most:
        return f"{', '.join(labels[:most])} and {len(labels) - most} more"
    return " and ".join(filter(None, [", ".join(labels[:-1]), labels[-1]]))


def pair_sentence(a: Entry, b: Entry) -> str:
    """Whether two rivals can be told apart."""
    if not a.ceiling["identified"] or not b.ceiling["identified"]:
        open_ended = b if a.ceiling["identified"] else a
        return (
            f"{a.label} against {b.label}: the ceiling of {open_ended.label} is not identified yet, "
            "so nothing can be said."
        )
    if a.live_fit is not None and b.live_fit is not None:
        result = compare.compare(a.live_fit, b.live_fit)
    else:
        result = _of_means(a, b)
    return _verdict(result, a.label, b.label) + _halfway(a, b)


def _of_means(a: Entry, b: Entry) -> compare.Comparison:
    """The same rule for ceilings of several runs; their B are each at its own ceiling: a tie says nothing of them."""
    delta, (lo, hi) = compare.difference(_ceiling(a), _ceiling(b))
    if abs(delta) <= compare.MARGIN + 1e-12:
        tie = f"the ceilings tie: {abs(delta):.3f} apart, within {compare.MARGIN:g}"
        return compare.Comparison("tie_ceiling", tie, delta, (lo, hi))
    if (lo is None or lo <= 0) and (hi is None or hi >= 0):
        return compare.Comparison("undecided", "the difference may be zero", delta, (lo, hi))
    return compare.Comparison("a" if delta > 0 else "b", "", delta, (lo, hi))


def _ceiling(entry: Entry) -> compare.Ceiling:
    return entry.ceiling["value"], entry.ceiling["lo"], entry.ceiling["hi"]


def _halfway(a: Entry, b: Entry) -> str:
    """Which is halfway up its curve with less compute, where their intervals of C_mid tell."""
    half_a, half_b = ((entry.parameters or {}).get("C_mid") for entry in (a, b))
    if half_a is None or half_b is None:
        return ""
    if half_a[0] > half_b[0]:
        return _halfway(b, a)
    latest, earliest = half_a[2], half_b[1]
    if latest is None or earliest is None or latest >= earliest:
        return ""
    share = 100 * half_a[0] / half_b[0]
    return f" {a.label} is halfway up its curve with {share:.0f} % of the compute that {b.label} takes."


def _verdict(result: compare.Comparison, name_a: str, name_b: str) -> str:
    delta, (lo, hi) = result.delta_a or 0.0, result.delta_a_interval
    apart, leader, other = abs(delta), name_a, name_b
    if delta < 0:
        leader, other = name_b, name_a
        lo, hi = None if hi is None else -hi, None if lo is None else -lo
    lead = " to ".join("open" if end is None else words.signed(end) for end in (lo, hi))
    if result.winner in ("a", "b"):
        return (
            f"{leader} has a higher ceiling than {other}, by {apart:.3f} ({words.percent(DEFAULT_LEVEL)} {lead}); "
            f"differences up to {compare.MARGIN:g} would count as a tie."
        )
    if result.winner == "undecided" and result.delta_a is not None:
        return (
            f"{leader} and {other} cannot be told apart yet: the ceiling of the first is {apart:.3f} higher, which may "
            f"be chance ({words.percent(DEFAULT_LEVEL)} {lead})."
        )
    tie = f"{name_a} and {name_b} tie in ceiling ({apart:.3f} apart, within {compare.MARGIN:g})"
    if result.B_a is None or result.B_b is None:
        return f"{tie}."
    tie = f"{tie}; at the shared ceiling {result.shared_A:.3f} their B are {result.B_a:.2f} and {result.B_b:.2f}"
    if result.more_efficient is None:
        return f"{tie}, which their intervals do not tell apart."
    return f"{tie}: {name_a if result.more_efficient == 'a' else name_b} is more efficient."
