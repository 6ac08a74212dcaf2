"""What came of a prediction, in a sentence."""

from webapp.science.predictions.models import Outcome


def outcome_sentence(outcome: Outcome) -> str:
    """What came of the claim: "Your prediction was scored: 0.5931 at the target, claimed 0.6000, inside"."""
    claim = outcome.prediction
    if outcome.happened is not None:
        came = "it passed" if outcome.happened else "it had not passed"
        return f"Your prediction was scored: {came} the rival by the target, claimed with {claim.probability:.0%}"
    side = "inside" if outcome.inside else "outside"
    return f"Your prediction was scored: {outcome.actual:.4f} came, {claim.value:.4f} was claimed, {side} the interval"
