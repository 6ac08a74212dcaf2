"""Freezing a fit as a prediction: the form, and the claim drawn while it is typed."""

from dataclasses import dataclass, replace
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache

from webapp.base.errors import ServiceError
from webapp.identity.accounts.models import User
from webapp.interfaces.pages.access import get_run, signed_in
from webapp.interfaces.pages.answers import telling
from webapp.interfaces.pages.prediction import form as forms
from webapp.interfaces.pages.prediction.form import (
    ClaimForm,
    Draft,
    asked_of,
    draft_from,
    draft_of,
    hidden_fields,
    initial_of,
    shown,
)
from webapp.interfaces.pages.run.questions import BadQuestion
from webapp.record.runs.models import Run
from webapp.science.curves.answers import UNITS
from webapp.science.curves.fitting import Curve, Question, curve_of
from webapp.science.predictions import selectors, services
from webapp.science.predictions.claims import Claim, Statement, claim_of
from webapp.science.predictions.frozen import known_of, passed_already
from webapp.science.predictions.models import Prediction


@dataclass(frozen=True)
class Subject:
    """What is to be frozen: the run with its curve, the question, who may be asked or passed, and what is replaced."""

    run: Run
    asked: Question
    curve: Curve
    rivals: list[Run]
    reviewers: list[User]
    replaces: Prediction | None


def subject_of(request: HttpRequest, query: QueryDict) -> Subject:
    """From a query or a posted form. Raises NotFound and BadQuestion."""
    run = get_run(request, query.get("run", ""))
    old = query.get("replaces", "")
    replaces = selectors.prediction_by_id(run.project, old) if old else None
    asked = asked_of(query)
    return Subject(
        run, asked, curve_of(run, asked.x, asked.metric), list(forms.rivals_of(run)),
        forms.reviewers_of(run.project, signed_in(request)), replaces,
    )  # fmt: skip


@never_cache
def new_prediction(request: HttpRequest) -> HttpResponse:
    """The form; posted, the frozen prediction, or the form with its errors and everything that was typed."""
    query = request.POST if request.method == "POST" else request.GET
    try:
        subject = subject_of(request, query)
    except BadQuestion as error:
        return render(request, "predictions/new.html", {"problem": str(error)}, status=400)
    if request.method == "GET":
        return _show(request, subject, _first_draft(subject))
    form = _form(subject, request.POST)
    if (prediction := _try_freeze(request, subject, form)) is not None:
        return redirect("prediction", prediction.pk)
    return _show(request, subject, draft_of(form.renewed(), subject.rivals), form)


def _first_draft(subject: Subject) -> Draft:
    """What the form begins with: the claim that is replaced, else a pass rate where the run's budget ends."""
    if subject.replaces is not None:
        return draft_from(subject.replaces)
    draft = draft_of(QueryDict(), subject.rivals)  # the run page's own `target` is another thing
    target = forms.default_target(subject.run, subject.curve, subject.asked)
    return replace(draft, target=target)


def _form(subject: Subject, data: Any = None, **kwargs: Any) -> ClaimForm:
    unit = UNITS[subject.asked.x]
    return ClaimForm(data, reviewers=subject.reviewers, rivals=subject.rivals, unit=unit, **kwargs)


def _try_freeze(request: HttpRequest, subject: Subject, form: ClaimForm) -> Prediction | None:
    """The prediction, or None with the reason in the form."""
    if not form.is_valid():
        return None
    said = form.cleaned_data
    with form.refusing():
        prediction = services.freeze(
            form.claim(subject.asked), run=subject.run, user=signed_in(request), reasons=said["reasons"],
            replaces=subject.replaces, key=said["idempotency_key"], is_proposed=said["own"] != "1",
        ).prediction  # fmt: skip
        messages.info(request, "Frozen. From now on it can only be withdrawn, visibly.")
        if reviewers := form.chosen_reviewers():  # the claim stands whether or not they can be asked
            with telling(request, before="Nobody was asked for a review. "):
                services.ask_review(prediction, user=signed_in(request), reviewers=reviewers)
        return prediction
    return None


def _show(
    request: HttpRequest, subject: Subject, draft: Draft, form: ClaimForm | None = None
) -> HttpResponse:
    said = _preview(subject, draft)
    if form is None:
        kept = subject.replaces
        asked = list(kept.requests.values_list("reviewer__username", flat=True)) if kept else ()
        form = _form(subject, initial=initial_of(said["draft"], kept.reasons if kept else "", asked))
    context = said | {
        "subject": subject,
        "run": subject.run,
        "form": form,
        "hidden": hidden_fields(subject.asked),
        "reach_words": forms.reach_words(subject.run, subject.curve, subject.asked),
        "replaced_claim": claim_of(subject.replaces) if subject.replaces else None,
    }
    return render(request, "predictions/new.html", context, status=422 if form.errors else 200)


@never_cache
def proposal(request: HttpRequest) -> HttpResponse:
    """What the forecast says of what is typed so far, as regions: the drawing, and the numbers that are its own."""
    try:
        subject = subject_of(request, request.GET)
    except BadQuestion as error:
        return HttpResponse(str(error), status=400, content_type="text/plain")
    said = _preview(subject, draft_of(request.GET, subject.rivals))
    draft: Draft = said["draft"]
    data = request.GET.copy()
    says = {"value": draft.value, "lo_claim": draft.lo, "hi_claim": draft.hi}
    for name, value in says.items():
        data[name] = request.GET.get(name, "") if draft.is_own else shown(value)
    if not draft.is_own:
        data["probability"] = shown(draft.probability, 3)
    form = _form(subject, initial={name: data.get(name, "") for name in (*forms.CLAIMED, "rival", "own")})
    claimed = "probability" if said["passes"] else "value"
    typed_already = draft.is_own and claimed in request.GET  # is not put anew under the hands
    return render(
        request, "predictions/_preview.html",
        said | {"form": form, "with_values": not typed_already, "subject": subject, "run": subject.run},
    )  # fmt: skip


def _preview(subject: Subject, draft: Draft) -> dict[str, Any]:
    """The draft with the forecast's own numbers, its drawing, and what stands against it."""
    question, problems = replace(subject.asked, level=draft.level), dict(draft.problems)
    basis, own = services.basis_of(subject.run, question, subject.curve), None
    seen: list[str] = []
    if draft.target is not None and not problems.get("target"):
        try:
            own = services.proposal(
                subject.run, Claim(draft.statement, draft.target, question, rival=draft.rival), basis
            )
            draft = draft.with_proposal(own)
        except ServiceError as error:
            problems[forms.FIELD_OF.get(error.field or "", error.field or "target")] = error.message
    if (claim := draft.claim(subject.asked)) is not None:
        known = known_of(subject.run, question.x)
        problems |= forms.problems_of(claim, known, is_own=draft.is_own)
        seen = passed_already(subject.run, question.x, claim.target)
        # One that would be refused is not drawn: an interval upside down would look like one that can be made.
        claim = claim if problems.keys().isdisjoint(forms.CLAIMED) else None
    return {
        "seen": forms.seen_words([pk for pk in seen if pk != subject.run.pk]),
        "draft": draft,
        "claim": claim,
        "own": own,
        "no_fit": basis.problem,
        "problems": problems,
        "preview": forms.preview_figure(basis, question, claim),
        "passes": draft.statement == Statement.PASSES,
        "target_problem": problems.get("target", ""),
    }
