"""What a prediction claims, in words that say all of it: of which recipe, where, what, and how sure."""

from dataclasses import dataclass
from typing import Any

from webapp.curves import words
from webapp.curves.answers import UNITS
from webapp.curves.comparison.compare import label_of
from webapp.predictions.models import Prediction
from webapp.runs.models import Run
from webapp.runs.selectors import part_of

Statement = Prediction.Statement
STATEMENTS = {
    Statement.PASS_RATE: "Pass rate at the target",
    Statement.CEILING: "Ceiling",
    Statement.PASSES: "Passes another recipe",
}


@dataclass(frozen=True)
class Claim:
    """A statement with its numbers, stored or still being written. target: in units of the axis `x`."""

    statement: str
    target: float
    level: float
    value: float | None = None
    lo: float | None = None
    hi: float | None = None
    rival: str = ""  # the rival's name
    probability: float | None = None
    x: str = "device_hours"
    metric: str = "eval/pass_rate"

    @property
    def at(self) -> str:
        """The target with its unit: "3,600 device-hours"."""
        return f"{words.amount(self.target)} {UNITS[self.x]}"

    @property
    def number(self) -> str:
        """The claimed number alone, with the digits that its interval supports."""
        if self.statement == Statement.PASSES:
            return "–" if self.probability is None else f"{100 * self.probability:.3g} %"
        return words.rate(self.value, (self.lo, self.hi))

    @property
    def interval(self) -> str:
        """How sure, in words."""
        if self.statement == Statement.PASSES:
            return "probability that it passes"
        return words.between((self.lo, self.hi), self.level)


def claim_of(prediction: Prediction) -> Claim:
    """The claim of a stored prediction; reads its rival, if it has one."""
    copied = {name: getattr(prediction, name) for name in Claim.__dataclass_fields__ if name != "rival"}
    return Claim(**copied, rival=name_of(prediction.rival) if prediction.rival else "")


def name_of(run: Run) -> str:
    """The recipe's revision that a run is of; a tracked run's own name."""
    return str(run.revision) if run.revision else label_of(run)


def subject(prediction: Prediction) -> str:
    """ "ScaleRL rev 3 on math with 8b"."""
    named = str(prediction.revision) if prediction.revision else label_of(prediction.run)
    return f"{named} on {prediction.task} with {prediction.model}"


def statement_words(claim: Claim) -> str:
    """ "pass rate 0.58 at 3,600 device-hours, 90 % between 0.56 and 0.61"."""
    part = part_of(claim.metric)
    of_part = f" on {part}" if part else ""
    if claim.statement == Statement.PASSES:
        chance = "" if claim.probability is None else f", with probability {claim.probability:.3g}"
        return f"passes {claim.rival or 'the other recipe'}{of_part} by {claim.at}{chance}"
    if claim.statement == Statement.CEILING:
        return f"ceiling{of_part} {claim.number}, {claim.interval}, judged at {claim.at}"
    return f"pass rate{of_part} {claim.number} at {claim.at}, {claim.interval}"


def sentence(prediction: Prediction) -> str:
    """The whole claim in one sentence, without a full stop."""
    return f"{subject(prediction)}: {statement_words(claim_of(prediction))}"


def claim_words(claim: Claim) -> str:
    """As a sentence of its own."""
    said = statement_words(claim)
    return f"{said[0].upper()}{said[1:]}."


def made_from(prediction: Prediction) -> str:
    """From how much compute it looks how far: "from 8.00 device-hours, 2.0 times as far"."""
    times = prediction.target / prediction.known_until
    return f"from {words.amount(prediction.known_until)} {UNITS[prediction.x]}, {times:.2g} times as far"


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
    claim = claim_of(prediction)
    start = "the start" if prediction.window_lo is None else words.amount(prediction.window_lo)
    frozen: dict[str, Any] = prediction.frozen
    return [
        ("Statement", str(STATEMENTS[Statement(prediction.statement)])),
        ("Target", claim.at),
        ("Claimed", claim.number),
        ("Interval", claim.interval),
        ("Rival", claim.rival or "–"),
        ("Known up to", f"{words.amount(prediction.known_until)} {UNITS[prediction.x]}"),
        ("Fitted up to", f"{words.amount(prediction.cutoff)} {UNITS[prediction.x]}"),
        ("Window starts at", start),
        ("Form", str(frozen.get("form", "–"))),
        ("Curve", prediction.metric),
        ("Data digest", prediction.data_digest[:10]),
        ("Reasons", prediction.reasons),
    ]
