"""Which recipe is better, in numbers and in the sentences that every page says: leaderboard, comparison, overview,
planner, studies and reports.

Recipes are compared by their runs' stored forecasts (`scaling.ranking`), at the compute they share and at the forecast
ceiling; a difference counts where it is more than form, noise and seeds explain. A of Eq. 1 decides nothing here: it
is the paper's parameter and stands beside.
"""

from collections.abc import Sequence

from scaling.course import widest_known
from scaling.ranking import REAL, Compared, Gap, Place, Standing, chance
from webapp.science.curves import ahead, words
from webapp.science.curves.words import AXES, DEFAULT_AXIS, DEFAULT_LEVEL, Payload

LEVEL, SURE = words.percent(DEFAULT_LEVEL), words.percent(REAL)
NAMED = 3


def name_of(row: Payload) -> str:
    """ "ScaleRL rev 2"."""
    return f"{row['recipe']} rev {row['revision']}" if row["revision"] is not None else row["recipe"]


def told(found: Compared, index: int) -> Payload:
    """What a table says of one recipe: at the shared compute, at the forecast ceiling, or why it is not compared."""
    here, ceiling = found.here.standings[index], found.ceiling.standings[index]
    tied = (
        here is not None
        and sum(one is not None and one.rank == here.rank for one in found.here.standings) > 1
    )
    shown = _shown(ceiling)
    return {
        "rank": here.rank if here else None,
        "tied": tied,
        "tie_group": here.rank if here else None,
        "compared_at": found.here.compute,
        **_columns("at_budget", here, alone=len(found.here.in_order()) == 1),
        **_columns("forecast", ceiling, alone=len(found.ceiling.in_order()) == 1),
        **({"forecast_text": shown["text"]} if ceiling else {}),
        "forecast_rank": ceiling.rank if ceiling else None,
        "forecast_ceiling": shown,
        "not_compared": found.why[index],
    } | ({} if here else {"at_budget_span": found.why[index]})


def _shown(standing: Standing | None) -> Payload:
    """A forecast ceiling as whiskers and cells show it; without a point where its interval is too wide to be known."""
    if standing is None:
        text = {"text": "not compared", "interval_text": ""}
        return {"identified": False, "value": None, "lo": None, "hi": None} | text
    ends = (standing.lo, standing.hi)
    known = ends[1] - ends[0] <= widest_known(DEFAULT_LEVEL)
    return ahead.ceiling_from("ok" if known else "not_identified", standing.value, ends, DEFAULT_LEVEL)


def _columns(name: str, standing: Standing | None, *, alone: bool = False) -> Payload:
    """alone: there is nobody whom it could be better than, so it has no chance."""
    if standing is None:
        empty = (f"{name}{end}" for end in ("", "_lo", "_hi", "_chance"))
        return dict.fromkeys(empty) | {f"{name}_text": "–", f"{name}_span": "", f"{name}_chance_text": "–"}
    ends = (standing.lo, standing.hi)
    return {
        name: standing.value,
        f"{name}_lo": standing.lo,
        f"{name}_hi": standing.hi,
        f"{name}_text": words.rate(standing.value, ends),
        f"{name}_span": span(standing),
        f"{name}_chance": None if alone else standing.chance,
        f"{name}_chance_text": "–" if alone else chance(standing.chance),
    }


NOTHING: Payload = {
    "rank": None,
    "tied": False,
    "tie_group": None,
    "compared_at": None,
    **_columns("at_budget", None),
    **_columns("forecast", None),
    "forecast_rank": None,
    "forecast_ceiling": _shown(None),
    "not_compared": "",
}  # what `told` says where nothing is compared


def span(standing: Standing) -> str:
    """ "0.781 to 0.802"."""
    return words.span((standing.lo, standing.hi))


def answer(names: Sequence[str], found: Compared, x: str = DEFAULT_AXIS) -> list[str]:
    """Who is ahead at the shared compute and by forecast ceiling, how sure that is, and who is not compared."""
    if not (order := found.here.in_order()):
        return [nobody(names, found)]
    if len(order) == 1:
        return [headline(names, found, x), *left_out(names, found)]
    said = [headline(names, found, x), by_ceiling(names, found)]
    said += [seeds_sentence(found), what_would_decide(names, found)]
    return [*filter(None, said), *left_out(names, found)]


def headline(names: Sequence[str], found: Compared, x: str = DEFAULT_AXIS) -> str:
    """The one sentence of `answer` that says most."""
    if not (order := found.here.in_order()):
        return nobody(names, found)
    if len(order) == 1:
        return _alone(names[order[0]], found, order[0], x)
    return leading(names, found, x)


def nobody(names: Sequence[str], found: Compared) -> str:
    """Where nobody can be compared: why, in one sentence."""
    reasons = list(dict.fromkeys(why for why in found.why if why))
    because = f": {reasons[0]}" if len(reasons) == 1 else ": none has a forecast" if reasons else ""
    if len(names) == 1:
        return f"There is no forecast of {names[0]} yet{because if reasons != ['no forecast yet'] else ''}."
    return f"Nothing can be said of the order of these {len(names)} yet{because}."


def leading(names: Sequence[str], found: Compared, x: str = DEFAULT_AXIS) -> str:
    """Who is ahead at the shared compute, or who cannot be told apart there."""
    place, order = found.here, found.here.in_order()
    first, second = order[0], order[1]
    where = _where(place, x)
    best = [index for index in order if _rank(place, index) == 1]
    likely = f"It is the best there with probability {_chance(place, first)}."
    if len(best) == 1:
        gap = _gap(place, first, second)
        return (
            f"{names[first]} leads: {where} it comes to {_value(place, first)}, above {names[second]} by "
            f"{_size(gap)}. {likely}"
        )
    likeliest = max(best, key=lambda index: _standing(place, index).chance)
    below = len(order) - len(best)
    rest = f"; {words.count(below, 'other lies', 'others lie')} below" if below else ""
    apart = f"{_listed([names[index] for index in best])} cannot be told apart {where}{rest}."
    gap = _gap(place, best[0], best[1])
    return (
        f"{apart} {names[best[0]]} comes to {_value(place, best[0])}, {names[best[1]]} to {_value(place, best[1])}: "
        f"{_size(gap)} apart, which seeds and noise may be. Likeliest to be the best is {names[likeliest]}, with "
        f"probability {_chance(place, likeliest)}."
    )


def by_ceiling(names: Sequence[str], found: Compared) -> str:
    """The same of the forecast ceilings."""
    place, order = found.ceiling, found.ceiling.in_order()
    if len(order) < 2:
        return ""
    first, second = order[0], order[1]
    best = [index for index in order if _rank(place, index) == 1]
    if len(best) == 1:
        same = "too, " if _rank(found.here, first) == 1 else ""
        shown = _shown(place.standings[first])
        value = _value(place, first) if shown["identified"] else shown["interval_text"]
        return (
            f"By forecast ceiling {same}{names[first]} is ahead with {value}, above {names[second]} by "
            f"{_size(_gap(place, first, second))}."
        )
    likeliest = max(best, key=lambda index: _standing(place, index).chance)
    which = (
        "their forecast ceilings"
        if len(best) == len(order)
        else f"those of {_listed([names[i] for i in best])}"
    )
    return (
        f"By forecast ceiling {which} cannot be told apart; likeliest to be the highest is {names[likeliest]}, with "
        f"probability {_chance(place, likeliest)}."
    ).replace("By forecast ceiling their forecast ceilings", "The forecast ceilings")


def seeds_sentence(found: Compared) -> str:
    """How far seeds are taken to differ, and where that is known from."""
    between = found.here.between
    single = sum(runs == 1 for runs in found.runs)
    alone = f" {single} {'is' if single == 1 else 'are'} compared by one seed." if single else ""
    return (
        f"Seeds differ by {between.sd:.3f} (standard deviation, from {between.source}); these intervals include it."
        f"{alone}"
    )


def what_would_decide(names: Sequence[str], found: Compared) -> str:
    """Between the first two that cannot be told apart: another seed, or more compute, by what is less known."""
    order = found.here.in_order()
    if _rank(found.here, order[1]) != 1:
        return ""
    means = {index: mean for index in order[:2] if (mean := found.here.means[index]) is not None}
    seeds = {index: found.here.between.sd**2 * mean.seed_share for index, mean in means.items()}
    errors = {index: max(mean.below, mean.above) ** 2 for index, mean in means.items()}
    seed, error = max(seeds, key=lambda index: seeds[index]), max(errors, key=lambda index: errors[index])
    if seeds[seed] >= errors[error]:
        return f"What would tell the first two apart soonest is another seed of {names[seed]}."
    return f"What would tell the first two apart soonest is more compute for {names[error]}."


def left_out(names: Sequence[str], found: Compared) -> list[str]:
    """One sentence for each reason why some are not compared."""
    reasons: dict[str, list[str]] = {}
    for name, why, runs in zip(names, found.why, found.runs, strict=True):
        if why and not runs:
            reasons.setdefault(why, []).append(name)
    return [
        f"{_listed(those)} {'is' if len(those) == 1 else 'are'} not compared: {why}."
        for why, those in reasons.items()
    ]


def pair(names: Sequence[str], found: Compared, first: int, second: int, x: str = DEFAULT_AXIS) -> str:
    """Two of them against each other, in one sentence."""
    if (gap := found.here.gap(first, second)) is None:
        silent = second if found.here.means[second] is None else first
        return f"{names[first]} against {names[second]}: {found.why[silent]} ({names[silent]}), so nothing can be said."
    if gap.value < 0:
        first, second = second, first
        gap = _gap(found.here, first, second)
    where, ceiling = _where(found.here, x), _ceilings(names, found, first, second)
    if gap.real:
        return f"{names[first]} is better than {names[second]} {where}, by {_size(gap)}{ceiling}."
    return (
        f"{names[first]} and {names[second]} cannot be told apart {where}: the first is {_size(gap)} higher, "
        f"which seeds and noise may be{ceiling}."
    )


def extremes(names: Sequence[str], found: Compared, best: int, worst: int) -> str:
    """The values of an axis that come highest and lowest, and whether they differ."""
    gap, where = _gap(found.here, best, worst), _where(found.here, DEFAULT_AXIS)
    if not gap.real:
        return (
            f"No value is told apart from the others {where}: highest at {names[best]}, lowest at {names[worst]}, "
            f"{_size(gap)} apart, which seeds and noise may be."
        )
    first = where[0].upper() + where[1:]
    return f"{first} it is highest at {names[best]} and lowest at {names[worst]}, {_size(gap)} apart."


def _ceilings(names: Sequence[str], found: Compared, first: int, second: int) -> str:
    if (gap := found.ceiling.gap(first, second)) is None:
        return ""
    if not gap.real:
        return f"; their forecast ceilings cannot be told apart ({_signed(gap)})"
    is_first = gap.value > 0
    if is_first and _gap(found.here, first, second).real:  # the sentence is about the first
        return f"; its forecast ceiling is the higher one, too ({_signed(gap)})"
    return (
        f"; the forecast ceiling of {names[first if is_first else second]} is the higher one ({_signed(gap)})"
    )


def _alone(name: str, found: Compared, index: int, x: str) -> str:
    ceiling = found.ceiling.standings[index]
    shown = _shown(ceiling)
    end = f", forecast ceiling {shown['text']} ({shown['interval_text']})" if ceiling is not None else ""
    return f"{name} is alone so far: {_value(found.here, index)} {_where(found.here, x)}{end}."


def _where(place: Place, x: str) -> str:
    return f"at {AXES[x].text(place.compute)}"


def _standing(place: Place, index: int) -> Standing:
    standing = place.standings[index]
    assert standing is not None
    return standing


def _rank(place: Place, index: int) -> int | None:
    standing = place.standings[index]
    return None if standing is None else standing.rank


def _chance(place: Place, index: int) -> str:
    return chance(_standing(place, index).chance)


def _value(place: Place, index: int) -> str:
    standing = _standing(place, index)
    return f"{words.rate(standing.value, (standing.lo, standing.hi))} ({LEVEL} {span(standing)})"


def _gap(place: Place, first: int, second: int) -> Gap:
    gap = place.gap(first, second)
    assert gap is not None
    return gap


def _size(gap: Gap) -> str:
    size = words.rate(abs(gap.value), (gap.lo, gap.hi))
    return f"{size if float(size) else f'less than {size[:-1]}1'} ({_signed(gap)})"


def _signed(gap: Gap) -> str:
    return f"{SURE} {words.signed_span((gap.lo, gap.hi))}"


def _listed(names: Sequence[str]) -> str:
    """ "a, b and c"; names with commas of their own ("steady, seed 1") are parted by semicolons."""
    mark = "; " if any("," in name for name in names) else ", "
    if len(names) > NAMED:
        return f"{mark.join(names[:NAMED])} and {len(names) - NAMED} more"
    return " and ".join(filter(None, [mark.join(names[:-1]), names[-1]]))
