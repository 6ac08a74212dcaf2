"""/api/v1/runs: launch or track, list, show, cancel, resume, and what trainers report."""

import time
from typing import Annotated, Any, cast

from django.db import transaction
from django.http import HttpRequest
from ninja import Body, Header, Query, Router, Status

from training.records import Record
from webapp.base import metrics
from webapp.base.bodies import batch_of
from webapp.base.errors import InvalidInput
from webapp.identity.accounts.models import Scope
from webapp.interfaces.api import schemas
from webapp.interfaces.api.auth import (
    LAUNCH,
    READ,
    READ_RUN,
    WRITE,
    WRITE_RUN,
    ApiRequest,
    check_attempt,
    check_goes_on,
    check_scope,
    project_of,
    run_of,
)
from webapp.interfaces.api.etags import unless_known
from webapp.interfaces.api.paging import page, page_since
from webapp.interfaces.api.payloads import record_payload, run_detail, run_payload, transition_payload
from webapp.interfaces.api.records import BATCH_BODY, parse_batch
from webapp.interfaces.api.schemas import (
    DescribeBody,
    ExtendBody,
    FinishBody,
    MeaningBody,
    PriorityBody,
    RecordQuery,
    RunBody,
    RunQuery,
    StartBody,
    TrackBody,
)
from webapp.record.runs import (
    describing,
    drafts,
    extending,
    gathering,
    ingest,
    launch,
    lifecycle,
    meaning,
    places,
    selectors,
)
from webapp.record.runs.filtering import narrow
from webapp.record.runs.meaning import Meaning
from webapp.record.runs.models import Run
from webapp.record.runs.once import Launched
from webapp.record.runs.states import WAITING
from webapp.reporting.alarms.services import current_alarms
from webapp.reporting.policies.services import checked, set_run_policy

router = Router(tags=["runs"])
RUN = {200: schemas.RunOut}
TOO_MANY_NAMES = (
    "The run has as many metrics as its project allows. {:,} further names are kept in its records and have no curve; "
    "an administrator may raise the number in the project's settings."
)
PRIORITIES = {label: value for value, label in Run.Priority.choices}


@router.get("", auth=READ, response=schemas.RunPage, summary="List runs, newest first")
def list_runs(request: HttpRequest, query: Query[RunQuery]) -> dict[str, Any]:
    filters = selectors.RunFilters(query.state, query.recipe, query.task, query.model, query.q, query.alarm)
    runs = selectors.runs_of(project_of(request), filters)
    if query.filter.strip():
        runs = narrow(runs, query.filter, user=cast(ApiRequest, request).auth.user)
    order = ["-created_at", "id"]
    return page(runs, order=order, cursor=query.cursor, limit=query.limit, payload=run_payload)


@router.post(
    "",
    auth=WRITE,
    response={200: schemas.RunOut, 201: schemas.RunOut},
    summary="Launch or track a run",
    description="Launching needs the scope launch, tracking the scope write. With an Idempotency-Key the same "
    "request makes one run: 201 the first time, 200 with the same run afterwards, 409 for another body.",
)
def create_run(
    request: HttpRequest,
    body: Body[RunBody],
    idempotency_key: Annotated[str | None, Header(alias="Idempotency-Key")] = None,
) -> Status:
    asked = cast(ApiRequest, request)
    if isinstance(body, TrackBody):
        launched = _track(asked, body, idempotency_key)
    else:
        launched = _launch(asked, body, idempotency_key)
    run = selectors.run_by_id(project_of(request), launched.run.pk)
    return Status(201 if launched.created else 200, run_payload(run))


def _launch(request: ApiRequest, body: schemas.LaunchBody, key: str | None) -> Launched:
    token = request.auth
    check_scope(token, Scope.LAUNCH)
    checked(body.policies)
    fields = body.model_dump(exclude={"tracked", "policies"}) | {"priority": PRIORITIES[body.priority]}
    with transaction.atomic():
        launched = launch.launch_run(
            launch.LaunchRequest(**fields), user=token.user, project=token.project, idempotency_key=key
        )
        if launched.created:
            set_run_policy([launched.run], body.policies)
    return launched


def _track(request: ApiRequest, body: TrackBody, key: str | None) -> Launched:
    token = request.auth
    if body.project not in (None, token.project.slug):
        raise InvalidInput("project", f"This token belongs to the project {token.project.slug}.")
    fields = body.model_dump(exclude={"tracked", "project"})
    return launch.track_run_once(user=token.user, project=token.project, idempotency_key=key, **fields)


@router.get("/{run_id}", auth=READ_RUN, response=schemas.RunDetail, summary="One run")
def get_run(request: HttpRequest, run_id: str) -> dict[str, Any]:
    run = run_of(request, run_id)
    alarms = current_alarms(run)
    if run.state not in WAITING:  # why one waits may change by what other runs do
        seen = [(alarm.pk, alarm.level, alarm.active, alarm.times) for alarm in alarms]
        unless_known(request, run_payload(run), seen)
    attempts, latest = list(selectors.attempts_of(run)), selectors.latest_values(run)
    return run_detail(run, attempts, latest, alarms)


@router.post("/{run_id}/cancel", auth=LAUNCH, response=RUN, summary="Stop a run")
def cancel_run(request: HttpRequest, run_id: str) -> dict[str, Any]:
    run = run_of(request, run_id)
    lifecycle.cancel_run(run, user=cast(ApiRequest, request).auth.user)
    return run_payload(run)


@router.post("/{run_id}/resume", auth=LAUNCH, response=RUN, summary="Launch the next attempt of an ended run")
def resume_run(request: HttpRequest, run_id: str) -> dict[str, Any]:
    run = run_of(request, run_id)
    launch.resume_run(run, user=cast(ApiRequest, request).auth.user)
    return run_payload(run)


@router.post(
    "/{run_id}/stop",
    auth=LAUNCH,
    response=RUN,
    summary="Stop a run with a checkpoint",
    description="The same as cancel: the driver of a running run finishes its step and writes a checkpoint, from "
    "which the run can be resumed. A queued run is cancelled at once.",
)
def stop_run(request: HttpRequest, run_id: str) -> dict[str, Any]:
    return cancel_run(request, run_id)


@router.post("/{run_id}/extend", auth=LAUNCH, response=RUN, summary="Give a run a larger budget")
def extend_run(request: HttpRequest, run_id: str, body: ExtendBody) -> dict[str, Any]:
    run = run_of(request, run_id)
    extending.extend_run(run, body.budget_hours, user=cast(ApiRequest, request).auth.user)
    return run_payload(run)


@router.post(
    "/{run_id}/priority", auth=LAUNCH, response=RUN, summary="Put a queued run before or after others"
)
def set_priority(request: HttpRequest, run_id: str, body: PriorityBody) -> dict[str, Any]:
    run = run_of(request, run_id)
    places.set_priority(run, PRIORITIES[body.priority], user=cast(ApiRequest, request).auth.user)
    return run_payload(run)


@router.post("/{run_id}/launch", auth=LAUNCH, response=RUN, summary="Launch a draft")
def launch_draft(request: HttpRequest, run_id: str) -> dict[str, Any]:
    run = run_of(request, run_id)
    drafts.launch_draft(run, user=cast(ApiRequest, request).auth.user)
    return run_payload(run)


@router.delete("/{run_id}", auth=LAUNCH, response={204: None}, summary="Delete a draft")
def delete_draft(request: HttpRequest, run_id: str) -> Status:
    run = run_of(request, run_id)
    drafts.delete_draft(run, user=cast(ApiRequest, request).auth.user)
    return Status(204, None)


@router.get(
    "/{run_id}/transitions", auth=READ_RUN, response=schemas.TransitionList, summary="Its changes of state"
)
def list_transitions(request: HttpRequest, run_id: str) -> dict[str, Any]:
    found = selectors.transitions_of(run_of(request, run_id))
    return {"items": [transition_payload(row) for row in found]}


@router.post("/{run_id}/start", auth=WRITE_RUN, response=RUN, summary="The trainer is up")
def start(request: HttpRequest, run_id: str, body: StartBody) -> dict[str, Any]:
    run = run_of(request, run_id)
    check_attempt(request, [body.attempt])
    lifecycle.report_started(run, **body.model_dump())
    return run_payload(run)


@router.post(
    "/{run_id}/describe",
    auth=WRITE_RUN,
    response=RUN,
    summary="What the trainer says of its run later",
    description="A new name, further tags, and entries of the configuration of a run that trains elsewhere: for "
    "trainers that know them only once they run. The same again changes nothing.",
)
def describe(request: HttpRequest, run_id: str, body: DescribeBody) -> dict[str, Any]:
    run = run_of(request, run_id)
    describing.report_described(run, **body.model_dump())
    return run_payload(run)


@router.post("/{run_id}/finish", auth=WRITE_RUN, response=RUN, summary="How the trainer ended")
def finish(request: HttpRequest, run_id: str, body: FinishBody) -> dict[str, Any]:
    run = run_of(request, run_id)
    check_attempt(request, [body.attempt])
    lifecycle.report_finished(run, **body.model_dump())
    return run_payload(run)


@router.post(
    "/{run_id}/meaning",
    auth=WRITE,
    response=RUN,
    summary="Say what a tracked run's metrics mean",
    description="Which metric is the held-out pass rate, and on how many devices it trains: for a trainer that knows "
    "nothing of Headroom. It holds for what was reported and for what comes; said anew, it replaces what was said.",
)
def state_meaning(request: HttpRequest, run_id: str, body: MeaningBody) -> dict[str, Any]:
    run = run_of(request, run_id)
    said = Meaning(**body.model_dump())
    return run_payload(meaning.state_meaning(run, said, user=cast(ApiRequest, request).auth.user))


@router.post(
    "/{run_id}/records",
    auth=WRITE_RUN,
    response=schemas.IngestOut,
    exclude_unset=True,
    summary="Report a batch of records",
    description="All or nothing. A record whose (attempt, seq) is stored already counts as a duplicate; with "
    "other content the batch is refused (409). `gather_seconds`: for how long the server asks this client to gather "
    "records before the next batch, by how many runs report at the moment.",
    openapi_extra=BATCH_BODY,
)
def post_records(request: HttpRequest, run_id: str) -> dict[str, Any]:
    run: Run = run_of(request, run_id)
    check_goes_on(request, run)
    records: list[Record] = parse_batch(batch_of(request))
    check_attempt(request, (record.attempt for record in records))
    reporter = cast(ApiRequest, request).auth.attempt
    stored = ingest.store_records(run, records, reporter=reporter)
    if stored.accepted:
        metrics.note_lag(records[0].time, time.time())
    answer: dict[str, object] = {"accepted": stored.accepted, "duplicates": stored.duplicates}
    if stored.names_left_out:
        answer["warning"] = TOO_MANY_NAMES.format(stored.names_left_out)
    return answer | {"gather_seconds": gathering.asked_of_a_client()}


@router.get("/{run_id}/records", auth=READ_RUN, response=schemas.RecordPage, summary="Records as reported")
def list_records(request: HttpRequest, run_id: str, query: Query[RecordQuery]) -> dict[str, Any]:
    """In the order of arrival. `since` of an answer, sent as `since`, asks for what came after it: also where `next` is
    null, and also where nothing had come yet."""
    run = run_of(request, run_id)
    unless_known(request, run.version)
    return page_since(
        selectors.records_of(run),
        order=["arrival"],
        cursor=query.cursor,
        since=query.since,
        limit=query.limit,
        payload=record_payload,
    )
