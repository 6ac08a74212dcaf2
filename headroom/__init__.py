"""The tracking client: any trainer can import it. Standard library and httpx only.

    import headroom

    run = headroom.init(name="my run", task="arithmetic", model="tiny")
    run.log({"train/reward": 0.38}, step=10, compute={"device_hours": 0.2, "flops": 1e12, "tokens": 5e5})
    run.log_evaluation(0.41, n_prompts=1000, k=16, step=10)
    run.finish()

A record is on disk when `log` returns; a background thread sends it. After `init` nothing here raises or waits for a
server, and a killed process loses nothing that `log` returned for.

`headroom.Api(url, token)` reads what a server has: see `headroom.api`.
"""

import os
from collections.abc import Mapping
from typing import Any

from headroom.api import Api, ApiError
from headroom.beginning import init as _init
from headroom.evaluation import PassRates
from headroom.journal import JournalBusy
from headroom.run import Finished, Run
from headroom.server import ServerError
from headroom.version import __version__

__all__ = [
    "Api",
    "ApiError",
    "Finished",
    "JournalBusy",
    "Run",
    "ServerError",
    "__version__",
    "finish",
    "init",
    "log",
    "log_artifact",
    "log_evaluation",
    "log_samples",
]

_current: Run | None = None


def init(**settings: Any) -> Run:
    """Begin a run (see `headroom.beginning.init` for the settings) and make it the one that `log` and `finish` use."""
    global _current
    _current = _init(**settings)
    return _current


def log(metrics: Mapping[str, Any], step: int | None = None, **settings: Any) -> None:
    """`Run.log` of the run that `init` began last. Raises RuntimeError before any `init`."""
    _require().log(metrics, step, **settings)


def log_evaluation(pass_rate: PassRates, **settings: Any) -> None:
    """`Run.log_evaluation` of the run that `init` began last. Raises RuntimeError before any `init`."""
    _require().log_evaluation(pass_rate, **settings)


def log_artifact(path: str | os.PathLike[str], name: str | None = None) -> None:
    """`Run.log_artifact` of the run that `init` began last. Raises RuntimeError before any `init`."""
    _require().log_artifact(path, name)


def log_samples(step: int, rows: Any, *, kind: str = "train") -> None:
    """`Run.log_samples` of the run that `init` began last. Raises RuntimeError before any `init`."""
    _require().log_samples(step, rows, kind=kind)


def finish(state: str = "succeeded", message: str = "", timeout: float = 10) -> Finished:
    """`Run.finish` of the run that `init` began last. Raises RuntimeError before any `init`."""
    return _require().finish(state, message, timeout)


def _require() -> Run:
    if _current is None:
        raise RuntimeError("call headroom.init() first")
    return _current
