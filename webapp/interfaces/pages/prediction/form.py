"""The form that freezes a fit: what was asked, what is typed, what the forecast proposes. The services decide what
is right and wrong.

The claim that is being written, drawn on the curve that will be frozen; and what the run will reach.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from django import forms
from django.http import QueryDict

import scaling
from webapp.base.errors import Conflict, InvalidInput, ServiceError
from webapp.base.formats import NoAmount, number_in
from webapp.identity.accounts.models import Project, Role, User
from webapp.interfaces.pages.forms import ServiceForm, new_key
from webapp.interfaces.pages.run.questions import BadQuestion, question_of
from webapp.record.runs.models import Run
from webapp.record.runs.states import ENDED
from webapp.science.curves import fitting, words
from webapp.science.curves.fitting import Curve, Question
from webapp.science.curves.run.forecast import end_of_budget
from webapp.science.curves.words import AXES, DEFAULT_LEVEL
from webapp.science.predictions.claims import STATEMENTS, Claim, Statement, check_numbers, refused_target
from webapp.science.predictions.figure import axis_payload, claim_payload, points_of, reach
from webapp.science.predictions.frozen import Known
from webapp.science.predictions.models import Prediction
from webapp.science.predictions.services import Basis

LEVELS = (0.5, 0.8, 0.9, 0.95)
QUESTION = ("x", "metric", "lo", "cutoff", "robust")
CLAIMED = ("value", "lo_claim", "hi_claim", "probability")
FIELD_OF = {
    "lo": "lo_claim",
    "hi": "hi_claim",
}  # of the services -> of this form, where `lo` is the window's start
DECIMAL = {"inputmode": "decimal", "autocomplete": "off"}
Payload = dict[str, Any]
MOST_RIVALS = 100


def asked_of(query: QueryDict) -> Question:
    """Which fit is to be frozen: the run page's question, from a query or a posted form. Raises BadQuestion."""
    asked, form = question_of(_only(query)), query.get("form") or "sigmoid"
    if form not in scaling.FORMS:
        raise BadQuestion("form", f"one of {', '.join(scaling.FORMS)}")
    return replace(asked.question, form=form)


def hidden_fields(question: Question) -> list[tuple[str, str]]:
    """The fields that carry it through the form."""
    said = {
        "x": question.x, "metric": question.metric, "lo": question.window_lo, "cutoff": question.cutoff,
        "form": question.form, "robust": "1" if question.robust else "",
    }  # fmt: skip
    return [
        (name, f"{value!r}" if isinstance(value, float) else value) for name, value in said.items() if value
    ]


def _only(query: QueryDict) -> QueryDict:
    """The question alone: the form has other fields of its own, and the run page's goal is not its matter."""
    kept = QueryDict(mutable=True)
    for name in QUESTION:
        if query.get(name):
            kept[name] = query.get(name, "")
    return kept


class ClaimForm(ServiceForm):
    """A claim as it is typed. Numbers that cannot be read are refused here, what they may be by the services."""

    statement = forms.ChoiceField(
        choices=list(STATEMENTS.items()), widget=forms.RadioSelect, label="What is claimed"
    )
    target = forms.FloatField(label="Target compute", widget=forms.TextInput(attrs=DECIMAL))
    level = forms.TypedChoiceField(
        coerce=float,
        choices=[(f"{level:g}", words.percent(level)) for level in LEVELS],
        label="Level of the interval",
    )
    value = forms.FloatField(required=False, label="Value", widget=forms.TextInput(attrs=DECIMAL))
    lo_claim = forms.FloatField(required=False, label="From", widget=forms.TextInput(attrs=DECIMAL))
    hi_claim = forms.FloatField(required=False, label="To", widget=forms.TextInput(attrs=DECIMAL))
    rival = forms.ChoiceField(required=False, label="The recipe that it passes")
    probability = forms.FloatField(
        required=False,
        label="Probability",
        widget=forms.TextInput(attrs=DECIMAL),
        help_text="Between 0 and 1: how sure you are that it passes by then.",
    )
    reasons = forms.CharField(
        label="Reasons",
        max_length=10_000,
        help_text="It can never be edited.",
        widget=forms.Textarea(attrs={"rows": 5}),
    )
    reviewers = forms.MultipleChoiceField(
        required=False, widget=forms.CheckboxSelectMultiple, label="Ask for a review"
    )
    own = forms.CharField(required=False, widget=forms.HiddenInput)  # "1": the numbers are the person's own
    idempotency_key = forms.CharField(widget=forms.HiddenInput, max_length=190)

    data: QueryDict

    def __init__(
        self, data: Any = None, *, reviewers: Sequence[User], rivals: Sequence[Run], unit: str, **kwargs: Any
    ) -> None:
        super().__init__(data, **kwargs)
        self.reviewers_by_name = {user.username: user for user in reviewers}
        self.rivals_by_id = {run.pk: run for run in rivals}
        self.field("reviewers").choices = [(name, name) for name in self.reviewers_by_name]
        self.field("rival").choices = [("", "Choose a run"), *((run.pk, rival_label(run)) for run in rivals)]
        self.field("target").label = f"Target compute, {unit}"

    def field(self, name: str) -> Any:
        return self.fields[name]

    def claim(self, question: Question) -> Claim:
        """What is claimed, once valid."""
        said = self.cleaned_data
        asked = replace(question, level=said["level"])
        if said["statement"] == Statement.PASSES:
            rival = self.rivals_by_id.get(said["rival"])
            return Claim(
                said["statement"], said["target"], asked, probability=said["probability"], rival=rival
            )
        numbers = (said["value"], said["lo_claim"], said["hi_claim"])
        return Claim(said["statement"], said["target"], asked, *numbers)

    def renewed(self) -> QueryDict:
        """Sending this form again is a new request; every value of it stays. Numbers that were refused count as the
        person's own from then on: they are not changed under the hands."""
        self.renew_key()
        if any(name in self.errors for name in CLAIMED):
            self.data["own"] = "1"
        return self.data

    def chosen_reviewers(self) -> list[User]:
        return [self.reviewers_by_name[name] for name in self.cleaned_data["reviewers"]]

    def refuse(self, error: ServiceError) -> None:
        here = FIELD_OF.get(error.field or "", error.field)
        self.add_error(here if here in self.fields else None, beside(error.field, error.message))


def beside(field: str | None, message: str) -> str:
    """A service's message as it stands beside the field that it names first: "target: this run ..."."""
    said = message.removeprefix(f"{field}: ") if field else message
    return f"{said[0].upper()}{said[1:]}" if said else said


def rival_label(run: Run) -> str:
    """ "GRPO rev 1, seed 0, 8.00 device-hours"."""
    named = str(run.revision) if run.revision else run.name
    return f"{named}, seed {run.seed} ({run.pk})"


@dataclass(frozen=True)
class Draft:
    """What is typed so far, as far as it can be read; `problems` names what cannot."""

    statement: str
    target: float | None
    level: float
    value: float | None
    lo: float | None
    hi: float | None
    probability: float | None
    rival: Run | None
    is_own: bool
    problems: dict[str, str]

    def claim(self, question: Question) -> Claim | None:
        """None without a target."""
        if self.target is None:
            return None
        asked = replace(question, level=self.level)
        if self.statement == Statement.PASSES:
            return Claim(self.statement, self.target, asked, probability=self.probability, rival=self.rival)
        return Claim(self.statement, self.target, asked, self.value, self.lo, self.hi)

    def with_proposal(self, proposal: Any) -> "Draft":
        """The forecast's own numbers, where the person has not typed others."""
        if self.is_own:
            return self
        return replace(
            self, value=proposal.value, lo=proposal.lo, hi=proposal.hi, probability=proposal.probability
        )


def draft_of(query: QueryDict, rivals: Sequence[Run]) -> Draft:
    """Read what is typed; nothing is refused."""
    problems: dict[str, str] = {}

    def number(name: str) -> float | None:
        if not (text := query.get(name, "").strip()):
            return None
        try:
            return number_in(text)
        except NoAmount:
            problems[name] = "Enter a number."
            return None

    statement = query.get("statement", "")
    target = number("target")
    if target is not None and target <= 0:
        problems["target"], target = "Compute is above 0.", None
    level = number("level")
    return Draft(
        statement if statement in STATEMENTS else str(Statement.PASS_RATE),
        target,
        level if level is not None and 0 < level < 1 else DEFAULT_LEVEL,
        number("value"), number("lo_claim"), number("hi_claim"), number("probability"),
        next((run for run in rivals if run.pk == query.get("rival")), None),
        query.get("own") == "1",
        problems,
    )  # fmt: skip


def shown(value: float | None, digits: int = 4) -> str:
    """A number as it stands in a field."""
    return "" if value is None else f"{value:.{digits}g}"


def initial_of(draft: Draft, reasons: str = "", reviewers: Sequence[str] = ()) -> dict[str, Any]:
    """A draft as the form's initial values."""
    return {
        "statement": draft.statement,
        "target": shown(draft.target, 6),
        "level": f"{draft.level:g}",
        "value": shown(draft.value),
        "lo_claim": shown(draft.lo),
        "hi_claim": shown(draft.hi),
        "rival": draft.rival.pk if draft.rival else "",
        "probability": shown(draft.probability, 3),
        "reasons": reasons,
        "reviewers": list(reviewers),
        "own": "1" if draft.is_own else "",
        "idempotency_key": new_key(),
    }


def draft_from(prediction: Prediction) -> Draft:
    """The claim of a prediction, to be changed and made anew."""
    return Draft(
        prediction.statement, prediction.target, prediction.level, prediction.value, prediction.lo, prediction.hi,
        prediction.probability, prediction.rival, True, {},
    )  # fmt: skip


def preview_figure(basis: Basis, question: Question, claim: Claim | None) -> Payload:
    """As the figure of a prediction, from a forecast that is not frozen yet."""
    fit, curve = basis.fit, basis.curve
    cutoff = question.cutoff if question.cutoff is not None else _last(curve)
    end = reach(claim.target if claim else cutoff, curve)
    drawn = fitting.drawn(basis.forecast, fit.window[0], end) if fit else None
    return {
        "x": axis_payload(AXES[question.x]),
        "points": points_of(curve, question.window_lo, cutoff, _last(curve)),
        "start": {"y": float(np.mean(curve.start)), "se": curve.start_se} if curve.start else None,
        "fit": {"window": list(fit.window), **drawn} if fit and drawn else None,
        "level": question.level,
        "rival": None,
        "known_until": _last(curve),
        "claim": claim_payload(claim) if claim else None,
        "outcomes": [],
        "residuals": None,
        "anchors": [],
    }


def problems_of(claim: Claim, known: Known, *, is_own: bool) -> dict[str, str]:
    """What `freeze` would refuse of the target, and of the numbers where the person typed them: {field: words}."""
    try:
        if is_own:
            check_numbers(claim)
        refused: InvalidInput | Conflict | None = refused_target(claim.target, claim.question, known)
    except InvalidInput as error:
        refused = error
    if refused is None or refused.field == "cutoff":  # the fit says it better
        return {}
    return {FIELD_OF.get(refused.field or "", refused.field or ""): beside(refused.field, refused.message)}


def seen_words(runs: Sequence[str]) -> str:
    """That other runs of the recipe have been at the target already; "" where none has."""
    if not runs:
        return ""
    are = "run of this recipe has" if len(runs) == 1 else "runs of this recipe have"
    return f"{len(runs)} other {are} been there already. The claim can be made, but those do not score it."


def _last(curve: Curve) -> float:
    return float(curve.x[-1]) if len(curve.x) else 0.0


def default_target(run: Run, curve: Curve, asked: Question) -> float | None:
    """The end of the run's budget where that is still to come, else twice what is known."""
    known = asked.cutoff if asked.cutoff is not None else _last(curve)
    if not known:
        return None
    end = end_of_budget(run, curve)
    return end if end is not None and end > 1.05 * max(known, _last(curve)) else 2 * max(known, _last(curve))


def reach_words(run: Run, curve: Curve, asked: Question) -> str:
    """What the run's budget reaches, so that a target can be chosen that somebody will check."""
    axis = AXES[asked.x]
    if not len(curve.x):
        return "The run has no evaluation yet."
    now = f"It has reached {axis.text(_last(curve))}"
    projection = "What no run of the recipe reaches is never scored."
    if run.state in ENDED:
        return f"{now} and has ended. {projection}"
    if (end := end_of_budget(run, curve)) is None:
        return f"{now}; it has no budget, so a claim stays open for as long as it runs. {projection}"
    return f"{now}; its budget ends at {axis.amount(end)}. {projection}"


def rivals_of(run: Run) -> Sequence[Run]:
    """Runs that it could pass: of other revisions on the same task and model, with a fit, newest first."""
    found = Run.objects.filter(
        project=run.project_id, task=run.task, model=run.model, archived_at=None, fits__isnull=False
    ).exclude(pk=run.pk)
    if run.revision_id:
        found = found.exclude(revision=run.revision_id)
    light = found.select_related("revision__recipe").defer("config", "revision__config").distinct()
    return list(light.order_by("-created_at", "pk")[:MOST_RIVALS])


def reviewers_of(project: Project, but: User) -> list[User]:
    """Everybody who may judge a prediction in this project, by name, without its author. Owners are admins."""
    judges = User.objects.filter(
        memberships__project=project, memberships__role__in=[Role.REVIEWER, Role.ADMIN]
    )
    owners = User.objects.filter(owned_organisations=project.organisation_id)
    found = (judges | owners).filter(is_active=True).exclude(pk=but.pk).distinct()
    return list(found.order_by("username"))
