"""What a claim may say: every value that a person gives is checked here, and named with its reason."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import scaling
from webapp.base.errors import Conflict, InvalidInput
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import is_pass_rate
from webapp.science.curves.axes import AXES
from webapp.science.curves.fitting import Question
from webapp.science.predictions.claims import Claim, Statement
from webapp.science.predictions.frozen import NOT_KNOWN, Known, Proposal, unplaced_words

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
    if question.x not in AXES:
        raise InvalidInput("x", f"x must be one of {', '.join(AXES)}.")
    if question.form not in scaling.FORMS:
        raise InvalidInput("form", f"form must be one of {', '.join(scaling.FORMS)}.")
    if len(question.metric) > MAX_METRIC or not is_pass_rate(question.metric):
        raise InvalidInput("metric", "metric must be eval/pass_rate or eval/<part>/pass_rate.")
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
    if lo > hi:
        raise InvalidInput("hi", "hi: the interval is upside down, its upper end lies below its lower end.")
    if not lo <= value <= hi:
        raise InvalidInput("value", "value must lie inside its interval, between lo and hi.")
    if lo == hi:
        raise InvalidInput("hi", "hi: an interval without width claims to know exactly.")


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
    if rival.project_id != run.project_id:
        raise InvalidInput("rival", f"rival: there is no run {rival.pk} in this project.")
    if rival.pk == run.pk:
        raise InvalidInput("rival", "rival: a run does not pass itself.")
    if rival.task != run.task:
        raise InvalidInput("rival", f"rival: its task is {rival.task}, not {run.task}; they do not compare.")
    same = (rival.revision_id, rival.model) == (run.revision_id, run.model)
    if same and run.revision_id is not None:
        raise InvalidInput("rival", "rival: it is a run of the same recipe and model.")


def text_from(field: str, text: Any, *, most: int = MAX_TEXT, required: bool = True) -> str:
    """What a person wrote, trimmed. Raises InvalidInput (`field`)."""
    if not isinstance(text, str):
        raise InvalidInput(field, f"{field} must be text.")
    clean = text.replace("\r\n", "\n").strip()
    if "\0" in clean:
        raise InvalidInput(field, f"{field} holds a NUL character, which cannot be stored.")
    if required and not clean:
        raise InvalidInput(field, f"{field} is required.")
    if len(clean) > most:
        raise InvalidInput(field, f"{field} must have at most {most:,} characters.")
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
