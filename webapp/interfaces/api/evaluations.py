"""/api/v1/runs/{id}/evaluations: checkpoints measured on benchmarks."""

from typing import Any, Literal

from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from ninja import Query, Router, Schema, Status
from pydantic import Field

from webapp.interfaces.api.auth import LAUNCH, READ_HEAVY, run_of, user_of
from webapp.interfaces.api.derived import fields_of
from webapp.interfaces.api.openapi import answers
from webapp.interfaces.api.paging import PageQuery, page, page_of
from webapp.record.evaluations import services
from webapp.record.evaluations.models import Evaluation

router = Router(tags=["runs"])


class EvaluationBody(Schema):
    task: str = Field(max_length=120, description="gsm8k, aime24, lm_eval/arc_easy, or a task's name.")
    options: dict[str, Any] = Field(default_factory=dict, description="Of the task.")
    k: int = Field(1, ge=1, le=services.MOST_K, description="Responses to each prompt.")
    limit: int = Field(0, ge=0, le=services.MOST_PROMPTS, description="The first so many prompts; 0: all.")
    step: int | None = Field(None, ge=0, lt=2**63, description="Of the checkpoint; null: the newest.")


@fields_of(Evaluation, "id step task options k limit state reason result created_at ended_at")
class EvaluationOut(Schema):
    step: int = Field(description="Of the checkpoint.")
    limit: int = Field(description="The first so many prompts; 0: all.")
    state: Literal["queued", "running", "stopping", "succeeded", "failed", "cancelled"]
    reason: str = Field(description="Why it failed, or what it waits for; else empty.")
    result: dict[str, Any] | None = Field(
        description="pass_rate (pass@1) with pass_rate_stderr over prompts, n_prompts, contamination (share of prompts "
        "that share 13 words in a row, or all of fewer, with a training prompt) and more."
    )


@router.get(
    "/{run_id}/evaluations",
    auth=READ_HEAVY,
    response=page_of(EvaluationOut),
    summary="Benchmarks of a run's checkpoints",
)
def list_evaluations(request: HttpRequest, run_id: str, query: Query[PageQuery]) -> dict[str, Any]:
    """Those that were asked for, oldest first. What its recipe measures while it trains is among its metrics, as
    `downstream/TASK`."""
    rows = run_of(request, run_id).evaluations.all()
    return page(rows, query, order=["id"])


@router.post(
    "/{run_id}/evaluations",
    auth=LAUNCH,
    response={200: EvaluationOut, 201: EvaluationOut},
    summary="Measure a checkpoint on a benchmark",
    description="A job of its own, with one engine of the run's recipe. Safe to repeat: the same question is the same "
    "evaluation (200), and goes again where it had failed or was cancelled. 409 where the run has no checkpoint here.",
    openapi_extra=answers(409),
)
def evaluate(request: HttpRequest, run_id: str, body: EvaluationBody) -> Status:
    run = run_of(request, run_id)
    found, is_new = services.ask_for(
        run, services.EvaluationRequest(**body.model_dump()), user=user_of(request)
    )
    return Status(201 if is_new else 200, found)


@router.post(
    "/{run_id}/evaluations/{evaluation_id}/cancel",
    auth=LAUNCH,
    response=EvaluationOut,
    summary="Cancel a benchmark",
    description="One that waits is cancelled at once, one whose job has begun once that has stopped. Safe to repeat. "
    "409 where it has ended.",
    openapi_extra=answers(409),
)
def cancel_evaluation(request: HttpRequest, run_id: str, evaluation_id: int) -> Evaluation:
    one = get_object_or_404(run_of(request, run_id).evaluations, pk=evaluation_id)
    return services.cancel(one, user=user_of(request))
