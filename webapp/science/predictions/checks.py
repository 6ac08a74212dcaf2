"""What a claim may say: every value that a person gives is checked here, and named with its reason."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import scaling
from webapp.base.errors import Conflict, InvalidInput
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import is_pass_rate
from webapp.science.curves.axes import AXES, DEFAULT_AXIS, DEFAULT_METRIC
from webapp.science.curves.fitting import Question
from webapp.science.predictions.frozen import NOT_KNOWN, Proposal
from webapp.science.predictions.models import Prediction

Statement = Prediction.Statement
LEAST_LEVEL, MOST_LEVEL = 0.5, 0.99
RATES = ("value", "lo", "hi")
MAX_TEXT = 10_000
MAX_METRIC = 250
FARTHEST = 1000.0  # times the newest evaluation: more is a slip of the pen


@dataclass(frozen=True)
class Claim:
    """The numbers of a statement, checked: value, lo, hi of a pass rate or ceiling, or the probability of PASSES."""

    statement: str
    target: float
    level: float
    value: float | None = None
    lo: float | None = None
    hi: float | None = None
    probability: float | None = None


def question_from(asked: Mapping[str, Any], level: float) -> Question:
    """The question that is frozen: x, metric, form, window_lo, cutoff, robust. Raises InvalidInput (x, metric, form,
    window_lo, cutoff)."""
    question = Question(
        x=asked.get("x") or DEFAULT_AXIS,
        metric=asked.get("metric") or DEFAULT_METRIC,
        form=asked.get("form") or "sigmoid",
        window_lo=_optional("window_lo", asked.get("window_lo")),
        cutoff=_optional("cutoff", asked.get("cutoff")),
        level=level,
        robust=bool(asked.get("robust", False)),
    )
    _check_names(question)
    lo, hi = question.window_lo, question.cutoff
    if lo is not None and lo < 0:
        raise InvalidInput("window_lo", "window_lo must be at least 0.")
    if hi is not None and hi <= 0:
        raise InvalidInput("cutoff", "cutoff must be above 0.")
    if lo is not None and hi is not None and lo >= hi:
        raise InvalidInput("cutoff", "cutoff: the window ends before it starts.")
    return question


def _check_names(question: Question) -> None:
    if not isinstance(question.x, str) or question.x not in AXES:
        raise InvalidInput("x", f"x must be one of {', '.join(AXES)}.")
    if question.form not in scaling.FORMS:
        raise InvalidInput("form", f"form must be one of {', '.join(scaling.FORMS)}.")
    metric = question.metric
    if not isinstance(metric, str) or len(metric) > MAX_METRIC or not is_pass_rate(metric):
        raise InvalidInput("metric", "metric must be eval/pass_rate or eval/<part>/pass_rate.")


def claim_from(
    *,
    statement: str,
    target: Any,
    level: Any,
    value: Any,
    lo: Any,
    hi: Any,
    probability: Any,
) -> Claim:
    """The statement with what the person gave; None means that the forecast shall say. Raises InvalidInput (statement,
    target, level, value, lo, hi, probability)."""
    if statement not in Statement.values:
        raise InvalidInput("statement", f"statement must be one of {', '.join(Statement.values)}.")
    level = level_from(level)
    target = _number("target", target)
    if target <= 0:
        raise InvalidInput("target", "target must be above 0.")
    given = {"value": value, "lo": lo, "hi": hi}
    if statement == Statement.PASSES:
        for name, number in given.items():
            if number is not None:
                raise InvalidInput(name, f"{name}: a claim about passing a rival has a probability alone.")
        return Claim(statement, target, level, probability=_probability(probability))
    if probability is not None:
        raise InvalidInput("probability", "probability: only a claim about passing a rival has one.")
    return _interval(Claim(statement, target, level), given)


def level_from(level: Any) -> float:
    """The level of an interval. Raises InvalidInput (level)."""
    number = _number("level", level)
    if not LEAST_LEVEL <= number <= MOST_LEVEL:
        raise InvalidInput("level", f"level must be between {LEAST_LEVEL:g} and {MOST_LEVEL:g}.")
    return number


def _interval(claim: Claim, given: dict[str, Any]) -> Claim:
    numbers = {name: _optional(name, number) for name, number in given.items()}
    if all(number is None for number in numbers.values()):
        return claim
    for name, number in numbers.items():
        if number is None:
            raise InvalidInput(name, f"{name} is required: give value, lo and hi, or none of them.")
        if not 0.0 <= number <= 1.0:
            raise InvalidInput(name, f"{name} must be a pass rate between 0 and 1.")
    value, lo, hi = (numbers[name] for name in ("value", "lo", "hi"))
    assert value is not None and lo is not None and hi is not None
    if lo > hi:
        raise InvalidInput("hi", "hi: the interval is upside down, its upper end lies below its lower end.")
    if not lo <= value <= hi:
        raise InvalidInput("value", "value must lie inside its interval, between lo and hi.")
    if lo == hi:
        raise InvalidInput("hi", "hi: an interval without width claims to know exactly.")
    return replace(claim, value=value, lo=lo, hi=hi)


def _probability(probability: Any) -> float | None:
    number = _optional("probability", probability)
    if number is not None and not 0.0 < number < 1.0:
        raise InvalidInput("probability", "probability must lie between 0 and 1, both excluded.")
    return number


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


def check_rival(run: Run, rival: Run | None, statement: str) -> None:
    """Raises InvalidInput (rival)."""
    if statement != Statement.PASSES:
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


def _optional(name: str, number: Any) -> float | None:
    return None if number is None else _number(name, number)


def _number(name: str, number: Any) -> float:
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise InvalidInput(name, f"{name} must be a number.")
    try:
        finite = float(number)
    except OverflowError:
        finite = math.inf
    if not math.isfinite(finite):
        raise InvalidInput(name, f"{name} must be a finite number.")
    return finite
