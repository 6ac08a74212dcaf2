"""What came of a prediction, in a sentence."""

from webapp.science.curves import words
from webapp.science.predictions.models import Outcome


def outcome_sentence(outcome: Outcome) -> str:
    """What came of the claim: "Your prediction was scored: 0.59 at the target, claimed 0.60, inside"."""
    claim = outcome.prediction
    if outcome.happened is not None:
        came = "it passed" if outcome.happened else "it had not passed"
        return f"Your prediction was scored: {came} the rival by the target, claimed with {claim.probability:.0%}"
    side = "inside" if outcome.inside else "outside"
    came, claimed = (words.rate(value, (claim.lo, claim.hi)) for value in (outcome.actual, claim.value))
    return f"Your prediction was scored: {came} came, {claimed} was claimed, {side} the interval"
