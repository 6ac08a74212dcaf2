"""Runs of other trackers' clients: made, described, ended, joined again; and their groups, as MLflow's experiments and
trackio's projects make them. Who may, the callers have checked."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef
from django.db.models.functions import Greatest
from django.utils import timezone

from headroom.adapters.naming import SYSTEM
from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import Project, User
from webapp.interfaces.tracking.intake import locked, rejoin
from webapp.interfaces.tracking.models import ClientMetric, ClientRun, Group
from webapp.interfaces.tracking.translate import DESCRIPTION, NO_WORDS, Meter, iso, said_by
from webapp.record.runs import lifecycle
from webapp.record.runs.bounds import MAX_MODEL, MAX_NAME, MAX_NOTES, MAX_TASK, check_config, check_models
from webapp.record.runs.launch import UNSTATED, TrackRequest, track_run
from webapp.record.runs.models import State
from webapp.record.runs.states import bump

MAX_PARAMS = 20_000  # of a run, so that its configuration stays what a page can show
MAX_MODELS = 1000
SILENCE = timedelta(minutes=5)
SILENT = (
    f"Its client has been silent for {SILENCE.seconds // 60} minutes; trackio does not say how a run ends."
)
DEFAULT_GROUP = "Default"  # MLflow's experiment 0
MAX_GROUP = 500
# What a run's page says besides its configuration; bounded where they are made.
OF_TRACKIO = ALERTS, LEFT_OUT = "alerts", "left_out"


@transaction.atomic
def make_client_run(group: Group, begun: ClientRun, *, user: User | None) -> ClientRun:
    """Store what a client has begun, with a tracked run that is running from now on. `begun` says client, name and
    start_ms, and what else is known; without a key it gets a new one of 32 hex digits."""
    begun.key = begun.key or uuid.uuid4().hex
    begun.name = begun.name or f"run {begun.key[:8]}"
    request = TrackRequest(name=presentable(begun.name, MAX_NAME))
    begun.run, begun.group = track_run(request, user=user, project=group.project).run, group
    begun.meter = asdict(Meter(since_ms=begun.start_ms))
    begun.save(force_insert=True)
    lifecycle.report_started(begun.run, attempt=1, time=iso(begun.start_ms))
    bump(begun.run.pk, **_shown(begun))
    return begun


def presentable(text: str, most: int) -> str:
    """As a page can show it; the whole text is kept beside it."""
    return "".join(letter if letter.isprintable() else " " for letter in text).strip()[:most].strip()


@transaction.atomic
def describe(
    client_run: ClientRun,
    *,
    params: Mapping[str, Any] | None = None,
    tags: Mapping[str, Any] | None = None,
    name: str | None = None,
    may_replace: bool = False,
) -> ClientRun:
    """Add params, set tags (None takes one away), rename. All or nothing, and safe to repeat.

    Raises InvalidInput (params, tags) where a param is there with another value, unless it `may_replace`, and for more
    than a run may have.
    """
    run, here = locked(client_run)
    if params and not may_replace:
        _check_unchanged(here, params)
    before = _shown(here)
    here.params = here.params | dict(params or {})
    if len(here.params) > MAX_PARAMS:
        raise InvalidInput("params", f"params: a run has at most {MAX_PARAMS:,} of them.")
    here.tags = {key: value for key, value in (here.tags | dict(tags or {})).items() if value is not None}
    if params:
        check_config(here.params, "params")
    if tags:
        check_config({key: value for key, value in here.tags.items() if key not in OF_TRACKIO}, "tags")
    here.name = here.name if name is None else name
    here.save(update_fields=["params", "tags", "name"])
    fresh = {field: value for field, value in _shown(here).items() if value != before[field]}
    if fresh:  # what the client says anew: what a person has put right stays otherwise
        bump(run.pk, **fresh)
    return here


def _check_unchanged(here: ClientRun, params: Mapping[str, Any]) -> None:
    for key, value in params.items():
        if here.params.get(key, value) != value:
            raise InvalidInput(
                "params",
                f"Changing param values is not allowed. Param with key='{key}' was already logged with "
                f"value='{here.params[key]}' for run ID='{here.key}'. Attempted logging new value '{value}'.",
            )


def _shown(here: ClientRun) -> dict[str, Any]:
    """What Headroom's pages show of it: name and configuration, and task, model and seed where they are said."""
    said = said_by(here.params, here.tags)
    origin: dict[str, Any] = {"client": here.client, "group": here.group.name, "run_id": here.key}
    origin |= {name: here.tags[name] for name in OF_TRACKIO if name in here.tags}
    if words := {
        name: each for name, each in here.tags.items() if not name.startswith((*NO_WORDS, *OF_TRACKIO))
    }:
        origin["tags"] = words
    note = str(here.tags.get(DESCRIPTION, "")).splitlines()
    return {
        "config": {**here.params, "logged_through": origin},
        "notes": "\n".join(presentable(line, MAX_NOTES) for line in note).strip()[:MAX_NOTES],
        "name": presentable(here.name, MAX_NAME) or f"run {here.key[:8]}",
        "task": presentable(said.task, MAX_TASK) or UNSTATED,
        "model": presentable(said.model, MAX_MODEL) or UNSTATED,
        "seed": said.seed or 0,
    }


@transaction.atomic
def go_on(client_run: ClientRun) -> None:
    """Its client joins it again."""
    rejoin(*locked(client_run))


@transaction.atomic
def end(client_run: ClientRun, *, state: str, end_ms: int | None, message: str = "") -> None:
    """Its client says how it ended. One that has ended in another way stays so: for the training that is no error."""
    run, here = locked(client_run)
    here.end_ms = end_ms
    here.save(update_fields=["end_ms"])
    with suppress(Conflict), transaction.atomic():
        at = None if end_ms is None else iso(end_ms)
        lifecycle.report_finished(run, attempt=run.attempt_number, state=state, message=message, time=at)


def end_silent_trackio() -> int:
    """trackio's `finish` tells its server nothing. Its client sends figures of the machine every ten seconds, where it
    is not told otherwise: a run that had them and has been silent for `SILENCE` has ended; how many. One that speaks
    after all goes on as its next attempt."""
    silent = ClientRun.objects.annotate(heard=Greatest("run__started_at", "run__heartbeat_at")).filter(
        Exists(ClientMetric.objects.filter(run=OuterRef("pk"), key__startswith=SYSTEM)),
        client=ClientRun.Client.TRACKIO,
        run__state=State.RUNNING,
        heard__lt=timezone.now() - SILENCE,
    )
    found = list(silent)
    for row in found:
        end(row, state=State.SUCCEEDED, end_ms=None, message=SILENT)
    return len(found)


def set_deleted(client_run: ClientRun, is_deleted: bool) -> None:
    """Hide it from the client, or show it again. On Headroom's pages it stays: nothing of it is lost."""
    ClientRun.objects.filter(pk=client_run.pk, deleted_at__isnull=is_deleted).update(
        deleted_at=timezone.now() if is_deleted else None
    )


@transaction.atomic
def add_model(client_run: ClientRun, about: dict[str, Any]) -> tuple[str, ClientRun]:
    """Note a model that the run logged; its new id. Raises InvalidInput where they are too many, or too much."""
    _, here = locked(client_run)
    if len(here.logged_models) >= MAX_MODELS:
        raise InvalidInput("name", f"A run may log at most {MAX_MODELS} models.")
    model_id = f"m-{here.key}-{len(here.logged_models) + 1}"
    return model_id, change_model(here, model_id, about)


@transaction.atomic
def change_model(client_run: ClientRun, model_id: str, about: dict[str, Any]) -> ClientRun:
    """What is said of a model from now on. Raises InvalidInput (models) where all of them are too much together."""
    _, here = locked(client_run)
    here.logged_models[model_id] = about
    check_models(here.logged_models)
    here.save(update_fields=["logged_models"])
    return here


def create_group(project: Project, name: str, *, tags: Mapping[str, str] | None = None) -> Group:
    """Raises InvalidInput (name), and Conflict (name) where there is one."""
    with _named(name, field="name"):
        return project.groups.create(name=name, tags=dict(tags or {}))


@contextmanager
def _named(name: str, *, field: str) -> Iterator[None]:
    """Around what gives a group this name. Raises InvalidInput (name), and Conflict (`field`) where there is one."""
    _check_name(name)
    try:
        with transaction.atomic():
            yield
    except IntegrityError:
        raise Conflict(f"There is already an experiment named {name!r}.", field=field) from None


def ensure_group(project: Project, name: str) -> Group:
    """The project's group of this name, made where it is missing. Raises InvalidInput (name)."""
    _check_name(name)
    return project.groups.get_or_create(name=name)[0]


def _check_name(name: str) -> None:
    """Raises InvalidInput (name)."""
    if not name.strip() or len(name) > MAX_GROUP or not name.isprintable():
        raise InvalidInput("name", f"name must have 1 to {MAX_GROUP} printable characters.")


def rename_group(group: Group, name: str) -> None:
    """Raises InvalidInput (name) and Conflict (new_name)."""
    with _named(name, field="new_name"):
        group.name = name
        group.save(update_fields=["name", "changed_at"])


def set_group_deleted(group: Group, is_deleted: bool) -> None:
    """Hide it from clients, or show it again; its runs stay as they are."""
    Group.objects.filter(pk=group.pk, deleted_at__isnull=is_deleted).update(
        deleted_at=timezone.now() if is_deleted else None, changed_at=timezone.now()
    )


@transaction.atomic
def set_group_tags(group: Group, tags: Mapping[str, str | None]) -> None:
    """None takes one away."""
    here = Group.objects.select_for_update().get(pk=group.pk)
    here.tags = {name: value for name, value in (here.tags | dict(tags)).items() if value is not None}
    here.save(update_fields=["tags", "changed_at"])
