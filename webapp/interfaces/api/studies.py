"""/api/v1/studies"""

from typing import Annotated

from django.http import HttpRequest
from ninja import Body, Header, Query, Router, Schema, Status
from pydantic import Field

from webapp.interfaces.api.auth import LAUNCH, READ_HEAVY, project_of, user_of
from webapp.interfaces.api.derived import fields_of
from webapp.interfaces.api.openapi import answers
from webapp.interfaces.api.paging import PageQuery, Payload, page, page_of
from webapp.interfaces.api.schemas import Body as StrictBody
from webapp.science.studies import selectors, services
from webapp.science.studies.law import at_value
from webapp.science.studies.models import Arm, Study, StudyKind
from webapp.science.studies.planning import StudyRequest
from webapp.science.studies.results import progress_sentence, results

router = Router(tags=["studies"])


class StudyBody(StrictBody):
    """A base recipe, and what its variants change, one thing each."""

    name: str
    kind: str = Field(
        StudyKind.LEAVE_ONE_OUT.value, description="leave_one_out or axis: how the page presents it."
    )
    recipe: str = Field(description="Slug of the base.")
    revision: int | None = Field(None, ge=1, le=2**31 - 1, description="Its revision; null: the newest.")
    changes: list[str] = Field(
        max_length=200,
        description='One variant each, as "axis=value": "loss=dapo", "head=bfloat16", "batch=512", '
        '"context=32768", "generations=24", "model=NAME", "mixture=math:1+code:3", or any setting by its path, '
        'such as "optimizer.lr=1e-6".',
    )
    seeds: list[int] = Field(default_factory=lambda: [0], max_length=200)
    task: str | None = Field(None, description="null: the base's own.")
    model: str | None = Field(None, description="null: the base's own.")
    budget_hours: float | None = Field(None, description="Device-hours of each run; null: the base's own.")


@fields_of(Arm, "position axis value label recipe revision")
class ArmOut(Schema):
    """A variant of a study."""

    recipe: str | None
    revision: int | None


@fields_of(Study, "id name kind recipe revision task model seeds budget_hours runs done created_at")
class StudyOut(Schema):
    """A study as in lists."""

    recipe: str
    revision: int
    seeds: list[int]
    runs: int
    done: int


class ValueWithInterval(Schema):
    """A value with its interval."""

    value: float
    lo: float
    hi: float


class OnAxis(Schema):
    """What the law says at a value of the axis."""

    value: float = Field(description="On the axis.")
    ceiling: ValueWithInterval = Field(description="The forecast ceiling there.")
    pass_rate: ValueWithInterval = Field(description="The pass rate at the end of a run's budget.")


class VariantOnAxis(OnAxis):
    """And which variant of the study has that value."""

    position: int


class ForecastOnAxis(OnAxis):
    """And the same in words."""

    sentence: str


class Known(Schema):
    """A value with its error."""

    value: float
    error: float = Field(description="Its standard error.")


class RunOnAxis(Schema):
    """A run of a study at its value of the axis."""

    value: float
    ceiling: Known
    pass_rate: Known


class AxisLaw(Schema):
    """One law over a study's runs, by one number or the model's size. Intervals, at `level`, are of one more run."""

    axis: str
    title: str
    unit: str
    level: float
    why: str = Field(description="Why there is no law, such as two values only; empty where there is one.")
    sentence: str
    runs: list[RunOnAxis] = Field(description="What it rests on: what forecasts of the runs say.")
    variants: list[VariantOnAxis] = Field(description="The law at each variant's own value.")
    curve: list[OnAxis]
    forecast: ForecastOnAxis | None = Field(None, description="At `axis_value`, where that was asked for.")


class StudyDetail(StudyOut):
    """A study with its variants and results."""

    progress: str
    variants: list[ArmOut]
    axis_law: AxisLaw | None = Field(
        description="null for a study of several axes, or of one without numbers."
    )
    results: Payload = Field(
        description="What the page shows: matrix, sentences, charts. Null: not identified."
    )


@router.get("", auth=READ_HEAVY, response=page_of(StudyOut), summary="List studies, newest first")
def list_studies(request: HttpRequest, query: Query[PageQuery]) -> Payload:
    """Each with its base recipe, and how many of its runs have succeeded."""
    studies = selectors.studies_of(project_of(request))
    return page(studies, query, order=["-created_at", "id"], payload=study_payload)


@router.post(
    "",
    auth=LAUNCH,
    response={200: StudyDetail, 201: StudyDetail},
    summary="Make a study and launch its runs",
    description="All of it or nothing: a variant that cannot run is refused (422), naming axis and reason. With an "
    "Idempotency-Key the same request makes one study: 201 the first time, 200 with the same study afterwards, 409 "
    "for another body.",
    openapi_extra=answers(409, 507),
)
def create_study(
    request: HttpRequest,
    body: Body[StudyBody],
    idempotency_key: Annotated[str | None, Header(alias="Idempotency-Key")] = None,
) -> Status:
    project = project_of(request)
    asked = StudyRequest(**body.model_dump() | {"changes": tuple(body.changes), "seeds": tuple(body.seeds)})
    made = services.create_study(
        asked, user=user_of(request), project=project, idempotency_key=idempotency_key
    )
    study = selectors.study_by_id(project, made.study.pk)
    return Status(201 if made.created else 200, study_detail(study))


class StudyQuery(Schema):
    axis_value: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="Forecast a run with this value of the study's axis."
    )


@router.get("/{study_id}", auth=READ_HEAVY, response=StudyDetail, summary="One study with its results")
def get_study(request: HttpRequest, study_id: str, query: Query[StudyQuery]) -> Payload:
    """With its variants, how far it is, the results that its page shows, and the law over its axis."""
    return study_detail(selectors.study_by_id(project_of(request), study_id), query.axis_value)


def study_payload(study: Study) -> Payload:
    """A study as in lists; annotated as in `webapp.science.studies.selectors.studies_of`."""
    progress = selectors.progress_of(study)
    return {
        "id": study.pk,
        "name": study.name,
        "kind": study.kind,
        "recipe": study.base.recipe.slug,
        "revision": study.base.number,
        "task": study.task,
        "model": study.model,
        "seeds": study.seeds,
        "budget_hours": study.budget_hours,
        "runs": progress.total,
        "done": progress.succeeded,
        "created_at": study.created_at,
    }


def study_detail(study: Study, axis_value: float | None = None) -> Payload:
    """A study with its variants and all that its page shows. Raises InvalidInput (axis_value)."""
    groups = selectors.groups_of(study)
    found = results(study, groups)
    law = found.pop("law")
    if axis_value is not None:
        law = (law or {}) | {"forecast": at_value(law, axis_value)}
    return study_payload(study) | {
        "progress": progress_sentence(selectors.progress_of(study)),
        "variants": [
            {
                "position": group.arm.position,
                "axis": group.arm.axis,
                "value": group.arm.value,
                "label": group.arm.label,
                "recipe": group.arm.revision.recipe.slug if group.arm.revision else None,
                "revision": group.arm.revision.number if group.arm.revision else None,
            }
            for group in groups
        ],
        "axis_law": law,
        "results": found,
    }
