"""The claim that is being written, drawn on the curve that will be frozen; and what the run will reach."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import Project, Role, User
from webapp.interfaces.pages.prediction.form import FIELD_OF, beside
from webapp.record.runs.models import Run
from webapp.record.runs.states import ENDED
from webapp.science.curves import forecasts
from webapp.science.curves.axes import AXES
from webapp.science.curves.fitting import Curve, Question
from webapp.science.curves.run.forecast import end_of_budget
from webapp.science.predictions.checks import check_numbers, refused_target
from webapp.science.predictions.claims import Claim
from webapp.science.predictions.figure import axis_payload, claim_payload, points_of, reach
from webapp.science.predictions.known import Known
from webapp.science.predictions.services import Basis

Payload = dict[str, Any]
MOST_RIVALS = 100


def preview_figure(basis: Basis, question: Question, claim: Claim | None) -> Payload:
    """As the figure of a prediction, from a forecast that is not frozen yet."""
    fit, curve = basis.fit, basis.curve
    cutoff = question.cutoff if question.cutoff is not None else _last(curve)
    end = reach(claim.target if claim else cutoff, curve)
    drawn = forecasts.drawn(basis.forecast, fit.window[0], end) if fit else None
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
    projection = "A target that no run of the recipe reaches is a projection: kept, but never scored."
    if run.state in ENDED:
        return f"{now} and has ended. {projection}"
    end = end_of_budget(run, curve)
    if end is None:
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
