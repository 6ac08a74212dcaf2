"""What a journal has to say beside its records: how to make the run, how each attempt began, and how the last ended.

It lies beside the journal, replaced atomically, so that `headroom sync` can tell a server all of it days later.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headroom.configuration import write_json


@dataclass(frozen=True)
class About:
    """`key`: makes the run once, however often it is asked for. `description`: of a run that is to be made. `starts`:
    attempt -> its start notice. `outcome`: the finish notice of the last attempt; None while it goes on. `later`: what
    was said of the run after it was begun; `unsaid` while the server may not have all of it."""

    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    description: Mapping[str, Any] = field(default_factory=dict)
    starts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    outcome: Mapping[str, Any] | None = None
    later: Mapping[str, Any] = field(default_factory=dict)
    unsaid: bool = False

    def described(self, said: Mapping[str, Any]) -> "About":
        return replace(self, later=together(self.later, said), unsaid=True)

    def started(self, start: Mapping[str, Any]) -> "About":
        """With the start notice of an attempt, which has not ended, and since when it goes."""
        before = self.starts.get(number := str(start["attempt"]), {})
        noted = {**start, "time": before.get("time") or _now()}
        return replace(self, starts={**self.starts, number: noted}, outcome=None)

    def ended(self, outcome: Mapping[str, Any]) -> "About":
        return replace(self, outcome={**outcome, "time": _now()})

    def notices(self) -> list[dict[str, Any]]:
        """The start notices, in the order of the attempts."""
        return [dict(self.starts[number]) for number in sorted(self.starts, key=int)]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def together(before: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Of what was said of a run and what is said now (name, tags, config) all that holds."""
    config = {**before.get("config", {}), **said.get("config", {})}
    tags = list(dict.fromkeys([*before.get("tags", ()), *said.get("tags", ())]))
    holds = {"name": said.get("name") or before.get("name"), "tags": tags, "config": config}
    return {name: value for name, value in holds.items() if value}


def path_of(journal: Path) -> Path:
    return journal.with_name(journal.name + ".about")


def load(journal: Path) -> About:
    """A new one where there is none, or none that can be read."""
    try:
        return About(**json.loads(path_of(journal).read_text()))
    except (OSError, ValueError, TypeError):
        return About()


def save(about: About, journal: Path) -> None:
    """Raises OSError."""
    write_json(asdict(about), path_of(journal))


def note_said(journal: Path) -> None:
    """The server has what was said later: not to be said again, over what people have changed since. Raises OSError."""
    if (known := load(journal)).unsaid:
        save(replace(known, unsaid=False), journal)
