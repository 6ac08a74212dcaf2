"""Storing what trackio's clients send: all of a batch or nothing, each line once."""

import datetime as dt
import io
import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from webapp.base.errors import ServiceError
from webapp.identity.accounts.models import Project, User
from webapp.interfaces.tracking import client_runs, receipts
from webapp.interfaces.tracking.attempts import rejoin
from webapp.interfaces.tracking.groups import ensure_group
from webapp.interfaces.tracking.intake import locked, store_lists
from webapp.interfaces.tracking.lines import by_moment, to_ms
from webapp.interfaces.tracking.models import ClientRun, Group
from webapp.interfaces.tracking.translate import TRANSFORMERS, said_by
from webapp.interfaces.trackio.lines import Line, Read, read
from webapp.record.artifacts import store
from webapp.record.runs.models import Record, Run, State

log = logging.getLogger(__name__)

TRACKIO = ClientRun.Client.TRACKIO
MOST_KEPT = 100  # alerts of a run, and names of what was left out


@transaction.atomic
def store_lines(project: Project, user: User | None, lines: Sequence[Line]) -> None:
    """Store the lines that have not arrived yet, with their runs where those are new.

    A run that is there and comes with its configuration again has a new process: it goes on with the run.
    """
    runs: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        runs.setdefault(line.run, []).append(line)
    # First what is new, then the lines, each in one order: two batches cannot wait for each other.
    made = {key: ensure_run(project, user, runs[key]) for key in sorted(runs)}
    for key in sorted(made, key=lambda key: made[key].pk):
        _store_run(made[key], runs[key])


def ensure_run(project: Project, user: User | None, lines: Sequence[Line]) -> ClientRun:
    """The run of these lines, made where it is new."""
    group, first = ensure_group(project, lines[0].group), lines[0]
    found = ClientRun.objects.filter(group=group, key=first.run_key).first()
    if found is not None:
        return found
    Group.objects.select_for_update().get(pk=group.pk)  # of two that come at once one makes it
    found = ClientRun.objects.filter(group=group, key=first.run_key).first()
    if found is not None:
        return found
    config = next((line.config for line in lines if line.config), {})
    begun = ClientRun(
        client=TRACKIO,
        name=first.run_name,
        key=first.run_key,
        start_ms=_start_ms(config),
        user_name=str(config.get("_Username") or ""),
    )
    return client_runs.make_client_run(group, begun, user=user)


def _now_ms() -> int:
    return int(time.time() * 1000)


def _start_ms(config: Mapping[str, Any]) -> int:
    """When the client says that it began, unless that is yet to come."""
    try:
        began = dt.datetime.fromisoformat(str(config.get("_Created")))
    except ValueError:
        return _now_ms()
    return max(0, min(_now_ms(), to_ms(began))) if began.tzinfo else _now_ms()


def _store_run(client_run: ClientRun, lines: Sequence[Line]) -> None:
    run, here = locked(client_run)
    fresh_ids = receipts.new_lines(here, [line.id for line in lines])
    fresh = list({line.id: line for line in lines if line.id in fresh_ids}.values())
    config = next((line.config for line in fresh if line.config), None)
    if (config is not None and Record.objects.filter(run=run).exists()) or (
        fresh and run.state == State.SUCCEEDED  # after a silence
    ):
        rejoin(run, here)
    values, left_out, last_step = [], [], here.last_step
    now_ms = _now_ms()
    has_own_steps = said_by(here.params | dict(config or {}), {}).trainer == TRANSFORMERS
    for line in fresh:
        found = read(line, last_step=last_step, now_ms=now_ms, has_own_steps=has_own_steps)
        values += found.values
        left_out += [*found.left_out, *_keep_others(run, found)]
        if found.values and not line.is_system:
            last_step = found.values[0].step
    noted = list(dict.fromkeys([*here.tags.get(client_runs.LEFT_OUT, []), *left_out]))[:MOST_KEPT]
    if config is not None or noted != here.tags.get(client_runs.LEFT_OUT, []):
        tags = {client_runs.LEFT_OUT: noted or None}
        here = client_runs.describe(here, params=config, tags=tags, may_replace=True)
        run.refresh_from_db()
    store_lists(run, here, by_moment(values))


def _keep_others(run: Run, found: Read) -> list[str]:
    """Keep what is no number as files; names of what cannot be kept."""
    left_out = []
    for name, value in found.others.items():
        content = json.dumps(value).encode()
        try:
            store.store(run, f"logged/{name}/{found.step}.json", io.BytesIO(content).read, len(content))
        except ServiceError as error:
            log.warning("%s of run %s is not kept: %s", name, run.pk, error)
            left_out.append(name)
    return left_out


@transaction.atomic
def store_alerts(project: Project, user: User | None, alerts: Sequence[tuple[Line, dict[str, Any]]]) -> None:
    """Keep the newest 100 alerts of a run where its page shows its configuration. Safe to repeat."""
    for line, alert in alerts:
        _, here = locked(ensure_run(project, user, [line]))
        if receipts.new_lines(here, [line.id]):
            kept = [*here.tags.get(client_runs.ALERTS, []), alert][-MOST_KEPT:]
            client_runs.describe(here, tags={client_runs.ALERTS: kept})
