"""What a prediction says otherwise than the one that it replaces."""

from dataclasses import dataclass
from typing import Any

from webapp.science.curves.axes import AXES
from webapp.science.predictions.claims import STATEMENTS, Statement, claim_of
from webapp.science.predictions.models import Prediction


@dataclass(frozen=True)
class Difference:
    """One thing that a prediction says otherwise than the one it replaces."""

    what: str
    before: str
    now: str


def differences(old: Prediction, new: Prediction) -> list[Difference]:
    """What changed from a prediction to the one that replaces it; what stayed is left out."""
    return [
        Difference(what, before, now)
        for (what, before), (_, now) in zip(_facts(old), _facts(new), strict=True)
        if before != now
    ]


def _facts(prediction: Prediction) -> list[tuple[str, str]]:
    claim, axis = claim_of(prediction), AXES[prediction.x]
    start = "the start" if prediction.window_lo is None else axis.amount(prediction.window_lo)
    frozen: dict[str, Any] = prediction.frozen
    return [
        ("Statement", str(STATEMENTS[Statement(prediction.statement)])),
        ("Target", claim.at),
        ("Claimed", claim.number),
        ("Interval", claim.interval),
        ("Rival", claim.passed or "–"),
        ("Known up to", axis.text(prediction.known_until)),
        ("Fitted up to", axis.text(prediction.cutoff)),
        ("Window starts at", start),
        ("Form", str(frozen.get("form", "–"))),
        ("Curve", prediction.metric),
        ("Data digest", prediction.data_digest[:10]),
        ("Reasons", prediction.reasons),
    ]
