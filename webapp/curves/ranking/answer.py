"""What a leaderboard says in sentences: which recipe wins, how sure that is, and what more compute buys."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scaling import compare, recipes
from webapp.curves import estimates, words
from webapp.curves.axes import DEFAULT_LEVEL
from webapp.curves.estimates import RunFit

Payload = dict[str, Any]
N = 4000
FEW_SEEDS = 3


def group_answer(rows: Sequence[Payload], fits: Sequence[Sequence[RunFit]]) -> list[str]:
    """Sentences of one group: `rows` in the order of their ranks, and the fits behind each of them."""
    ranked = [row for row in rows if row["rank"] is not None]
    if not ranked:
        return [_nobody(rows)]
    return [_winner(ranked) + _how_sure(ranked, fits), " ".join(filter(None, _next_hour(rows, ranked, fits)))]


def name_of(row: Payload) -> str:
    """ "ScaleRL rev 2"."""
    return f"{row['recipe']} rev {row['revision']}" if row["revision"] is not None else row["recipe"]


def _nobody(rows: Sequence[Payload]) -> str:
    if len(rows) == 1:
        first = f"The ceiling of {name_of(rows[0])} is not identified yet: its curve has to bend first."
    else:
        first = f"None of the {len(rows)} ceilings is identified yet: the curves have to bend first."
    return f"{first} More compute will tell."


def _winner(ranked: Sequence[Payload]) -> str:
    first, ceiling = ranked[0], ranked[0]["ceiling"]
    shown = f"{ceiling['text']} ({ceiling['interval_text']})"
    tied = [row for row in ranked[1:] if row["rank"] == 1]
    if len(ranked) == 1:
        return f"{name_of(first)} has a ceiling of {shown}; there is nothing to compare it with yet."
    if not tied:
        gap, (lo, hi) = compare.difference(_ceiling(first), _ceiling(ranked[1]))
        ends = " to ".join("open" if end is None else words.signed(end) for end in (lo, hi))
        return (
            f"{name_of(first)} wins, with a ceiling of {shown}: above {name_of(ranked[1])} by {gap:.3f} "
            f"({words.percent(DEFAULT_LEVEL)} {ends})."
        )
    names = ", ".join(name_of(row) for row in tied[:3]) + (
        f" and {len(tied) - 3} more" if len(tied) > 3 else ""
    )
    ahead = f"{name_of(first)} is ahead with a ceiling of {shown}"
    return f"No single winner: {ahead}, but {names} can't be told apart from it."


def _how_sure(ranked: Sequence[Payload], fits: Sequence[Sequence[RunFit]]) -> str:
    """Probability that the first's ceiling is the highest of those identified, from their intervals."""
    if len(ranked) < 2:
        return ""
    pinned = [estimates.identified(fits[index]) for index in range(len(ranked))]
    columns = estimates.pooled_columns(pinned, estimates.said_of("A"), log=False)
    rng = np.random.default_rng(0)
    even = columns.samples((np.arange(N) + 0.5) / N)
    samples = [rng.permutation(even[:, index]) for index in range(len(ranked))]
    best = float(recipes.best_of(samples)[0])
    text = "above 0.99" if best > 0.99 else f"{best:.2f}"
    alone = sum(row["seeds"] == 1 for row in ranked)
    of_them = (
        "each of them stands"
        if alone == len(ranked)
        else f"{alone} of them {'stands' if alone == 1 else 'stand'}"
    )
    doubt = f"; {of_them} on one seed, which cannot tell how far seeds differ" if alone else ""
    return f" That its ceiling is the highest has probability {text}{doubt}."


def _next_hour(
    rows: Sequence[Payload], ranked: Sequence[Payload], fits: Sequence[Sequence[RunFit]]
) -> list[str]:
    return [_more_of_the_first(ranked[0], fits[0]), _what_would_decide(ranked), _open_rivals(rows)]


def _more_of_the_first(first: Payload, fits: Sequence[RunFit]) -> str:
    """What doubling the longest run of the first adds; worked out when its fit was stored."""
    pinned = estimates.identified(fits)
    longest = max(pinned, key=lambda fit: fit.window[1])
    if longest.outlook is None or longest.outlook.doubling is None:
        return ""
    gain, lo, hi = longest.outlook.doubling
    at = longest.window[1]
    return (
        f"Doubling its longest run, from {words.amount(at)} to {words.amount(2 * at)} device-hours, would add "
        f"{words.signed(gain)} ({words.percent(DEFAULT_LEVEL)} {words.signed(lo)} to {words.signed(hi)})."
    )


def _what_would_decide(ranked: Sequence[Payload]) -> str:
    """Where more compute would tell the most among those tied with the first."""
    tied = [row for row in ranked if row["rank"] == 1]
    if len(tied) < 2:
        return ""
    apart = [row for row in tied[1:] if tied[0]["A"] - row["A"] > compare.MARGIN]
    if not apart:
        return (
            f"The tied ceilings are within {compare.MARGIN:g}, which counts as level: "
            "there the more efficient one is worth more than another seed."
        )
    widest = max([tied[0], *apart], key=lambda row: row["hi"] - row["lo"])
    how = "another seed of" if widest["seeds"] < FEW_SEEDS else "longer runs of"
    span = f"{words.rate(widest['lo'])} to {words.rate(widest['hi'])}"
    return f"What would decide soonest is {how} {name_of(widest)}, whose interval is the widest of the tied ({span})."


def _open_rivals(rows: Sequence[Payload]) -> str:
    unknown = [name_of(row) for row in rows if row["rank"] is None]
    if not unknown:
        return ""
    few = ", ".join(unknown[:2]) + (f" and {len(unknown) - 2} more" if len(unknown) > 2 else "")
    verb = "is" if len(unknown) == 1 else "are"
    return f"{few} {verb} not identified yet and may still be a rival: more compute there would tell."


def _ceiling(row: Payload) -> compare.Ceiling:
    return row["A"], row["lo"], row["hi"]
