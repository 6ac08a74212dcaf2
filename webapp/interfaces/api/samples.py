"""/api/v1/runs/{id}/samples: responses that a run kept, by step."""

from typing import Any, Literal

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Path, Query, Router, Schema, Status
from pydantic import Field

from training.samples import FLAGS, MOST_STEP, Wanted
from webapp.base.errors import InvalidInput
from webapp.interfaces import files
from webapp.interfaces.api.auth import READ_HEAVY, READ_WHOLE, WRITE_RUN, check_attempt, check_goes_on, run_of
from webapp.interfaces.api.derived import fields_of
from webapp.interfaces.api.openapi import JSONL, answers
from webapp.interfaces.api.paging import PageQuery, page, page_of, place_of
from webapp.interfaces.exports.forms import download, jsonl_pieces
from webapp.record.samples import selectors, store
from webapp.record.samples.models import SampleFile

router = Router(tags=["runs"])
MOST_ROWS = 200
KindOfSamples = Literal["eval", "train"]
KIND: Any = Path(..., description="eval: held-out prompts; train: prompts of a batch.")
BODY = {
    "requestBody": {
        "required": True,
        "description": "A JSON object a line, one for each response; it may be gzipped.",
        "content": {"application/jsonl": {"schema": {"type": "string"}}},
    }
}


@fields_of(SampleFile, "kind step attempt rows left_out size created_at")
class SampleFileOut(Schema):
    kind: KindOfSamples = Field(description="eval: held-out prompts; train: prompts of a batch.")
    attempt: int = Field(description="Of the run, that made them.")
    rows: int = Field(description="Responses.")
    left_out: int = Field(description="Responses that came beyond what is kept of a step.")
    size: int = Field(description="Bytes; 0: the responses were removed by the project's clean-up.")


class WantedQuery(Schema):
    prompt_id: str = Field("", max_length=200, description="Only responses to this prompt.")
    reward_min: float | None = None
    reward_max: float | None = None
    tokens_min: int | None = Field(None, description="Of the response.")
    tokens_max: int | None = None
    difficulty_min: float | None = None
    difficulty_max: float | None = None
    flag: list[Literal[FLAGS]] = Field(  # type: ignore[valid-type]
        default_factory=list, max_length=len(FLAGS), description="All of them hold; repeat it."
    )
    q: str = Field("", max_length=200, description="Prompt or response holds this text, in any case.")

    def wanted(self) -> Wanted:
        said = self.model_dump(exclude={"flag", "q", "cursor", "limit", "kind", "step", "format"})
        return Wanted(**said, flags=tuple(self.flag), text=self.q)


class RowsQuery(WantedQuery):
    cursor: str | None = Field(None, description='"next" of the page before.')
    limit: int = Field(50, ge=1, le=MOST_ROWS)


class FilesQuery(WantedQuery):
    kind: KindOfSamples | None = Field(None, description="null: both.")
    step: int | None = Field(None, ge=0, le=MOST_STEP)
    format: Literal["jsonl"] = "jsonl"


class SamplePage(Schema):
    items: list[dict[str, Any]] = Field(
        description="A response each: group, sample, prompt_id, prompt, answer, response, characters (before it was "
        "cut), tokens, reward, advantage, correct, why, truncated, interrupted, forced, versions, logp_gap, extra."
    )
    next: str | None
    total: int = Field(description="Responses of this step that are asked for.")


class HistoryQuery(Schema):
    prompt_id: str = Field(min_length=1, max_length=200)


@fields_of(selectors.Moment, "step rewards correct")
class MomentOut(Schema):
    rewards: list[float | None] = Field(description="Of each response.")


class HistoryOut(Schema):
    items: list[MomentOut]


@router.get(
    "/{run_id}/samples",
    auth=READ_HEAVY,
    response=page_of(SampleFileOut),
    summary="Steps of which samples are kept",
)
def list_samples(request: HttpRequest, run_id: str, query: Query[PageQuery]) -> dict[str, Any]:
    """Evaluations first, each kind by step. Samples that a later attempt superseded are left out."""
    rows = selectors.files_of(run_of(request, run_id))
    return page(rows, query, order=["kind", "step"])


@router.get(
    "/{run_id}/samples/export",
    auth=READ_WHOLE,
    summary="Samples of a run as a file",
    openapi_extra=answers(files=(JSONL,)),
)
def export_samples(request: HttpRequest, run_id: str, query: Query[FilesQuery]) -> StreamingHttpResponse:
    """A response a line, with its kind and step; of all steps, or of those asked for."""
    run = run_of(request, run_id)
    asked = {"kind": query.kind, "step": query.step}
    found = selectors.files_of(run).filter(
        **{name: value for name, value in asked.items() if value is not None}
    )
    lines = selectors.lines_of(list(found), query.wanted())
    return download("jsonl", f"{run.pk}-samples", jsonl_pieces(lines))


@router.get(
    "/{run_id}/samples/{kind}/history",
    auth=READ_HEAVY,
    response=HistoryOut,
    summary="A prompt's rewards over the steps",
)
def sample_history(
    request: HttpRequest, run_id: str, query: Query[HistoryQuery], kind: KindOfSamples = KIND
) -> dict[str, Any]:
    """Held-out prompts are the same at every evaluation, so that each can be followed."""
    return {"items": selectors.history(run_of(request, run_id), kind, query.prompt_id)}


@router.get(
    "/{run_id}/samples/{kind}/{step}",
    auth=READ_HEAVY,
    response=SamplePage,
    summary="The responses of a step",
)
def get_samples(
    request: HttpRequest, run_id: str, step: int, query: Query[RowsQuery], kind: KindOfSamples = KIND
) -> dict[str, Any]:
    """Prompt by prompt. 404 also says where the responses were removed."""
    file = selectors.find(run_of(request, run_id), kind, _step(step))
    first = place_of(query.cursor)
    rows, total = selectors.rows_of(file, query.wanted(), first=first, most=query.limit)
    after = first + len(rows)
    return {"items": rows, "next": str(after) if after < total and rows else None, "total": total}


@router.put(
    "/{run_id}/samples/{kind}/{step}",
    auth=WRITE_RUN,
    response={201: SampleFileOut},
    summary="Keep the responses of a step",
    description="Samples of the same step and kind are replaced; what an earlier attempt sends late changes nothing. "
    "Known columns are those of GET; others are kept as `extra`. Long texts are cut in the middle, with a mark.",
    openapi_extra=BODY | answers(409, 507),
)
def put_samples(
    request: HttpRequest, run_id: str, step: int, attempt: int | None = None, kind: KindOfSamples = KIND
) -> Status:
    run = run_of(request, run_id)
    check_goes_on(request, run)
    number = run.attempt_number if attempt is None else attempt
    if not 1 <= number < 2**31:
        raise InvalidInput("attempt", "attempt must be from 1 to 2147483647.")
    check_attempt(request, [number])
    read, _ = files.body_of(request)
    return Status(201, store.keep(run, kind, _step(step), number, read))


def _step(step: int) -> int:
    if not 0 <= step <= MOST_STEP:
        raise InvalidInput("step", f"step must be from 0 to {MOST_STEP}.")
    return step
