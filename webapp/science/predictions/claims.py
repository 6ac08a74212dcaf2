"""A prediction in words, the one place for pages, reports and the decision log: what it claims of which recipe, where
and how sure, and what came of it.

What came of a prediction, in a sentence.

What a claim may say: every value that a person gives is checked here, and named with its reason.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import scaling
from webapp.base.errors import Conflict, InvalidInput, refuse
from webapp.record.runs.bounds import label_of
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import is_pass_rate, part_of
from webapp.science.curves import words
from webapp.science.curves.fitting import Question
from webapp.science.curves.words import AXES
from webapp.science.predictions.frozen import NOT_KNOWN, Known, Proposal, unplaced_words
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
    """ "pass rate 0.58 at 3,600 device-hours, 90 % 0.56 to 0.61"."""
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
    """ "Pass rate 0.58 at 3,600 device-hours, 90 % 0.56 to 0.61": without the recipe, for tables and lists."""
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
    if not (judged := [one for one in outcomes if one.inside is not None]):
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


LEAST_LEVEL, MOST_LEVEL = 0.5, 0.99
RATES = ("value", "lo", "hi")
MAX_TEXT = 10_000
MAX_METRIC = 250
FARTHEST = 1000.0  # times the newest evaluation: more is a slip of the pen


def check(claim: Claim, run: Run) -> None:
    """All that can be said of a claim without its data. Raises InvalidInput (statement, target, level, value, lo, hi,
    probability, rival, x, metric, form, window_lo, cutoff)."""
    check_question(claim.question)
    check_numbers(claim)
    _check_rival(run, claim)


def check_question(question: Question) -> None:
    """Raises InvalidInput (level, x, metric, form, window_lo, cutoff)."""
    if not LEAST_LEVEL <= _finite("level", question.level) <= MOST_LEVEL:
        raise InvalidInput("level", f"level must be between {LEAST_LEVEL:g} and {MOST_LEVEL:g}.")
    is_metric = len(question.metric) <= MAX_METRIC and is_pass_rate(question.metric)
    refuse(
        (question.x not in AXES, "x", f"x must be one of {', '.join(AXES)}."),
        (question.form not in scaling.FORMS, "form", f"form must be one of {', '.join(scaling.FORMS)}."),
        (not is_metric, "metric", "metric must be eval/pass_rate or eval/<part>/pass_rate."),
    )
    lo, hi = question.window_lo, question.cutoff
    if lo is not None and _finite("window_lo", lo) < 0:
        raise InvalidInput("window_lo", "window_lo must be at least 0.")
    if hi is not None and _finite("cutoff", hi) <= 0:
        raise InvalidInput("cutoff", "cutoff must be above 0.")
    if lo is not None and hi is not None and lo >= hi:
        raise InvalidInput("cutoff", "cutoff: the window ends before it starts.")


def check_numbers(claim: Claim) -> None:
    """Raises InvalidInput (statement, target, value, lo, hi, probability)."""
    if claim.statement not in Statement.values:
        raise InvalidInput("statement", f"statement must be one of {', '.join(Statement.values)}.")
    if _finite("target", claim.target) <= 0:
        raise InvalidInput("target", "target must be above 0.")
    given = {name: getattr(claim, name) for name in RATES if getattr(claim, name) is not None}
    if claim.statement == Statement.PASSES:
        if given:
            name = next(iter(given))
            raise InvalidInput(name, f"{name}: a claim about passing a rival has a probability alone.")
        if claim.probability is not None and not 0.0 < _finite("probability", claim.probability) < 1.0:
            raise InvalidInput("probability", "probability must lie between 0 and 1, both excluded.")
        return
    if claim.probability is not None:
        raise InvalidInput("probability", "probability: only a claim about passing a rival has one.")
    if given:
        _check_interval(given)


def _check_interval(given: Mapping[str, float]) -> None:
    for name in RATES:
        if name not in given:
            raise InvalidInput(name, f"{name} is required: give value, lo and hi, or none of them.")
        if not 0.0 <= _finite(name, given[name]) <= 1.0:
            raise InvalidInput(name, f"{name} must be a pass rate between 0 and 1.")
    value, lo, hi = (given[name] for name in RATES)
    refuse(
        (lo > hi, "hi", "hi: the interval is upside down, its upper end lies below its lower end."),
        (not lo <= value <= hi, "value", "value must lie inside its interval, between lo and hi."),
        (lo == hi, "hi", "hi: an interval without width claims to know exactly."),
    )


def refused_target(target: float, question: Question, known: Known) -> InvalidInput | Conflict | None:
    """Why nothing can be claimed of this target, given what is stored of the run; None where it can."""
    axis = AXES[question.x]
    if question.cutoff is not None and target <= question.cutoff:
        return InvalidInput("target", "target: a prediction is about what comes after the cutoff.")
    if target <= known.trained:
        there = axis.text(known.trained)
        words = f"target: this run has been at {there} already; a prediction is made before the data."
        return Conflict(words, field="target")
    if not known.evaluated > 0:
        return InvalidInput("cutoff", "cutoff: this run has no evaluation to rest a prediction on.")
    if known.unplaced:
        return Conflict(f"target: {unplaced_words(known, question.x)}", field="target")
    if target > FARTHEST * known.evaluated:
        farthest = f"{FARTHEST:g} times the newest evaluation, {axis.text(known.evaluated)}"
        return InvalidInput("target", f"target: at most {farthest}.")
    return None


def complete(claim: Claim, own: Proposal) -> Claim:
    """The claim with what the forecast says where the person said nothing. Raises InvalidInput (value, probability)."""
    if claim.statement == Statement.PASSES:
        if claim.probability is not None:
            return claim
        if own.probability is None:
            raise InvalidInput("probability", f"probability is required. {own.problem}".strip())
        return replace(claim, probability=own.probability)
    if claim.value is not None:
        return claim
    if own.value is None or own.lo is None or own.hi is None:
        raise InvalidInput("value", f"value is required. {own.problem or NOT_KNOWN}".strip())
    return replace(claim, value=own.value, lo=own.lo, hi=own.hi)


def unrounded(claim: Claim, own: Proposal) -> Claim:
    """A claim with the forecast's own numbers as a page showed them, without them: `complete` puts the exact ones in
    their place. Raises Conflict (value, probability) where they are those of another target, statement or level, or of
    a forecast without the newest points."""
    names, tolerance = (("probability",), 0.01) if claim.statement == Statement.PASSES else (RATES, 0.001)
    for shown, says in ((getattr(claim, name), getattr(own, name)) for name in names):
        if shown is None:
            continue
        if says is None or not math.isclose(shown, says, rel_tol=tolerance, abs_tol=1e-9):
            raise Conflict(f"{names[0]}: {_other_than(own)}", field=names[0])
    return replace(claim, value=None, lo=None, hi=None, probability=None)


def _other_than(own: Proposal) -> str:
    if own.probability is not None:
        says = f"by now the forecast says {own.probability:.3g}"
    elif own.value is not None and own.lo is not None and own.hi is not None:
        says = f"by now the forecast says {own.value:.4g} ({own.lo:.4g} to {own.hi:.4g})"
    else:
        says = "by now the forecast says nothing"
    return f"{says} of what is claimed. Use that, or freeze what stands here as your own."


def _check_rival(run: Run, claim: Claim) -> None:
    rival = claim.rival
    if claim.statement != Statement.PASSES:
        if rival is not None:
            raise InvalidInput("rival", "rival: only a claim about passing a rival has one.")
        return
    if rival is None:
        raise InvalidInput("rival", "rival is required: which run's curve is passed.")
    is_other_task = f"rival: its task is {rival.task}, not {run.task}; they do not compare."
    is_same = (rival.revision_id, rival.model) == (run.revision_id, run.model) and run.revision_id is not None
    refuse(
        (rival.project_id != run.project_id, "rival", f"rival: there is no run {rival.pk} in this project."),
        (rival.pk == run.pk, "rival", "rival: a run does not pass itself."),
        (rival.task != run.task, "rival", is_other_task),
        (is_same, "rival", "rival: it is a run of the same recipe and model."),
    )


def text_from(field: str, text: Any, *, most: int = MAX_TEXT, required: bool = True) -> str:
    """What a person wrote, trimmed. Raises InvalidInput (`field`)."""
    if not isinstance(text, str):
        raise InvalidInput(field, f"{field} must be text.")
    clean = text.replace("\r\n", "\n").strip()
    refuse(
        ("\0" in clean, field, f"{field} holds a NUL character, which cannot be stored."),
        (required and not clean, field, f"{field} is required."),
        (len(clean) > most, field, f"{field} must have at most {most:,} characters."),
    )
    return clean


def _finite(name: str, number: Any) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise InvalidInput(name, f"{name} must be a number.")
    try:
        finite = math.isfinite(number)
    except OverflowError:
        finite = False
    if not finite:
        raise InvalidInput(name, f"{name} must be a finite number.")
    return number
