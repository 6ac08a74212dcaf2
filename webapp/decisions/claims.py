"""A prediction and what came of it, in one line each: for the log and for reports."""

from collections.abc import Sequence

from webapp.curves import words
from webapp.curves.answers import UNITS
from webapp.predictions.models import Outcome, Prediction


def claim_words(prediction: Prediction) -> str:
    """ "Pass rate 0.610, 90 % between 0.596 and 0.627, at 16.0 device-hours". Reads `rival` of a claim about two."""
    at = f"{words.amount(prediction.target)} {UNITS.get(prediction.x, prediction.x)}"
    if prediction.statement == Prediction.Statement.PASSES:
        rival = prediction.rival.name if prediction.rival else "its rival"
        return f"Passes {rival} by {at}, with probability {100 * (prediction.probability or 0):.3g} %"
    ends = (prediction.lo, prediction.hi)
    said = f"{words.rate(prediction.value, ends)}, {words.between(ends, prediction.level)}"
    if prediction.statement == Prediction.Statement.CEILING:
        return f"Ceiling {said}, judged at {at}"
    return f"Pass rate {said}, at {at}"


def outcome_words(prediction: Prediction, outcomes: Sequence[Outcome]) -> str:
    """What came of it by all runs that passed its target: "inside for 2 of 3 runs"; or that nothing did yet."""
    if prediction.withdrawn_at is not None:
        return f"withdrawn: {prediction.withdrawn_reason}"
    if not outcomes:
        return "no run has passed its target yet"
    if prediction.statement == Prediction.Statement.PASSES:
        held = sum(bool(one.happened) for one in outcomes)
        return f"it happened for {held} of {words.count(len(outcomes), 'run')}"
    judged = [one for one in outcomes if one.inside is not None]
    if not judged:
        return "what came cannot be told from it yet"
    if len(judged) == 1:
        actual = words.rate(judged[0].actual, (prediction.lo, prediction.hi))
        return f"{actual} came: {'inside' if judged[0].inside else 'outside'} its interval"
    held = sum(bool(one.inside) for one in judged)
    return f"inside its interval for {held} of {len(judged)} runs"


def held(outcomes: Sequence[Outcome]) -> bool | None:
    """Whether every outcome agrees with the claim; None without any."""
    judged = [one.inside if one.inside is not None else one.happened for one in outcomes]
    known = [one for one in judged if one is not None]
    return all(known) if known else None
