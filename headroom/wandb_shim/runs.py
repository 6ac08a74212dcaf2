"""`wandb.run`: what a script does with its run, done with a run of the client; and how `wandb.init` begins one, or goes
on with one: by its id, or the last one of a folder.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from headroom import about
from headroom.adapters.beginning import begin
from headroom.adapters.naming import TOTAL_TOKENS, of_tracker, verl_devices
from headroom.adapters.verl import Meter, evaluation
from headroom.configuration import LONGEST, file_name, in_a_line
from headroom.journal import Journal
from headroom.values import is_number, to_number
from headroom.wandb_shim.accepted import warn_once
from headroom.wandb_shim.data_types import Media, as_media, numbers_in
from headroom.wandb_shim.entries import Config, Settings, Summary
from headroom.wandb_shim.files import NO_REGISTRY, Files, Nothing
from headroom.wandb_shim.util import generate_id
from headroom.warned import log

COMPUTE = (
    "compute/"  # `compute/device_hours`, `compute/flops`, `compute/tokens` of a log are the run's compute
)
MAX_TAG = 40  # the server's limit
OURS = "wandb"  # the entry of the configuration with what Headroom has no field for
EXTREMES = {"min": min, "max": max}
UNKEPT = {
    "watch": "gradients and parameters are not watched", "unwatch": "", "log_code": "code is not kept",
    "link_artifact": NO_REGISTRY, "link_model": "there is no registry: links of models are not kept",
    "write_logs": "what is printed is not kept", "mark_preempting": "",
    "pin_config_keys": "pinned keys are not kept: columns are chosen in the list of runs",
    "display": "", "to_html": "", "status": "", "_label": "",
}  # fmt: skip


class Run(Files, unkept=UNKEPT, answers={"display": False, "to_html": ""}):
    """`inner` is the client's run; `settings` what `init` was asked for; `kept` what of it stands in the configuration
    under `wandb`; `ended` is called when it is finished."""

    def __init__(
        self,
        inner: Any,
        settings: Settings,
        config: Mapping[str, Any],
        kept: Mapping[str, Any],
        *,
        resumed: bool,
        ended: Callable[["Run"], None],
    ) -> None:
        super().__init__(inner, settings.run_id)
        self.settings, self._kept, self._ended = settings, dict(kept), ended
        self.config = Config(config, lambda changed: self._inner.describe(config=changed))
        self.summary = Summary(None, self._tell_summary)
        self._said: dict[str, Any] = dict(self._kept.get("summary") or {})  # of the summary, by the script
        self.summary.note(self._said)
        self._name, self._tags, self._notes = settings.run_name, settings.run_tags, settings.run_notes
        self.project, self.entity = settings.project or "uncategorized", settings.entity or ""
        self.group, self.job_type, self.sweep_id = (
            settings.run_group,
            settings.run_job_type,
            settings.sweep_id,
        )
        self.start_time, self.resumed = time.time(), resumed
        self.starting_step = self._step = 0 if inner.last_step is None else inner.last_step + 1
        self._step_metric: str | None = None
        self._steps_by_metric = False  # it has been logged
        self._best: dict[
            str, str
        ] = {}  # metric -> min or max, where `define_metric` asks for it in the summary
        devices = verl_devices(config)
        used = {name: amount or 0.0 for name, amount in inner.compute.items()}
        self._meter = None if devices is None else Meter(devices, used)  # of verl's steps
        self._tell_tags()

    # --- what it is ---------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = str(name)
        self._inner.describe(name=in_a_line(self._name, LONGEST["name"]))

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(self._tags)

    @tags.setter
    def tags(self, tags: Iterable[str]) -> None:
        self._tags = tuple(tags or ())
        self._keep(tags=list(self._tags))
        self._tell_tags()

    @property
    def notes(self) -> str | None:
        return self._notes

    @notes.setter
    def notes(self, notes: str) -> None:
        self._notes = notes
        self._keep(notes=notes)

    @property
    def step(self) -> int:
        """Of the next `log` without one."""
        return self._step

    @property
    def path(self) -> str:
        return "/".join(part for part in (self.entity, self.project, self.id) if part)

    @property
    def offline(self) -> bool:
        return self._inner.id is None

    @property
    def url(self) -> str | None:
        """The page of the run; None offline."""
        return f"{server_url()}/runs/{self._inner.id}" if self._inner.id and server_url() else None

    @property
    def project_url(self) -> str | None:
        return f"{server_url()}/runs" if self.url else None

    sweep_url = project_url

    def get_url(self) -> str | None:
        return self.url

    def get_project_url(self) -> str | None:
        return self.project_url

    def get_sweep_url(self) -> str | None:
        return self.sweep_url if self.sweep_id else None

    def project_name(self) -> str:
        return self.project

    @property
    def config_static(self) -> Config:
        return Config(self.config)

    # --- what it says of itself ---------------------------------------------------------------------------------

    def tell_all(self) -> None:
        """To a run that goes on: it was made with the configuration of an earlier process."""
        self._inner.describe(config={**self.config, OURS: self._kept})

    def _tell_summary(self, changed: Mapping[str, Any]) -> None:
        self._said |= changed
        self._keep(summary=self._said)

    def _keep(self, **kept: Any) -> None:
        self._kept |= kept
        self._inner.describe(config={OURS: self._kept})

    def _tell_tags(self) -> None:
        words = list(dict.fromkeys(tag for each in self._tags if (tag := shown_tag(str(each)))))
        if words:
            self._inner.describe(tags=words[:20])

    # --- what it logs -------------------------------------------------------------------------------------------

    def log(
        self,
        data: Mapping[str, Any] | None = None,
        step: int | None = None,
        commit: bool | None = None,
        *args: Any,
        **others: Any,
    ) -> None:
        """As wandb: without `step` each call is the next one, unless `commit` is False; but once
        `define_metric("*", step_metric=NAME)` was said, the value of NAME is the step. On disk when it returns; never
        raises."""
        try:
            data = {} if data is None else data
            is_next = step is None
            if is_next and self._step_metric is not None:
                step = to_number(data.get(self._step_metric))  # type: ignore[assignment]
                self._steps_by_metric |= step is not None
            self._step = self._step if step is None else int(step)
            self._record(dict(self._numbers(data)))
            is_next = is_next and not self._steps_by_metric
            self._step += 1 if (is_next if commit is None else commit) else 0
        except Exception as error:  # tracking never stops training
            warn_once(type(error).__name__, f"a log of step {step!r} could not be recorded: {error!r}")

    def _record(self, numbers: dict[str, Any]) -> None:
        if not numbers:
            return
        now = time.time()
        own = {"_step": self._step, "_timestamp": now, "_runtime": now - self.start_time}
        self.summary.note(own | {name: self._best_of(name, value) for name, value in numbers.items()})
        tokens = [numbers[name] for name in TOTAL_TOKENS if name in numbers]
        compute = {"tokens": tokens[0]} if tokens else {}
        compute |= {
            name.removeprefix(COMPUTE): numbers.pop(name) for name in [*numbers] if name.startswith(COMPUTE)
        }
        if self._meter is not None:
            self._meter.add(numbers)
            compute = self._meter.compute | compute
        self._inner.log(_known(numbers), step=self._step, compute=compute or None)

    def _best_of(self, name: str, value: Any) -> Any:
        which = self._best.get(name)
        if which is None:
            return value
        before = self.summary.get(name)
        known = before.get(which) if isinstance(before, Mapping) else None
        return Summary({which: value if known is None else EXTREMES[which](known, value)})

    def _numbers(self, data: Mapping[str, Any], inside: str = "") -> Iterator[tuple[str, Any]]:
        for key, value in data.items():
            name = f"{inside}{key}"
            is_array = bool(getattr(value, "shape", None))
            items = numbers_in(value) if is_array else []
            if isinstance(value, Mapping):
                yield from self._numbers(value, f"{name}.")
            elif len(items) == 1:
                yield name, items[0]
            elif not is_array and is_number(value):
                yield name, value
            elif isinstance(value, list | tuple) and any(isinstance(each, Media) for each in value):
                for i, each in enumerate(value):
                    yield from self._numbers({f"{name}_{i}": each})
            elif (media := as_media(value)) is not None:
                yield from ((f"{name}.{part}", number) for part, number in media.numbers().items())
                self.keep_media(name, media)
            else:
                warn_once(name, f"{name!r} ({type(value).__name__}) is no number: left out")

    # --- the rest -----------------------------------------------------------------------------------------------

    def define_metric(
        self, name: str = "", step_metric: Any = None, *args: Any, summary: str | None = None, **others: Any
    ) -> SimpleNamespace:
        """`summary` min or max holds for `run.summary`. A `step_metric` of "*" gives the steps of what is logged; of
        some metrics alone it is not kept: each chart of Headroom can have steps or any compute as its axis."""
        if summary in EXTREMES and "*" not in name:
            self._best[name] = str(summary)
        if step_metric is not None and name == "*":
            self._step_metric = getattr(step_metric, "name", None) or str(step_metric)
        elif step_metric is not None:
            warn_once(
                "step_metric",
                f"the axis {step_metric} of {name!r} is not kept: charts are over steps or compute",
            )
        return SimpleNamespace(name=name)

    def alert(self, title: str, text: str = "", *args: Any, **others: Any) -> None:
        """Into the log: alerts are rules on the server."""
        log.warning("headroom: alert: %s %s", title, text)

    def finish(self, exit_code: int | None = None, *args: Any, **others: Any) -> None:
        self._end()
        self._inner.finish("failed" if exit_code else "succeeded")

    def _end(self) -> None:
        self._ended(self)
        try:
            self.keep_folder()
        except Exception as error:  # the run ends all the same
            warn_once("files", f"files in the run's folder could not be kept: {error!r}")

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self._end()
        self._inner.__exit__(kind, error, trace)


def _known(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Under the names that alarms and diagnostics know, with the pass rate of verl or TRL, as an import of wandb's
    files has it."""
    found, _ = evaluation(numbers, None)
    return found | {
        (ours if (ours := of_tracker(name)) not in numbers else name): numbers[name] for name in numbers
    }


def server_url() -> str:
    return os.environ.get("HEADROOM_URL", "").rstrip("/").removesuffix("/api/v1")


def shown_tag(tag: str) -> str:
    """One word of the letters that the server takes; empty where nothing is left of it."""
    return re.sub(r"[^a-z0-9._:/-]+", "-", tag.strip().lower()).lstrip("-._:/")[:MAX_TAG].rstrip("-")


BY_FOLDER = (True, "auto")  # `resume` without an id
NOTE = "wandb-resume.json"
NOT_DONE = {
    "sync_tensorboard": "files of TensorBoard are not read along: `python -m headroom import tensorboard` reads them",
    "monitor_gym": "videos of gym are not recorded",
    "save_code": "code is not kept",
    "fork_from": "a run does not begin from another one",
    "resume_from": "a run does not begin from a step of another one: a resumed one goes on after its last",
}


@dataclass(frozen=True)
class Earlier:
    """What is known of a run before it begins: where its journal is, and what earlier processes said of it."""

    journal: Path
    goes_on: bool = False
    last_step: int | None = None
    name: str | None = None
    config: dict[str, Any] = field(default_factory=dict)


def begun(
    said: Settings, entries: Mapping[str, Any], others: Mapping[str, Any], ended: Callable[[Run], None]
) -> Run:
    """The run that `init` was asked for. `others`: arguments that are kept as they are. Raises as `headroom.init`."""
    for name in NOT_DONE.keys() & {name for name, value in others.items() if value}:
        warn_once(name, NOT_DONE[name])
    root = Path(said.root_dir or "headroom-runs")
    known = said.run_id or (_left_off(root) if said.resume in BY_FOLDER else None)
    said.run_id = str(known or generate_id())
    is_disabled = said.mode == "disabled"
    earlier = (
        Earlier(root) if is_disabled else _earlier(root / f"{file_name(said.run_id)}.jsonl", said.resume)
    )
    said.run_name = str(said.run_name or earlier.name or known or said.project or "run")
    kept = earlier.config.get(OURS, {}) | _kept(said, others)
    config = {**earlier.config, **entries, OURS: kept}
    inner = Nothing() if is_disabled else begin(_settings(said, earlier, config))
    del config[OURS]
    made = Run(inner, said, config, kept, resumed=earlier.goes_on, ended=ended)
    if earlier.goes_on:
        made.tell_all()
    if said.resume in BY_FOLDER and not is_disabled:
        (root / NOTE).write_text(json.dumps({"run_id": said.run_id}))
    return made


def _settings(said: Settings, earlier: Earlier, config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": in_a_line(said.run_name, LONGEST["name"]),
        "task": said.project,
        "config": config,
        "mode": "offline" if said.mode == "offline" else None,
        "journal": earlier.journal,
        "restarted": earlier.journal.exists() and earlier.last_step is None,
        "resumed_from_step": earlier.last_step,
    }


def _kept(said: Settings, others: Mapping[str, Any]) -> dict[str, Any]:
    """What Headroom has no field for."""
    given = {
        "id": said.run_id, "entity": said.entity, "group": said.run_group, "job_type": said.run_job_type,
        "tags": list(said.run_tags), "notes": said.run_notes, "sweep": said.sweep_id, **others,
    }  # fmt: skip
    return {
        name: each
        for name, each in given.items()
        if each and isinstance(each, str | int | float | list | dict)
    }


def _earlier(journal: Path, resume: Any) -> Earlier:
    """Raises JournalBusy and OSError."""
    if not journal.exists() or resume in (None, False, "never"):
        return Earlier(journal)
    book = Journal(journal)
    last_step = book.last_step
    book.close()
    known = about.load(journal)
    said = about.together({name: each for name, each in known.description.items() if each}, known.later)
    return Earlier(journal, True, last_step, said.get("name"), said.get("config", {}))


def _left_off(root: Path) -> str | None:
    """The run that was begun last in this folder, where it has not succeeded."""
    try:
        run_id = str(json.loads((root / NOTE).read_text())["run_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    outcome = about.load(root / f"{file_name(run_id)}.jsonl").outcome or {}
    return None if outcome.get("state") == "succeeded" else run_id
