"""What scripts use of wandb, reported to Headroom: `import headroom.wandb_shim as wandb` is the only change.

    wandb.init(project="math", name="grpo 8b", config={"lr": 1e-6})
    wandb.log({"train/reward": 0.4, "eval/pass_rate": 0.41})
    wandb.finish()

Libraries that `import wandb` themselves (transformers and TRL with `report_to="wandb"`, verl) get it where
`headroom.wandb_shim.install()` was called before their import. Steps may come in any order: nothing is dropped for
being late. Numbers, and numbers in nested dictionaries, are recorded; of arrays, histograms and tables count, mean and
the like. What is not kept is named in one warning each; nothing raises after `init`. HEADROOM_URL and HEADROOM_TOKEN
say where to; without them, or with mode="offline", `python -m headroom sync` sends it later.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

from headroom.wandb_shim import accepted, data_types, errors, plot, public, sdk, sweeps, util
from headroom.wandb_shim.accepted import accepts
from headroom.wandb_shim.data_types import (
    Audio,
    Classes,
    EvalTable,
    Graph,
    Histogram,
    Html,
    Image,
    JoinedTable,
    Media,
    Molecule,
    Object3D,
    Plotly,
    Table,
    Video,
)
from headroom.wandb_shim.entries import Config, Settings, Summary, settings_of, to_mapping
from headroom.wandb_shim.errors import CommError, Error, UsageError
from headroom.wandb_shim.files import Artifact, ArtifactTTL
from headroom.wandb_shim.plot import plot_table, visualize
from headroom.wandb_shim.public import Api
from headroom.wandb_shim.runs import Run, begun
from headroom.wandb_shim.sweeps import agent, controller, sweep

__version__ = "0.31.0"  # of wandb, whose names these are
MODES = (None, "online", "offline", "disabled", "shared")
OF_THE_RUN = frozenset({  # functions of wandb that are methods of the run
    "log", "alert", "define_metric", "link_model", "log_artifact", "log_model", "mark_preempting", "pin_config_keys",
    "restore", "save", "unwatch", "use_artifact", "use_model", "watch",
})  # fmt: skip
FINISH_FIRST = (True, "finish_previous")
ONE_MORE = "create_new"

__all__ = [
    "Api", "Artifact", "ArtifactTTL", "Audio", "Classes", "CommError", "Config", "Error", "EvalTable", "Graph",
    "Histogram", "Html", "Image", "JoinedTable", "Media", "Molecule", "Object3D", "Plotly", "Run", "Settings",
    "Summary", "Table", "UsageError", "Video", "agent", "controller", "data_types", "errors", "finish", "init",
    "install", "log", "plot", "plot_table", "public", "sdk", "sweep", "util", "visualize",
]  # fmt: skip

run: Run | None = None
apis = sdk.BY_NAME["wandb.apis"]


class AlertLevel:
    INFO, WARN, ERROR = "INFO", "WARN", "ERROR"


def init(
    project: str | None = None,
    *,
    name: str | None = None,
    config: Any = None,
    id: str | None = None,  # noqa: A002  # wandb's name for it
    resume: bool | str | None = None,
    mode: str | None = None,
    dir: str | os.PathLike[str] | None = None,  # noqa: A002
    reinit: Any = None,
    entity: str | None = None,
    group: str | None = None,
    job_type: str | None = None,
    tags: Any = None,
    notes: str | None = None,
    settings: Any = None,
    config_include_keys: Any = None,
    config_exclude_keys: Any = None,
    **others: Any,
) -> Run:
    """Begin a run. `project` is the run's task (Headroom's own project is the token's); `id` with `resume`, or
    WANDB_RUN_ID with WANDB_RESUME, goes on with the journal of that name as its next attempt, from its last step; with
    resume="auto" the run that was begun last in the folder goes on, where it has not succeeded. mode: online, offline
    or disabled. config: a mapping, an argparse.Namespace, or the path of a YAML or JSON file. Tags are the run's tags;
    others of wandb's arguments (group, notes, ...) are kept in the configuration under `wandb`. Raises ValueError for
    another mode, ConfigError for a config that cannot be read, and what `headroom.init` does.
    """
    global run
    if run is not None and reinit != ONE_MORE:
        if reinit not in FINISH_FIRST:
            return run
        finish()
    said = settings_of(
        {
            "project": project, "run_name": name, "run_id": id, "resume": resume, "mode": mode, "root_dir": dir,
            "entity": entity, "run_group": group, "run_job_type": job_type, "run_tags": tags, "run_notes": notes,
        },
        settings,
    )  # fmt: skip
    if said.mode not in MODES:
        raise ValueError(f"mode must be online, offline or disabled, not {said.mode!r}")
    accepted.forget()
    entries = _chosen(to_mapping(config), config_include_keys, config_exclude_keys)
    if sweeps.current is not None:
        of, trial = sweeps.current
        entries |= trial
        said.sweep_id, said.project = of.id, said.project or of.project
    made = begun(said, entries, others, _forget)
    run = made if run is None else run
    return made


def _chosen(entries: dict[str, Any], include: Any, exclude: Any) -> dict[str, Any]:
    return {
        key: value
        for key, value in entries.items()
        if (not include or key in include) and key not in (exclude or ())
    }


def finish(exit_code: int | None = None, quiet: bool | None = None) -> None:
    """`wandb.finish`; nothing before `init`."""
    if run is not None:
        run.finish(exit_code)


def _forget(ended: Run) -> None:
    """It is not `wandb.run` any more."""
    global run
    if run is ended:
        run = None


def _of_the_run(name: str) -> Callable[..., Any]:
    """`Run.{name}` of the run that `init` began. Raises Error before `init`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(_require(), name)(*args, **kwargs)

    return call


join = teardown = finish
login = accepts("", True)  # HEADROOM_TOKEN is what signs in
setup = require = ensure_configured = termsetup = accepts("")
box3d = accepts("", {})


def attach(*args: Any, **kwargs: Any) -> Run | None:
    return run


def termlog(string: str = "", *args: Any, **kwargs: Any) -> None:
    print(f"wandb: {string}", file=sys.stderr)


def termwarn(string: str, *args: Any, **kwargs: Any) -> None:
    termlog(f"WARNING {string}")


def termerror(string: str, *args: Any, **kwargs: Any) -> None:
    termlog(f"ERROR {string}")


def install() -> None:
    """`import wandb` means this module from now on, in every library of this process."""
    here = sys.modules[__name__]
    sys.modules |= {"wandb": here, "wandb.sdk": sdk, **sdk.BY_NAME}


class _BeforeInit:
    """`wandb.config` and `wandb.summary` before `init`."""

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(getattr(_require(), self._name), name)

    def __setattr__(self, name: str, value: Any) -> None:
        getattr(_require(), self._name)[name] = value

    __setitem__ = __setattr__

    def __getitem__(self, name: str) -> Any:
        return getattr(_require(), self._name)[name]


def __getattr__(name: str) -> Any:
    if name in ("config", "summary"):
        return getattr(run, name) if run is not None else _BeforeInit(name)
    if name == "run_id":
        return None if run is None else run.id
    if name in OF_THE_RUN:
        return _of_the_run(name)
    if (module := sdk.BY_NAME.get(f"wandb.{name}")) is not None:
        return module
    raise AttributeError(f"headroom.wandb_shim has no {name!r}")


def _require() -> Run:
    if run is None:
        raise Error("call wandb.init() first")
    return run
