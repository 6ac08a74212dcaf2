"""Storing what trackio's clients send: each line once, all of a batch or none unless it is very long.

Lines of trackio's batches: read and checked before anything is stored.
"""

import datetime as dt
import hashlib
import io
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import Any

from django.db import transaction

from headroom.adapters.naming import SYSTEM
from training.records import MAX_STEP, MIN_STEP
from webapp.base.errors import InvalidInput, ServiceError
from webapp.identity.accounts.models import Project, User
from webapp.interfaces import files
from webapp.interfaces.tracking import client_runs, intake
from webapp.interfaces.tracking.models import ClientRun, Group
from webapp.interfaces.tracking.translate import (
    GLOBAL_STEP,
    MAX_NAME,
    MAX_TIME,
    TRANSFORMERS,
    Value,
    by_moment,
    now_ms,
    said_by,
    to_ms,
    to_value,
)
from webapp.record.runs.ingest import note_refused
from webapp.record.runs.models import Record, Run, State

MAX_ID = 64
MOST_NAMES = 10_000  # of a line
log = logging.getLogger(__name__)
TRACKIO = ClientRun.Client.TRACKIO
MOST_KEPT = 100  # alerts of a run, and names of what was left out
# What is stored at a time. A client sends all that it has kept back, of all its runs, in one request.
MOST_RUNS, MOST_FILES, MOST_VALUES = 50, 100, 20_000
SECONDS = 3.0  # that a request may take, beyond its first part that holds something new


class NotAll(ServiceError):
    """A request was more than is stored at once; what is stored of it is passed over when it comes again."""

    status, code = 503, "not_all"


@dataclass(frozen=True)
class Line:
    """One call of `trackio.log`: of which run, under which id. `time_ms` None: it does not say when."""

    group: str
    run_name: str
    run_key: str
    id: str
    metrics: Mapping[str, Any]
    step: int | None = None
    config: Mapping[str, Any] | None = None
    time_ms: int | None = None
    is_system: bool = False

    @property
    def run(self) -> tuple[str, str]:
        return self.group, self.run_key


@dataclass
class Read:
    """What a line holds: numbers, tables and the like (pictures name their files), and the names of the rest."""

    step: int
    values: list[Value] = field(default_factory=list)
    others: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def listed(given: Mapping[str, Any], name: str) -> list[Any]:
    """Raises InvalidInput."""
    found = given.get(name)
    if not isinstance(found, list):
        raise InvalidInput(f"kwargs.{name}", f"kwargs.{name} must be a list.")
    return found


def objects(given: Mapping[str, Any], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, such as logs[3]; entry) of each in a list. Raises InvalidInput."""
    for i, entry in enumerate(listed(given, name)):
        place = f"{name}[{i}]"
        if not isinstance(entry, dict):
            raise InvalidInput(place, f"{place} must be an object.")
        yield place, entry


def parse(entry: Mapping[str, Any], place: str, *, is_system: bool = False) -> Line:
    """Clients that have no id of a run tell runs apart by name, and the same line without an id is the same line.

    Raises InvalidInput naming the field of `place` (logs[3]).
    """
    run_name = text(entry, place, "run", 10_000)
    metrics = entry.get("metrics")
    if not isinstance(metrics, dict):
        raise InvalidInput(f"{place}.metrics", f"{place}.metrics must be an object.")
    config = entry.get("config")
    if config is not None and not isinstance(config, dict):
        raise InvalidInput(f"{place}.config", f"{place}.config must be an object or null.")
    return Line(
        group=text(entry, place, "project", client_runs.MAX_GROUP),
        run_name=run_name,
        run_key=text(entry, place, "run_id", MAX_ID, default="") or _digest(run_name)[:32],
        id=text(entry, place, "log_id", MAX_ID, default="") or _digest(json.dumps(entry, sort_keys=True)),
        metrics=metrics,
        step=_step(entry, place),
        config=config,
        time_ms=_time(entry, place),
        is_system=is_system,
    )


def text(entry: Mapping[str, Any], place: str, name: str, most: int, *, default: str | None = None) -> str:
    """Raises InvalidInput."""
    value = entry.get(name)
    if (value is None or value == "") and default is not None:
        return default
    if not isinstance(value, str) or not value.strip() or len(value) > most or not value.isprintable():
        raise InvalidInput(
            f"{place}.{name}", f"{place}.{name} must be text of 1 to {most} printable characters."
        )
    return value


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _step(entry: Mapping[str, Any], place: str) -> int | None:
    step = entry.get("step")
    if step is None:
        return None
    if isinstance(step, bool) or not isinstance(step, int):
        raise InvalidInput(f"{place}.step", f"{place}.step must be a whole number.")
    return min(max(step, MIN_STEP), MAX_STEP)  # refused, it would hold up all that the client logs after it


def _time(entry: Mapping[str, Any], place: str) -> int | None:
    """Milliseconds of an ISO 8601 time, 0 before 1970; without an offset it is UTC. Raises InvalidInput."""
    given, path = entry.get("timestamp"), f"{place}.timestamp"
    if given is None:
        return None
    try:
        moment = dt.datetime.fromisoformat(given)
    except (TypeError, ValueError):
        raise InvalidInput(path, f"{path} must be an ISO 8601 time.") from None
    time_ms = max(0, to_ms(moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)))
    if time_ms > MAX_TIME:
        raise InvalidInput(path, f"{path} must be in the year 9999 of UTC at the latest.")
    return time_ms


def read(line: Line, *, last_step: int, at_ms: int, has_own_steps: bool) -> Read:
    """The line's numbers at its step. transformers logs without a step, and says its own among the metrics
    (`has_own_steps`: the number that trackio gives a line is none); TRL's timings are of the newest step. `at_ms`: when
    the line arrived."""
    own = to_value(line.metrics.get(GLOBAL_STEP))
    if own is not None and MIN_STEP <= own <= MAX_STEP and own == int(own):
        step = int(own)
    elif has_own_steps:
        step = last_step
    elif line.step is not None:
        step = line.step
    else:
        step = last_step if line.is_system else min(last_step + 1, MAX_STEP)
    time_ms = at_ms if line.time_ms is None else line.time_ms
    found = Read(step)
    if (more := len(line.metrics) - MOST_NAMES) > 0:
        found.left_out.append(f"{more:,} more names")
    for name, given in islice(line.metrics.items(), MOST_NAMES):
        name = f"{SYSTEM}{name}" if line.is_system else name
        value = to_value(given)
        if not name or len(name) > MAX_NAME or not name.isprintable():
            found.left_out.append(name[:MAX_NAME])
        elif value is None and isinstance(given, dict | list):
            found.others[name] = given
        elif value is None:
            found.left_out.append(name)
        else:
            found.values.append(Value(name, value, step, time_ms))
    return found


def store_lines(project: Project, user: User | None, lines: Sequence[Line]) -> None:
    """Store the lines that have not arrived yet, with their runs where those are new.

    A run that is there and comes with its configuration again has a new process: it goes on with the run. All of the
    lines or none, unless they are too many for that: then part by part, and after SECONDS NotAll is raised.
    """
    until, is_new = time.monotonic() + SECONDS, False
    seen: set[tuple[str, str]] = set()
    for part in _parts(lines):
        if is_new and time.monotonic() >= until:
            raise NotAll(
                "This is as much as is stored at once. Send it again: what is stored is passed over."
            )
        # Only the first line of a process has its configuration; what a client has kept back has it in each.
        here = [replace(line, config=None) if line.run in seen else line for line in part]
        is_new |= _store_part(project, user, here)
        seen |= {line.run for line in part}


def _parts(lines: Sequence[Line]) -> Iterator[list[Line]]:
    """In their order, by what they take to store."""
    part: list[Line] = []
    values, files, runs = 0, 0, set[tuple[str, str]]()
    for line in lines:
        tables = sum(isinstance(given, dict | list) for given in line.metrics.values())
        values, files = values + len(line.metrics), files + tables
        runs.add(line.run)
        if part and (values > MOST_VALUES or files > MOST_FILES or len(runs) > MOST_RUNS):
            yield part
            part, values, files, runs = [], len(line.metrics), tables, {line.run}
        part.append(line)
    if part:
        yield part


@transaction.atomic
def _store_part(project: Project, user: User | None, lines: Sequence[Line]) -> bool:
    """Whether there was something new."""
    runs: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        runs.setdefault(line.run, []).append(line)
    room = iter(range(MOST_FILES))
    # First what is new, then the lines, each in one order: two batches cannot wait for each other.
    made = {key: ensure_run(project, user, runs[key]) for key in sorted(runs)}
    found = [_store_run(made[key], runs[key], room) for key in sorted(made, key=lambda key: made[key].pk)]
    return any(found)


def ensure_run(project: Project, user: User | None, lines: Sequence[Line]) -> ClientRun:
    """The run of these lines, made where it is new."""
    group, first = client_runs.ensure_group(project, lines[0].group), lines[0]
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


def _start_ms(config: Mapping[str, Any]) -> int:
    """When the client says that it began, unless that is yet to come."""
    try:
        began = dt.datetime.fromisoformat(str(config.get("_Created")))
    except ValueError:
        return now_ms()
    return max(0, min(now_ms(), to_ms(began))) if began.tzinfo else now_ms()


def _store_run(client_run: ClientRun, lines: Sequence[Line], room: Iterator[int]) -> bool:
    """Whether there was something new. `room`: for files, one each."""
    run, here = intake.locked(client_run)
    fresh_ids = intake.new_lines(here, [line.id for line in lines])
    fresh = list({line.id: line for line in lines if line.id in fresh_ids}.values())
    config = next((line.config for line in fresh if line.config), None)
    if (config is not None and Record.objects.filter(run=run).exists()) or (
        fresh and run.state == State.SUCCEEDED  # after a silence
    ):
        intake.rejoin(run, here)
    read_lines, last_step = [], here.last_step
    at_ms = now_ms()
    has_own_steps = said_by(here.params | dict(config or {}), {}).trainer == TRANSFORMERS
    for line in fresh:
        found = read(line, last_step=last_step, at_ms=at_ms, has_own_steps=has_own_steps)
        read_lines.append(found)
        if found.values and not line.is_system:
            last_step = found.values[0].step
    too_large: list[str] = []
    if config is not None:
        try:
            here = client_runs.describe(here, params=config, may_replace=True)
        except InvalidInput:  # refused, it would hold up all that the client sends after it
            too_large = ["config"]
        run.refresh_from_db()
    intake.store_lists(run, here, by_moment([value for found in read_lines for value in found.values]))
    run.refresh_from_db()  # the attempt may be another one now
    _note_left_out(
        here,
        too_large
        + [name for found in read_lines for name in [*found.left_out, *_keep_others(run, found, room)]],
    )
    return bool(fresh)


def _note_left_out(here: ClientRun, names: Sequence[str]) -> None:
    known = here.tags.get(client_runs.LEFT_OUT, [])
    noted = list(dict.fromkeys([*known, *names]))[:MOST_KEPT]
    if noted != known:
        client_runs.describe(here, tags={client_runs.LEFT_OUT: noted})


def note_refused_file(client_run: ClientRun, why: str) -> None:
    """Count a file that is not kept on its run's page. Safe to repeat."""
    run, here = intake.locked(client_run)
    why = why[:MAX_NAME]
    if why in here.tags.get(client_runs.LEFT_OUT, []):
        return
    _note_left_out(here, [why])
    attempt = run.attempt_number
    values = run.refused.get(str(attempt), {}).get("values", 0) + 1
    note_refused(run, attempt=attempt, refused_records=0, refused_values=values, reason=why)


def _keep_others(run: Run, found: Read, room: Iterator[int]) -> list[str]:
    """Keep what is no number as files; names of what cannot be kept."""
    left_out = []
    for name, value in found.others.items():
        if next(room, None) is None:
            left_out.append(name)
            continue
        content = json.dumps(value).encode()
        try:
            files.keep(
                run, _free_path(run, name, found.step, content), io.BytesIO(content).read, len(content)
            )
        except ServiceError as error:
            log.warning("%s of run %s is not kept: %s", name, run.pk, error)
            left_out.append(name)
    return left_out


def _free_path(run: Run, name: str, step: int, content: bytes) -> str:
    """A line comes once, so what lies there already is another table of this step: TRL logs one of its batch and one of
    its evaluation under the same name. The same content needs no second place."""
    digest = hashlib.sha256(content).hexdigest()
    paths = (f"logged/{name}{'' if n == 1 else f'-{n}'}/{step}.json" for n in count(1))
    return next(path for path in paths if not run.artifacts.filter(path=path).exclude(sha256=digest).exists())


@transaction.atomic
def store_alerts(project: Project, user: User | None, alerts: Sequence[tuple[Line, dict[str, Any]]]) -> None:
    """Keep the newest 100 alerts of a run where its page shows its configuration. Safe to repeat. Raises InvalidInput
    for too many runs: a client sends those of one."""
    runs: dict[tuple[str, str], list[tuple[Line, dict[str, Any]]]] = {}
    for line, alert in alerts:
        runs.setdefault(line.run, []).append((line, alert))
    if len(runs) > MOST_RUNS:
        raise InvalidInput("alerts", f"alerts may be of at most {MOST_RUNS} runs, not of {len(runs):,}.")
    for key in sorted(runs):
        _, here = intake.locked(ensure_run(project, user, [line for line, _ in runs[key]]))
        fresh = intake.new_lines(here, [line.id for line, _ in runs[key]])
        new = {line.id: alert for line, alert in runs[key] if line.id in fresh}
        if new:
            kept = [*here.tags.get(client_runs.ALERTS, []), *new.values()][-MOST_KEPT:]
            client_runs.describe(here, tags={client_runs.ALERTS: kept})
