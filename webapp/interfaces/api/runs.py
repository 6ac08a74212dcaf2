"""/api/v1/runs: launch or track, list, show, cancel, resume, and what trainers report."""

import secrets
import time
from typing import Annotated, Any, cast

from django.db import transaction
from django.http import HttpRequest
from ninja import Body, Header, Query, Router, Status

from training.records import Record
from webapp.base import metrics
from webapp.base.errors import InvalidInput
from webapp.base.requests import batch_of
from webapp.identity.accounts.models import Scope, User
from webapp.identity.accounts.permissions import Permission
from webapp.interfaces.api import schemas
from webapp.interfaces.api.auth import (
    LAUNCH,
    READ,
    READ_HEAVY,
    READ_RUN,
    READ_RUN_HEAVY,
    WRITE,
    WRITE_RUN,
    ApiRequest,
    check_attempt,
    check_goes_on,
    check_scope,
    project_of,
    run_of,
    user_of,
)
from webapp.interfaces.api.openapi import answers
from webapp.interfaces.api.paging import page, page_of, page_since, unless_known
from webapp.interfaces.api.parsing import BATCH_BODY, parse_batch
from webapp.interfaces.api.payloads import (
    point_payload,
    run_detail,
    run_payload,
    transition_payload,
)
from webapp.record.runs import bulk, editing, ingest, launch, lifecycle, meaning, places, selectors
from webapp.record.runs.filtering import compile_filter
from webapp.record.runs.models import Run, State
from webapp.record.runs.points import effective_points
from webapp.reporting.alarms.services import current_alarms
from webapp.reporting.policies.services import checked, set_run_policy

router = Router(tags=["runs"])
RUN = {200: schemas.RunOut}
TOO_MANY_NAMES = (
    "The run has as many metrics as its project allows. {:,} further names are kept in its records and have no curve; "
    "an administrator may raise the number in the project's settings."
)
PRIORITIES = {label: value for value, label in Run.Priority.choices}


@router.get("", auth=READ_HEAVY, response=page_of(schemas.RunOut), summary="List runs, newest first")
def list_runs(request: HttpRequest, query: Query[schemas.RunQuery]) -> dict[str, Any]:
    """A run must match all parameters that are given. `filter` can ask for more than the others."""
    filters = selectors.RunFilters(query.state, query.recipe, query.task, query.model, query.q, query.alarm)
    project, among = project_of(request), None
    if query.filter.strip():
        among = compile_filter(query.filter, user=user_of(request)).runs(project)
    runs = selectors.runs_of(project, filters, among)
    order = ["-created_at", "id"]
    return page(runs, query, order=order, payload=run_payload)


@router.post(
    "",
    auth=WRITE,
    response={200: schemas.RunOut, 201: schemas.RunOut},
    summary="Launch or track a run",
    description="Launching needs the scope launch, tracking the scope write. With an Idempotency-Key the same "
    "request makes one run: 201 the first time, 200 with the same run afterwards, 409 for another body.",
    openapi_extra=answers(409, 507),
)
def create_run(
    request: HttpRequest,
    body: Body[schemas.RunBody],
    idempotency_key: Annotated[str | None, Header(alias="Idempotency-Key")] = None,
) -> Status:
    asked = cast(ApiRequest, request)
    if isinstance(body, schemas.TrackBody):
        launched = _track(asked, body, idempotency_key)
    else:
        launched = _launch(asked, body, idempotency_key)
    run = selectors.run_by_id(project_of(request), launched.run.pk)
    return Status(201 if launched.created else 200, run_payload(run))


def _launch(request: ApiRequest, body: schemas.LaunchBody, key: str | None) -> launch.Launched:
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


def _track(request: ApiRequest, body: schemas.TrackBody, key: str | None) -> launch.Launched:
    token = request.auth
    if body.project not in (None, token.project.slug):
        raise InvalidInput("project", f"This token belongs to the project {token.project.slug}.")
    asked = launch.TrackRequest(**body.model_dump(exclude={"tracked", "project"}))
    return launch.track_run(asked, user=token.user, project=token.project, idempotency_key=key)


@router.post(
    "/bulk",
    auth=WRITE,
    response=schemas.BulkOut,
    summary="One action on many runs",
    description="tag, untag and change need the scope write, all others launch. What became of each run is answered; "
    "one that is not in the project is not found. With an Idempotency-Key the same request is one action. What metrics "
    "mean can be changed of 100 runs at a time; where they have many points, these follow within minutes.",
    openapi_extra=answers(409),
)
def act_on_runs(
    request: HttpRequest,
    body: schemas.BulkBody,
    idempotency_key: Annotated[str | None, Header(alias="Idempotency-Key")] = None,
) -> dict[str, Any]:
    token = cast(ApiRequest, request).auth
    if bulk.NEEDS[body.action] == Permission.LAUNCH:
        check_scope(token, Scope.LAUNCH)
    asked = bulk.BulkRequest(
        action=body.action,
        run_ids=body.runs,
        key=idempotency_key or secrets.token_hex(16),
        tag=body.tag,
        priority=PRIORITIES[body.priority] if body.priority else None,
        changes=body.changes.model_dump(exclude_unset=True) if body.changes is not None else None,
    )
    user = cast(User, token.user)  # a run's own token has not the scope
    row = bulk.act(asked, user=user, project=token.project)
    return {"sentence": bulk.sentence(row), "outcomes": row.outcomes}


@router.get(
    "/{run_id}",
    auth=READ_RUN,
    response=schemas.RunDetail,
    summary="One run",
    openapi_extra=answers(etag=True),
)
def get_run(request: HttpRequest, run_id: str) -> dict[str, Any]:
    """With its configuration, attempts, newest values and alarms. `state_reason` says why it stands where it does, and
    what a queued run waits for."""
    run = run_of(request, run_id)
    alarms = current_alarms(run)
    seen = [(alarm.pk, alarm.level, alarm.active, alarm.times) for alarm in alarms]
    unless_known(request, run_payload(run), seen)
    attempts, latest = list(selectors.attempts_of(run)), selectors.latest_values(run)
    return run_detail(run, attempts, latest, alarms)


@router.patch(
    "/{run_id}",
    auth=WRITE,
    response=RUN,
    summary="Put right what is said of a run",
    description="Only what is sent changes, all of it or nothing: name, tags and notes of any run; task, model, seed "
    "and meaning of one that trains elsewhere. Of a meaning, too, what is not sent stays. Predictions keep what they "
    "were made for.",
    openapi_extra=answers(409),
)
def change_run(request: HttpRequest, run_id: str, body: schemas.RunChanges) -> dict[str, Any]:
    run = run_of(request, run_id)
    changes = body.model_dump(exclude_unset=True)
    return run_payload(editing.change_run(run, changes, user=user_of(request)))


@router.post("/{run_id}/cancel", auth=LAUNCH, response=RUN, summary="Stop a run", openapi_extra=answers(409))
def cancel_run(request: HttpRequest, run_id: str) -> dict[str, Any]:
    """A queued or tracked run is cancelled at once; the job of another is asked to stop, and writes a checkpoint. Safe
    to repeat. 409 where the run has ended otherwise."""
    run = run_of(request, run_id)
    lifecycle.cancel_run(run, user=user_of(request))
    return run_payload(run)


@router.post(
    "/{run_id}/resume",
    auth=LAUNCH,
    response=RUN,
    summary="Launch the next attempt of an ended run",
    openapi_extra=answers(409, 507),
)
def resume_run(request: HttpRequest, run_id: str) -> dict[str, Any]:
    """It goes on from the newest checkpoint, or begins anew where there is none. 409 where the run has not ended,
    trains elsewhere, or has spent its budget."""
    run = run_of(request, run_id)
    launch.resume_run(run, user=user_of(request))
    return run_payload(run)


@router.post(
    "/{run_id}/stop",
    auth=LAUNCH,
    response=RUN,
    summary="Stop a run with a checkpoint",
    description="The same as cancel: the driver of a running run finishes its step and writes a checkpoint, from "
    "which the run can be resumed. A queued run is cancelled at once.",
    openapi_extra=answers(409),
)
def stop_run(request: HttpRequest, run_id: str) -> dict[str, Any]:
    return cancel_run(request, run_id)


@router.post(
    "/{run_id}/extend",
    auth=LAUNCH,
    response=RUN,
    summary="Give a run a larger budget",
    openapi_extra=answers(409, 507),
)
def extend_run(request: HttpRequest, run_id: str, body: schemas.ExtendBody) -> dict[str, Any]:
    """`budget_hours` is what it may use in all. A running trainer learns of it between two updates; an ended run can be
    resumed to it. 409 for a draft, and for a run that trains elsewhere."""
    run = run_of(request, run_id)
    lifecycle.extend_run(run, body.budget_hours, user=user_of(request))
    return run_payload(run)


@router.post(
    "/{run_id}/priority",
    auth=LAUNCH,
    response=RUN,
    summary="Put a queued run before or after others",
    openapi_extra=answers(409),
)
def set_priority(request: HttpRequest, run_id: str, body: schemas.PriorityBody) -> dict[str, Any]:
    """It decides only while a run waits: 409 where it does not wait any more."""
    run = run_of(request, run_id)
    places.set_priority(run, PRIORITIES[body.priority], user=user_of(request))
    return run_payload(run)


@router.post(
    "/{run_id}/launch", auth=LAUNCH, response=RUN, summary="Launch a draft", openapi_extra=answers(409, 507)
)
def launch_draft(request: HttpRequest, run_id: str) -> dict[str, Any]:
    """Its configuration is checked anew, then its first attempt is queued. 409 where it is no draft any more."""
    run = run_of(request, run_id)
    editing.launch_draft(run, user=user_of(request))
    return run_payload(run)


@router.delete(
    "/{run_id}",
    auth=LAUNCH,
    response={204: None},
    summary="Delete a run that trains elsewhere, or a draft",
    description="A draft goes for good. A run that trains elsewhere has to have ended; for a day it can be restored, "
    "and GET /runs lists it with the filter deleted:yes. One that was launched here can be archived, not deleted.",
    openapi_extra=answers(409),
)
def delete_run(request: HttpRequest, run_id: str) -> Status:
    run, user = run_of(request, run_id), user_of(request)
    if run.origin == Run.Origin.LAUNCHED and run.state == State.DRAFT:
        editing.delete_draft(run, user=user)
    else:
        editing.delete_run(run, user=user)
    return Status(204, None)


@router.post(
    "/{run_id}/restore",
    auth=LAUNCH,
    response=RUN,
    summary="Bring back a run deleted within a day",
    openapi_extra=answers(409),
)
def restore_run(request: HttpRequest, run_id: str) -> dict[str, Any]:
    """As it was, with all that it reported. 409 for one that is not deleted."""
    run = selectors.run_by_id(project_of(request), run_id, deleted=True)
    return run_payload(editing.restore_run(run, user=user_of(request)))


@router.get(
    "/{run_id}/transitions", auth=READ_RUN, response=schemas.TransitionList, summary="Its changes of state"
)
def list_transitions(request: HttpRequest, run_id: str) -> dict[str, Any]:
    """Of all its attempts, oldest first: when, by whom or which part, and why."""
    found = selectors.transitions_of(run_of(request, run_id))
    return {"items": [transition_payload(row) for row in found]}


@router.post("/{run_id}/start", auth=WRITE_RUN, response=RUN, summary="The trainer is up")
def start(request: HttpRequest, run_id: str, body: schemas.StartBody) -> dict[str, Any]:
    """What earlier attempts reported past `resumed_from_step` counts no more from now on; without that step this
    attempt began anew, and nothing of theirs counts. Safe to repeat."""
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
    openapi_extra=answers(409),
)
def describe(request: HttpRequest, run_id: str, body: schemas.DescribeBody) -> dict[str, Any]:
    run = run_of(request, run_id)
    editing.report_described(run, **body.model_dump())
    return run_payload(run)


@router.post(
    "/{run_id}/finish",
    auth=WRITE_RUN,
    response=RUN,
    summary="How the trainer ended",
    openapi_extra=answers(409),
)
def finish(request: HttpRequest, run_id: str, body: schemas.FinishBody) -> dict[str, Any]:
    """Safe to repeat. 409 where the attempt has ended in another way. With `infrastructure` a launched run may go on by
    itself from its newest checkpoint."""
    run = run_of(request, run_id)
    check_attempt(request, [body.attempt])
    lifecycle.report_finished(run, **body.model_dump())
    return run_payload(run)


@router.get(
    "/{run_id}/meaning",
    auth=READ,
    response=schemas.MeaningBody,
    summary="What was said of a tracked run's metrics",
    description="What POST to the same address has said; nothing by default.",
)
def get_meaning(request: HttpRequest, run_id: str) -> meaning.Meaning:
    return meaning.meaning_of(run_of(request, run_id))


@router.post(
    "/{run_id}/refused",
    auth=WRITE_RUN,
    response=RUN,
    summary="How much of what a trainer logged is not stored",
    description="For clients that go on where records are refused: the run's page says how much is missing. Counts are "
    "those of the whole attempt, and never shrink.",
)
def note_refused(request: HttpRequest, run_id: str, body: schemas.RefusedBody) -> dict[str, Any]:
    run = run_of(request, run_id)
    check_attempt(request, [body.attempt])
    return run_payload(ingest.note_refused(run, **body.model_dump()))


@router.post(
    "/{run_id}/meaning",
    auth=WRITE,
    response=RUN,
    summary="Say what a tracked run's metrics mean",
    description="Which metric is the held-out pass rate, and on how many devices it trains: for a trainer that knows "
    "nothing of Headroom. It holds for what was reported and for what comes; said anew, it replaces what was said. "
    "Of a run with more than 50,000 points it is the worker that makes them anew, within a minute or so.",
    openapi_extra=answers(409),
)
def state_meaning(request: HttpRequest, run_id: str, body: schemas.MeaningBody) -> dict[str, Any]:
    run = run_of(request, run_id)
    said = meaning.Meaning(**body.model_dump())
    return run_payload(meaning.state_meaning(run, said, user=user_of(request)))


@router.post(
    "/{run_id}/meaning/preview",
    auth=WRITE,
    response=schemas.MeaningPreview,
    summary="The curve as it would be if this were said",
    description="Every point of eval/pass_rate whose compute would be known on this axis; nothing is stored. 409 for a "
    "run with more than 50,000 points and more than 20,000 evaluations.",
    openapi_extra=answers(409),
)
def preview_meaning(
    request: HttpRequest, run_id: str, body: schemas.MeaningBody, query: Query[schemas.AxisQuery]
) -> dict[str, Any]:
    with meaning.as_if_said(run_of(request, run_id), meaning.Meaning(**body.model_dump())) as changed:
        points = effective_points(changed)
    known = [point_payload(point, query.x) for point in points if getattr(point, query.x) is not None]
    return {"x": query.x, "total": len(points), "points": known}


@router.post(
    "/{run_id}/records",
    auth=WRITE_RUN,
    response=schemas.IngestOut,
    exclude_unset=True,
    summary="Report a batch of records",
    description="All or nothing. A record whose (attempt, seq) is stored already counts as a duplicate; with "
    "other content the batch is refused (409). `gather_seconds`: for how long the server asks this client to gather "
    "records before the next batch, by how many runs report at the moment.",
    openapi_extra=BATCH_BODY | answers(409),
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
    return answer | {"gather_seconds": selectors.asked_of_a_client()}


@router.get(
    "/{run_id}/records",
    auth=READ_RUN_HEAVY,
    response=schemas.RecordPage,
    summary="Records as reported",
    openapi_extra=answers(etag=True),
)
def list_records(request: HttpRequest, run_id: str, query: Query[schemas.RecordQuery]) -> dict[str, Any]:
    """In the order of arrival. `since` of an answer, sent as `since`, asks for what came after it: also where `next` is
    null, and also where nothing had come yet."""
    run = run_of(request, run_id)
    unless_known(request, run.version)
    return page_since(selectors.records_of(run), query, order=["arrival"], since=query.since)
