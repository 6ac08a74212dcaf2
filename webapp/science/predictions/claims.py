"""A prediction in words, the one place for pages, reports and the decision log: what it claims of which recipe, where
and how sure, and what came of it.

What came of a prediction, in a sentence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from webapp.record.runs.bounds import label_of
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import part_of
from webapp.science.curves import words
from webapp.science.curves.axes import AXES
from webapp.science.curves.fitting import Question
from webapp.science.predictions.models import Outcome, Prediction

Statement = Prediction.Statement
STATEMENTS = {
    Statement.PASS_RATE: "Pass rate at the target",
    Statement.CEILING: "Ceiling",
    Statement.PASSES: "Passes another recipe",
}


@dataclass(frozen=True)
class Claim:
    """A statement with its numbers and the question of the fit that it rests on: asked for, stored, or being written.

    target: in units of the question's axis. value, lo and hi are those of a pass rate or ceiling, the probability that
    of PASSES; None: the forecast shall say.
    """

    statement: str
    target: float
    question: Question = Question()
    value: float | None = None
    lo: float | None = None
    hi: float | None = None
    probability: float | None = None
    rival: Run | None = None

    @property
    def columns(self) -> dict[str, Any]:
        """As they are stored."""
        numbers = {name: getattr(self, name) for name in ("target", "value", "lo", "hi", "probability")}
        return {"statement": self.statement, "level": self.question.level} | numbers

    @property
    def at(self) -> str:
        """The target with its unit: "3,600 device-hours"."""
        return AXES[self.question.x].text(self.target)

    @property
    def number(self) -> str:
        """The claimed number alone, with the digits that its interval supports."""
        if self.statement == Statement.PASSES:
            return "–" if self.probability is None else f"{100 * self.probability:.3g} %"
        return self._exactly(self.value)

    @property
    def interval(self) -> str:
        """How sure, in words."""
        if self.statement == Statement.PASSES:
            return "probability that it passes"
        return words.between((self.lo, self.hi), self.question.level, self._exactly)

    def _exactly(self, value: float | None) -> str:
        """What was said: nothing that tells two claims apart is rounded away."""
        return words.rate(value, (self.lo, self.hi), spare=1)

    @property
    def passed(self) -> str:
        """Name of the recipe that is passed; empty without one."""
        return name_of(self.rival) if self.rival else ""


def claim_of(prediction: Prediction) -> Claim:
    """The claim of a stored prediction; reads its rival, if it has one."""
    made = prediction
    question = Question(made.x, made.cutoff, made.window_lo, made.level, made.metric)
    return Claim(
        made.statement, made.target, question, made.value, made.lo, made.hi, made.probability, made.rival
    )


def name_of(run: Run) -> str:
    """The recipe's revision that a run is of; a tracked run's own name."""
    return str(run.revision) if run.revision else label_of(run)


def subject(prediction: Prediction) -> str:
    """ "ScaleRL rev 3 on math with 8b"."""
    named = str(prediction.revision) if prediction.revision else label_of(prediction.run)
    return f"{named} on {prediction.task} with {prediction.model}"


def statement_words(claim: Claim) -> str:
    """ "pass rate 0.58 at 3,600 device-hours, 90 % between 0.56 and 0.61"."""
    part = part_of(claim.question.metric)
    of_part = f" on {part}" if part else ""
    if claim.statement == Statement.PASSES:
        chance = "" if claim.probability is None else f", with probability {claim.probability:.3g}"
        return f"passes {claim.passed or 'the other recipe'}{of_part} by {claim.at}{chance}"
    if claim.statement == Statement.CEILING:
        return f"ceiling{of_part} {claim.number}, {claim.interval}, judged at {claim.at}"
    return f"pass rate{of_part} {claim.number} at {claim.at}, {claim.interval}"


def sentence(prediction: Prediction) -> str:
    """The whole claim in one sentence, without a full stop."""
    return f"{subject(prediction)}: {statement_words(claim_of(prediction))}"


def in_a_line(prediction: Prediction) -> str:
    """ "Pass rate 0.58 at 3,600 device-hours, 90 % between 0.56 and 0.61": without the recipe, for tables and lists."""
    return capitalised(statement_words(claim_of(prediction)))


def claim_words(claim: Claim) -> str:
    """As a sentence of its own."""
    return f"{capitalised(statement_words(claim))}."


def capitalised(text: str) -> str:
    """With a capital in front; names within stay as they are."""
    return text[:1].upper() + text[1:]


def made_from(prediction: Prediction) -> str:
    """From how much compute it looks how far: "from 8.00 device-hours, 2.0 times as far"."""
    times = times_as_far(prediction.target / prediction.known_until)
    return f"from {AXES[prediction.x].text(prediction.known_until)}, {times} as far"


def times_as_far(times: float) -> str:
    """The target over the newest evaluation of then: "2 times", "2.5 times", "250 times"."""
    return f"{times:.2g} times" if times < 100 else f"{words.amount(float(round(times)))} times"


def fitted_up_to(prediction: Prediction) -> str:
    """ "fitted up to 8.00 device-hours": the last point that its fit used."""
    return f"fitted up to {AXES[prediction.x].text(prediction.cutoff)}"


def outcome_words(outcome: Outcome) -> str:
    """ "came at 0.571 (0.566 to 0.576), inside the interval; error +0.004, interval score 0.050"."""
    if outcome.happened is not None:
        verb = "it passed" if outcome.happened else "it did not pass"
        score = outcome.probability_score
        return verb if score is None else f"{verb}; Brier score {score:.3f}"
    if outcome.actual is None:
        return "no value"
    ends = (outcome.actual_lo, outcome.actual_hi)
    said = f"came at {words.rate(outcome.actual, ends)}"
    if None not in ends:
        said += f" ({words.rate(ends[0], ends)} to {words.rate(ends[1], ends)})"
    if outcome.inside is not None:
        said += f", {'inside' if outcome.inside else 'outside'} the interval"
    if outcome.error is not None:
        said += f"; error {words.signed(outcome.error)}"
    return said if outcome.interval_score is None else f"{said}, interval score {outcome.interval_score:.3f}"


def what_came(prediction: Prediction, outcomes: Sequence[Outcome]) -> str:
    """By all runs that passed its target: "inside its interval for 2 of 3 runs"; or that nothing came yet.

    Of a prediction without outcomes it asks for `replaced_by` and `pendings`, unless they were fetched with it.
    """
    if prediction.withdrawn_at is not None:
        return f"withdrawn: {prediction.withdrawn_reason}"
    if not outcomes:
        if getattr(prediction, "replaced_by", None) is not None:
            return "replaced by a newer claim, so it is not scored"
        if list(prediction.pendings.all()):
            return "a run has passed its target, but cannot tell yet"
        return "no run has passed its target yet"
    if prediction.statement == Statement.PASSES:
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


def outcome_sentence(outcome: Outcome) -> str:
    """What came of the claim: "Your prediction was scored: 0.59 at the target, claimed 0.60, inside"."""
    claim = outcome.prediction
    if outcome.happened is not None:
        came = "it passed" if outcome.happened else "it had not passed"
        return f"Your prediction was scored: {came} the rival by the target, claimed with {claim.probability:.0%}"
    side = "inside" if outcome.inside else "outside"
    came, claimed = (words.rate(value, (claim.lo, claim.hi)) for value in (outcome.actual, claim.value))
    return f"Your prediction was scored: {came} came, {claimed} was claimed, {side} the interval"
