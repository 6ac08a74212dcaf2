"""How `wandb.init` begins a run, or goes on with one: by its id, or the last one of a folder."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headroom import about
from headroom.adapters.beginning import begin
from headroom.journal import Journal
from headroom.wandb_shim.accepted import warn_once
from headroom.wandb_shim.files import Nothing, safe
from headroom.wandb_shim.runs import OURS, Run, shown_name
from headroom.wandb_shim.settings import Settings
from headroom.wandb_shim.util import generate_id

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
    earlier = Earlier(root) if is_disabled else _earlier(root / f"{safe(said.run_id)}.jsonl", said.resume)
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
        "name": shown_name(said.run_name),
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
    outcome = about.load(root / f"{safe(run_id)}.jsonl").outcome or {}
    return None if outcome.get("state") == "succeeded" else run_id
