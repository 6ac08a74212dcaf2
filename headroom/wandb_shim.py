"""What scripts use of wandb, reported to Headroom: `import headroom.wandb_shim as wandb` is the only change.

    wandb.init(project="math", name="grpo 8b", config={"lr": 1e-6})
    wandb.log({"train/reward": 0.4, "eval/pass_rate": 0.41})
    wandb.finish()

Steps may come in any order: nothing is dropped for being late. Numbers, and numbers in nested dictionaries, are
recorded; tables, images and the like are left out with one warning each. HEADROOM_URL and HEADROOM_TOKEN say where to;
without them, or with mode="offline", `python -m headroom sync` sends it later.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headroom.adapters.beginning import JOURNAL, begin
from headroom.values import to_number

log_ = logging.getLogger("headroom")
COMPUTE = (
    "compute/"  # `compute/device_hours`, `compute/flops`, `compute/tokens` of a log are the run's compute
)

run: "Run | None" = None


class Config(dict):
    """`wandb.config`: entries and attributes are the same. What is changed after `init` stays in this process."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def update(self, *args: Any, allow_val_change: bool = True, **kwargs: Any) -> None:
        super().update(*args, **kwargs)


class Run:
    """`wandb.run`."""

    def __init__(self, inner: Any, name: str, project: str | None, config: Config) -> None:
        self._inner, self.name, self.project, self.config = inner, name, project, config
        self.summary: dict[str, Any] = {}
        self._step = 0 if inner.last_step is None else inner.last_step + 1
        self._warned: set[str] = set()

    @property
    def id(self) -> str | None:
        """The server's; None offline."""
        return self._inner.id

    @property
    def step(self) -> int:
        """Of the next `log` without one."""
        return self._step

    def log(self, data: Mapping[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        """As wandb: without `step` each call is the next one, unless `commit` is False. On disk when it returns; never
        raises."""
        try:
            self._step = self._step if step is None else int(step)
            self._record(dict(self._numbers(data)))
            self._step += 1 if (step is None if commit is None else commit) else 0
        except Exception as error:  # tracking never stops training
            self._warn(type(error).__name__, f"a log of step {step!r} could not be recorded: {error!r}")

    def _record(self, numbers: dict[str, Any]) -> None:
        if not numbers:
            return
        self.summary |= numbers
        compute = {
            name.removeprefix(COMPUTE): numbers.pop(name) for name in [*numbers] if name.startswith(COMPUTE)
        }
        self._inner.log(numbers, step=self._step, compute=compute or None)

    def _numbers(self, data: Mapping[str, Any], inside: str = "") -> Iterator[tuple[str, Any]]:
        for name, value in data.items():
            if isinstance(value, Mapping):
                yield from self._numbers(value, f"{inside}{name}.")
            elif to_number(value) is not None or isinstance(value, float):
                yield f"{inside}{name}", value  # a float that is not finite is named by the run's own `log`
            else:
                self._warn(
                    f"{inside}{name}", f"{inside}{name!r} is a {type(value).__name__}, no number: left out"
                )

    def finish(self, exit_code: int | None = None, quiet: bool | None = None) -> None:
        self._inner.finish("failed" if exit_code else "succeeded")

    def define_metric(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to do: each chart of Headroom can have any compute axis."""

    def log_code(self, *args: Any, **kwargs: Any) -> None:
        self._warn("log_code", "code is not kept")

    def log_artifact(self, *args: Any, **kwargs: Any) -> None:
        self._warn("log_artifact", "artifacts are not kept")

    def alert(self, title: str, text: str = "", *args: Any, **kwargs: Any) -> None:
        """Into the log: alerts are rules on the server."""
        log_.warning("headroom: alert: %s %s", title, text)

    def watch(self, *args: Any, **kwargs: Any) -> None:
        self._warn("watch", "gradients and parameters are not watched")

    save = log_artifact

    def _warn(self, kind: str, message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            log_.warning("headroom: %s", message)

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        finish(exit_code=0 if kind is None else 1)


class _Nothing:
    """The run of mode "disabled"."""

    id = last_step = None

    def log(self, *args: Any, **kwargs: Any) -> None:
        pass

    finish = log


class Media:
    """`Table`, `Image`, `Histogram` and so on: made, and left out when logged."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.data: list[Any] = []

    def add_data(self, *row: Any) -> None:
        self.data.append(row)

    def add_column(self, *args: Any, **kwargs: Any) -> None:
        pass


class Table(Media):
    pass


class Image(Media):
    pass


class Histogram(Media):
    pass


class Html(Media):
    pass


class Audio(Media):
    pass


class Video(Media):
    pass


class Artifact(Media):
    pass


class Settings(Media):
    pass


class AlertLevel:
    INFO, WARN, ERROR = "INFO", "WARN", "ERROR"


def init(
    project: str | None = None,
    *,
    name: str | None = None,
    config: Mapping[str, Any] | None = None,
    id: str | None = None,  # noqa: A002  # wandb's name for it
    resume: bool | str | None = None,
    mode: str | None = None,
    dir: str | os.PathLike[str] | None = None,  # noqa: A002
    reinit: Any = None,
    **others: Any,
) -> Run:
    """Begin a run. `project` is the run's task (Headroom's own project is the token's); `id` with `resume`, or
    WANDB_RUN_ID with WANDB_RESUME, goes on with the journal of that name as its next attempt. mode: online, offline
    or disabled. Others of wandb's arguments (tags, group, notes, ...) are kept in the configuration under `wandb`.
    """
    global run
    if run is not None:
        if not reinit:
            return run
        finish()
    wanted = mode or os.environ.get("WANDB_MODE") or "online"
    if wanted not in ("online", "offline", "disabled", "shared"):
        raise ValueError(f"mode must be online, offline or disabled, not {wanted!r}")
    given = Config(config or {})
    known = id or os.environ.get("WANDB_RUN_ID")
    title = name or os.environ.get("WANDB_NAME") or known or project or "run"
    kept = {
        key: value
        for key, value in others.items()
        if isinstance(value, str | int | float | list | tuple | dict)
    }
    settings: dict[str, Any] = {
        "name": title,
        "task": project or os.environ.get("WANDB_PROJECT"),
        "config": dict(given) | ({"wandb": kept} if kept else {}),
        "mode": "offline" if wanted == "offline" else None,
    }
    if known:
        journal = Path(dir or "headroom-runs") / f"{_safe(known)}.jsonl"
        settings |= {"journal": journal, "restarted": journal.exists() and not _resumes(resume)}
    elif dir:
        settings["journal"] = Path(dir) / JOURNAL
    run = Run(_Nothing() if wanted == "disabled" else begin(settings), title, project, given)
    return run


def _resumes(resume: bool | str | None) -> bool:
    return bool(resume or os.environ.get("WANDB_RESUME")) and resume != "never"


def _safe(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name)


def log(data: Mapping[str, Any], step: int | None = None, commit: bool | None = None, **others: Any) -> None:
    """`wandb.log`. Raises RuntimeError before `init`."""
    _require().log(data, step, commit)


def finish(exit_code: int | None = None, quiet: bool | None = None) -> None:
    """`wandb.finish`; nothing before `init`."""
    global run
    if run is not None:
        run.finish(exit_code)
        run = None


def alert(title: str, text: str = "", *args: Any, **kwargs: Any) -> None:
    _require().alert(title, text)


def define_metric(*args: Any, **kwargs: Any) -> None:
    _require().define_metric()


def watch(*args: Any, **kwargs: Any) -> None:
    _require().watch()


def save(*args: Any, **kwargs: Any) -> None:
    _require().save()


def login(*args: Any, **kwargs: Any) -> bool:
    """True: HEADROOM_TOKEN is what signs in."""
    return True


def __getattr__(name: str) -> Any:
    if name == "config":
        return _require().config
    if name == "summary":
        return _require().summary
    raise AttributeError(f"headroom.wandb_shim has no {name!r}")


def _require() -> Run:
    if run is None:
        raise RuntimeError("call wandb.init() first")
    return run
