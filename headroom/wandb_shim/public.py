"""`wandb.Api`: runs of a Headroom server, read as scripts of wandb read theirs."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import Any

from headroom.api import Api as Server
from headroom.api import ApiError
from headroom.wandb_shim.accepted import Accepting, accepts, warn_once
from headroom.wandb_shim.entries import Config, Summary
from headroom.wandb_shim.errors import CommError
from headroom.wandb_shim.files import Artifact, logged
from headroom.wandb_shim.runs import OURS, server_url
from headroom.wandb_shim.util import get_module

STATES = {"succeeded": "finished", "cancelled": "killed", "lost": "crashed"}  # the others have the same name
COMPARISONS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<=", "$ne": "!="}
NOT_FETCHED = "files of runs are not fetched here: see the page of the run"
NOT_LISTED = "artifacts of runs are not listed here"
NOT_CHANGED = "stored runs are not changed from here"
UNKEPT = {
    "files": "files of runs are not listed here: see the page of the run", "file": NOT_FETCHED,
    "logged_artifacts": NOT_LISTED, "used_artifacts": "", "update": NOT_CHANGED, "save": NOT_CHANGED,
    "delete": NOT_CHANGED, "upload_file": NOT_CHANGED,
}  # fmt: skip
KEPT: dict[str, Any] = {
    "entity": "",
    "tags": [],
    "notes": None,
    "group": None,
    "job_type": None,
}  # of `init`, and what it is else
FOUND = ("artifacts", "artifact_versions", "projects", "reports", "users", "teams")  # nothing of them
LISTS: dict[str, Any] = dict.fromkeys(("files", "logged_artifacts", "used_artifacts"), [])


@contextmanager
def _server() -> Iterator[Server]:
    """A connection. What goes wrong is a CommError."""
    try:
        with Server() as server:
            yield server
    except (ApiError, ValueError) as error:
        raise CommError(str(error)) from error


class PublicRun(Accepting, unkept=UNKEPT, answers=LISTS):
    """A run as it was stored when it was looked at; its configuration and values are asked for when they are needed."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self._found = found
        self.id, self.name, self.display_name = found["id"], found["name"], found["name"]
        self.state = STATES.get(found["state"], found["state"])
        self.created_at, self.url = found["created_at"], f"{server_url()}/runs/{found['id']}"
        self.project = found["task"]

    @cached_property
    def _detail(self) -> Mapping[str, Any]:
        with _server() as server:
            return server.run(self.id)

    @cached_property
    def _ours(self) -> Mapping[str, Any]:
        return self._detail["config"].get(OURS) or {}

    @cached_property
    def config(self) -> Config:
        return Config({name: value for name, value in self._detail["config"].items() if name != OURS})

    @cached_property
    def summary(self) -> Summary:
        latest = {name: value["value"] for name, value in self._detail["latest"].items()}
        return Summary(latest | (self._ours.get("summary") or {}))

    summary_metrics = property(lambda self: self.summary)
    path = property(lambda self: [part for part in (self.entity, self.project, self.id) if part])

    def __getattr__(self, name: str) -> Any:
        if name not in KEPT:
            raise AttributeError(name)
        return self._ours.get(name) or KEPT[name]

    @property
    def lastHistoryStep(self) -> int:  # noqa: N802  # wandb's name
        return max((value["step"] for value in self._detail["latest"].values()), default=-1)

    def scan_history(self, keys: Iterable[str] | None = None, **others: Any) -> Iterator[dict[str, Any]]:
        """Every record: its metrics, `_step` and `_timestamp` [s]. With `keys`, those that have all of them."""
        wanted = list(keys) if keys is not None else None
        with _server() as server:
            for record in server.records(self.id):
                time = datetime.fromisoformat(str(record["time"])).timestamp()
                row = {"_step": record["step"], "_timestamp": time, **record["metrics"]}
                if wanted is None:
                    yield row
                elif all(key in row for key in wanted):
                    yield {key: row[key] for key in wanted}

    def history(
        self,
        samples: int = 500,
        keys: Iterable[str] | None = None,
        x_axis: str = "_step",
        pandas: bool = True,
        **others: Any,
    ) -> Any:
        """Records as `scan_history` gives them, all of them: a data frame where pandas is installed, else a list."""
        rows = list(self.scan_history(keys))
        frames = get_module("pandas") if pandas else None
        return rows if frames is None else frames.DataFrame(rows)


class Api:
    """Needs HEADROOM_URL and HEADROOM_TOKEN. `run` and `runs` read; all else of wandb's is accepted and finds nothing.
    They raise CommError where the server refuses, or knows no such run."""

    def __init__(self, overrides: Any = None, timeout: int | None = None, api_key: str | None = None) -> None:
        self.settings: dict[str, Any] = dict(overrides or {})
        self.default_entity = ""

    def run(self, path: str = "") -> PublicRun:
        """By the last part of its path: the server's id of it, or wandb's."""
        wanted = path.rstrip("/").rpartition("/")[2]
        with _server() as server:
            found = next(server.runs(f'config.{OURS}.id = "{_quoted(wanted)}"'), None)
            return PublicRun(found or server.run(wanted))

    def runs(
        self, path: str | None = None, filters: Mapping[str, Any] | None = None, *args: Any, **others: Any
    ) -> list[PublicRun]:
        """Newest first. `path`: ENTITY/PROJECT, of which the project is the task. `filters`: of config.NAME, summary
        metrics, state, group, tags and display_name."""
        project = (path or "").rstrip("/").rpartition("/")[2]
        words = [f'task = "{_quoted(project)}"'] if project else []
        with _server() as server:
            return [PublicRun(found) for found in server.runs(" ".join(words + _filter(filters or {})))]

    def artifact(self, name: str, *args: Any, **others: Any) -> Artifact:
        """One that this process has logged; of any other one an empty artifact."""
        return logged(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return accepts(f"Api.{name} does nothing here", [] if name in FOUND else None)


def _quoted(text: Any) -> str:
    return str(text).replace("\\", "").replace('"', "")


def _filter(filters: Mapping[str, Any]) -> list[str]:
    """Of MongoDB's form, what has an equal in Headroom's language of filters."""
    words: list[str] = []
    for name, wanted in filters.items():
        field = _field(name)
        if name == "$and":
            words += [word for each in wanted for word in _filter(each)]
        elif field is None:
            warn_once("filters", f"runs are not filtered by {name!r}")
        elif not isinstance(wanted, Mapping):
            words.append(_condition(field, "=", wanted))
        elif wanted.keys() <= COMPARISONS.keys():
            words += [_condition(field, COMPARISONS[sign], value) for sign, value in wanted.items()]
        elif wanted.keys() == {"$in"}:
            words.append(f"({' OR '.join(_condition(field, '=', value) for value in wanted['$in'])})")
        else:
            warn_once("filters", f"runs are not filtered by {name!r}: {wanted!r}")
    return words


def _field(name: str) -> str | None:
    first, _, rest = name.partition(".")
    rest = rest.removesuffix(".value")
    if first in ("config", "summary_metrics", "summary") and rest:
        quoted = rest if rest.replace("_", "").replace(".", "").isalnum() else f'"{_quoted(rest)}"'
        return f"config.{quoted}" if first == "config" else f'metric."{_quoted(rest)}"'
    return {
        "state": "state", "display_name": "name", "displayName": "name", "tags": "tag",
        "group": f"config.{OURS}.group", "jobType": f"config.{OURS}.job_type",
    }.get(name)  # fmt: skip


def _condition(field: str, sign: str, value: Any) -> str:
    if field == "state":
        value = {theirs: ours for ours, theirs in STATES.items()}.get(value, value)
    shown = (
        str(value)
        if isinstance(value, int | float) and not isinstance(value, bool)
        else f'"{_quoted(value)}"'
    )
    return f"{field} {sign} {shown}"
