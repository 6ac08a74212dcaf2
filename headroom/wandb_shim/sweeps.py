"""`wandb.sweep` and `wandb.agent`: one process tries the settings of a sweep, one after the other."""

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headroom.wandb_shim.accepted import accepts, warn_once
from headroom.wandb_shim.errors import UsageError
from headroom.wandb_shim.util import generate_id
from headroom.warned import log

MOST_FAILURES = 3  # one after the other, before an agent gives up
METHODS = ("grid", "random", "bayes")
Spec = Mapping[str, Any]
_DRAWS: dict[str, Callable[[Spec], float]] = {
    "uniform": lambda spec: random.uniform(spec["min"], spec["max"]),  # nosec B311  # settings of a training
    "log_uniform": lambda spec: math.exp(random.uniform(spec["min"], spec["max"])),  # nosec B311
    "log_uniform_values": lambda spec: math.exp(random.uniform(math.log(spec["min"]), math.log(spec["max"]))),  # nosec B311
    "normal": lambda spec: random.gauss(spec.get("mu", 0.0), spec.get("sigma", 1.0)),  # nosec B311
    "log_normal": lambda spec: math.exp(random.gauss(spec.get("mu", 0.0), spec.get("sigma", 1.0))),  # nosec B311
    "beta": lambda spec: random.betavariate(spec["a"], spec["b"]),  # nosec B311
}


@dataclass
class Sweep:
    id: str
    project: str | None
    trials: Iterator[dict[str, Any]]
    run_cap: int | None = None


_sweeps: dict[str, Sweep] = {}
current: tuple[Sweep, dict[str, Any]] | None = (
    None  # what the next `init` takes from the agent, with its settings
)


def sweep(sweep: Any, entity: str | None = None, project: str | None = None, prior_runs: Any = None) -> str:
    """The id of a new sweep, known to this process. Raises UsageError for a configuration that cannot be tried."""
    asked: Spec = sweep() if callable(sweep) else sweep
    method, parameters = asked.get("method", "grid"), asked.get("parameters") or {}
    if method not in METHODS:
        raise UsageError(f"a sweep's method is one of {', '.join(METHODS)}, not {method!r}")
    _check(parameters, method)
    if method == "bayes":
        warn_once("bayes", "a sweep of the method bayes is drawn at random")
    if asked.get("early_terminate"):
        warn_once("early_terminate", "runs of a sweep are not ended early")
    if prior_runs:
        warn_once("prior_runs", "prior runs of a sweep are not looked at")
    trials = _grid(parameters) if method == "grid" else (_draw(parameters) for _ in itertools.count())
    made = Sweep(generate_id(), project or asked.get("project"), iter(trials), asked.get("run_cap"))
    _sweeps[made.id] = made
    return made.id


def agent(
    sweep_id: str,
    function: Callable[[], Any] | None = None,
    entity: str | None = None,
    project: str | None = None,
    count: int | None = None,
    *args: Any,
    max_consecutive_failed_runs: int | None = None,
    **others: Any,
) -> None:
    """Call `function` for `count` trials, one after the other: each `init` in it is a run that has the settings of the
    trial in its configuration. What it raises is logged, and the run has failed."""
    from headroom import wandb_shim

    global current
    known = _sweeps.get(str(sweep_id).rpartition("/")[2])
    if known is None or function is None:
        what = (
            "programs of sweeps are not started" if known else f"the sweep {sweep_id} is not of this process"
        )
        warn_once("agent", f"{what}: nothing is tried; call wandb.agent(wandb.sweep(...), function=...)")
        return
    failed, most = 0, max_consecutive_failed_runs or MOST_FAILURES
    limits = [each for each in (count, known.run_cap) if each is not None]
    for settings in itertools.islice(known.trials, min(limits, default=None)):
        current = known, settings
        try:
            function()
            wandb_shim.finish()
            failed = 0
        except Exception:  # wandb's agent goes on, too
            log.exception("headroom: a trial of the sweep %s failed, with %s", known.id, settings)
            wandb_shim.finish(exit_code=1)
            failed += 1
        finally:
            current = None
        if failed >= most:
            log.error("headroom: the agent of the sweep %s gives up after %s failures", known.id, failed)
            return


controller = accepts("there is no controller of sweeps: wandb.agent tries their settings itself")


def _check(parameters: Spec, method: str) -> None:
    for name, spec in parameters.items():
        if not isinstance(spec, Mapping):
            raise UsageError(f"the parameter {name} of the sweep must be a dictionary, not {spec!r}")
        if "parameters" in spec:
            _check(spec["parameters"], method)
            continue
        try:
            found = _choices(spec) if method == "grid" else [_drawn(spec)]
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"the parameter {name} of the sweep cannot be drawn: {error!r}") from None
        if not found:
            raise UsageError(f"the parameter {name} of the sweep has no values")


def _grid(parameters: Spec) -> Iterator[dict[str, Any]]:
    names = list(parameters)
    for chosen in itertools.product(*(_choices(parameters[name]) for name in names)):
        yield dict(zip(names, chosen, strict=True))


def _choices(spec: Spec) -> list[Any]:
    if "parameters" in spec:
        return list(_grid(spec["parameters"]))
    if "values" in spec:
        return list(spec["values"])
    if "value" in spec:
        return [spec["value"]]
    if isinstance(spec["min"], int) and isinstance(spec["max"], int):
        return list(range(spec["min"], spec["max"] + 1))
    raise ValueError("a grid takes values, or whole numbers from min to max")


def _draw(parameters: Spec) -> dict[str, Any]:
    return {
        name: _draw(spec["parameters"]) if "parameters" in spec else _drawn(spec)
        for name, spec in parameters.items()
    }


def _drawn(spec: Spec) -> Any:
    if "value" in spec:
        return spec["value"]
    if "values" in spec:
        return random.choices(list(spec["values"]), spec.get("probabilities"))[0]  # nosec B311
    whole = isinstance(spec.get("min"), int) and isinstance(spec.get("max"), int)
    kind = spec.get("distribution") or ("int_uniform" if whole else "uniform")
    if kind == "int_uniform":
        return random.randint(spec["min"], spec["max"])  # nosec B311
    value = _DRAWS[kind.removeprefix("q_")](spec)
    if not kind.startswith("q_"):
        return value
    step = spec.get("q", 1)
    return round(value / step) * step
