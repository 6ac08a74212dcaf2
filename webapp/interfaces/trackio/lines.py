"""Lines of trackio's batches: read and checked before anything is stored."""

import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headroom.adapters.naming import SYSTEM
from training.records import MAX_STEP, MIN_STEP
from webapp.base.errors import InvalidInput
from webapp.interfaces.tracking.groups import MAX_NAME as MAX_GROUP
from webapp.interfaces.tracking.lines import Value, to_ms
from webapp.interfaces.tracking.translate import GLOBAL_STEP, MAX_NAME, to_value

MAX_ID = 64
MAX_TIME = 253_402_300_799_999  # milliseconds: the last of the year 9999


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


def parse(entry: Any, place: str, *, is_system: bool = False) -> Line:
    """Raises InvalidInput naming the field of `place` (logs[3])."""
    if not isinstance(entry, dict):
        raise InvalidInput(place, f"{place} must be an object.")
    run_name = text(entry, place, "run", 10_000)
    metrics = entry.get("metrics")
    if not isinstance(metrics, dict):
        raise InvalidInput(f"{place}.metrics", f"{place}.metrics must be an object.")
    config = entry.get("config")
    if config is not None and not isinstance(config, dict):
        raise InvalidInput(f"{place}.config", f"{place}.config must be an object or null.")
    return Line(
        group=text(entry, place, "project", MAX_GROUP),
        run_name=run_name,
        run_key=run_key(entry, place, run_name),
        id=text(entry, place, "log_id", MAX_ID, default="") or _digest(entry),
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


def run_key(entry: Mapping[str, Any], place: str, run_name: str) -> str:
    """Its id; clients that have none tell runs apart by name. Raises InvalidInput."""
    given = text(entry, place, "run_id", MAX_ID, default="")
    return given or hashlib.sha256(run_name.encode()).hexdigest()[:32]


def _digest(entry: Mapping[str, Any]) -> str:
    """The id of a line that has none: the same line again is the same."""
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()[:MAX_ID]


def _step(entry: Mapping[str, Any], place: str) -> int | None:
    step = entry.get("step")
    if step is None:
        return None
    if isinstance(step, bool) or not isinstance(step, int) or not MIN_STEP <= step <= MAX_STEP:
        raise InvalidInput(f"{place}.step", f"{place}.step must be a whole number of 64 bits.")
    return step


def _time(entry: Mapping[str, Any], place: str) -> int | None:
    given = entry.get("timestamp")
    if given is None:
        return None
    return time_of(given, f"{place}.timestamp")


def time_of(given: Any, place: str) -> int:
    """Milliseconds of an ISO 8601 time; without an offset it is UTC. Raises InvalidInput."""
    try:
        moment = dt.datetime.fromisoformat(given)
    except (TypeError, ValueError):
        raise InvalidInput(place, f"{place} must be an ISO 8601 time.") from None
    time_ms = max(0, to_ms(moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)))
    if time_ms > MAX_TIME:
        raise InvalidInput(place, f"{place} must be within the years 1970 to 9999 of UTC.")
    return time_ms


def read(line: Line, *, last_step: int, now_ms: int, has_own_steps: bool = False) -> Read:
    """The line's numbers at its step. transformers logs without a step, and says its own among the metrics
    (`has_own_steps`: the number that trackio gives a line is none); TRL's timings are of the newest step."""
    own = to_value(line.metrics.get(GLOBAL_STEP))
    if own is not None and MIN_STEP <= own <= MAX_STEP and own == int(own):
        step = int(own)
    elif has_own_steps:
        step = last_step
    elif line.step is not None:
        step = line.step
    else:
        step = last_step if line.is_system else min(last_step + 1, MAX_STEP)
    time_ms = now_ms if line.time_ms is None else line.time_ms
    found = Read(step)
    for name, given in line.metrics.items():
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
