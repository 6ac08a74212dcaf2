"""verl's `trainer.logger` takes "headroom" once `register()` has run, before its trainer starts:

    from headroom.adapters import verl
    verl.register()  # then: trainer.logger='["console","headroom"]'

Needs verl only where `register` is called. Settings come from HEADROOM_URL, HEADROOM_TOKEN and so on.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headroom.adapters.beginning import JOURNAL, begin
from headroom.adapters.naming import (
    USUAL_PASS_RATE,
    VERL_STEP,
    VERL_TOKENS,
    of_verl,
    verl_devices,
    verl_seconds,
)
from headroom.dumps import Dumps
from headroom.run import Run
from headroom.values import is_number, to_number

NAME = "headroom"


class Meter:
    """What verl's steps have used. tokens, hours: until now; None where it is unknown, and stays so."""

    def __init__(self, devices: float | None, compute: Mapping[str, float | None]) -> None:
        self.devices, self.tokens = devices, compute["tokens"]
        self.hours = None if devices is None else compute["device_hours"]

    def add(self, step: Mapping[str, Any]) -> None:
        """What a step logged."""
        values = {name: number for name, value in step.items() if (number := to_number(value)) is not None}
        if self.tokens is not None:
            self.tokens += values.get(VERL_TOKENS, 0)
        if self.devices is not None and self.hours is not None:
            self.hours += self.devices * verl_seconds(values) / 3600

    @property
    def compute(self) -> dict[str, float | None]:
        return {"device_hours": self.hours, "tokens": self.tokens}


def evaluation(values: Mapping[str, Any], named: str | None) -> tuple[dict[str, Any], list[str]]:
    """The pass rate, where exactly one metric can be it, and the names of all that can: the one that is `named`, else
    what verl and TRL call it. They do not say of how many prompts."""
    names = [name for name in values if (name == named if named else USUAL_PASS_RATE.fullmatch(name))]
    if len(names) != 1:
        return {}, names
    found = USUAL_PASS_RATE.fullmatch(names[0])
    k = {"eval/k": int(found["k"])} if found and found["k"] else {}
    return {"eval/pass_rate": values[names[0]]} | k, names


class VerlLogger:
    """One of `Tracking.logger`: verl calls `log(data=, step=)` with the metrics of each step, and `finish`.

    pass_rate: which metric is the held-out pass rate; by default the only `val-core/.../mean@K`. What verl dumps into
    `trainer.rollout_data_dir` and `validation_data_dir` are the run's samples.
    """

    def __init__(
        self,
        project_name: str,
        experiment_name: str,
        config: Any = None,
        pass_rate: str | None = None,
        **settings: Any,
    ) -> None:
        config = _plain(config) or {}
        trainer = config.get("trainer") or {}
        self._pass_rate = pass_rate
        self._devices = verl_devices(config) or 1
        folder = Path(
            trainer.get("default_local_dir") or Path("headroom-runs") / project_name / experiment_name
        )
        self._settings = {
            "name": experiment_name,
            "task": project_name,
            "config": config,
            "journal": folder / JOURNAL,
        } | settings
        folders = {"train": trainer.get("rollout_data_dir"), "eval": trainer.get("validation_data_dir")}
        self._dumps = [Dumps(Path(each), kind) for kind, each in folders.items() if each]
        self.run: Run | None = None

    def log(self, data: Mapping[str, Any], step: int) -> None:
        """The first one begins the run: verl says only here from which step it goes on."""
        if self.run is None:
            self._begin(step - 1 if VERL_STEP in data else step)
        assert self.run is not None
        self._meter.add(data)
        metrics = {name: value for name, value in of_verl(data).items() if is_number(value)}
        found, _ = evaluation(data, self._pass_rate)
        self.run.log(metrics | found, step=step, compute=self._meter.compute)
        for dumps in self._dumps:
            dumps.log(self.run)

    def _begin(self, after_step: int) -> None:
        is_new = not Path(self._settings["journal"]).exists()
        how = {} if is_new else {"resumed_from_step": after_step} if after_step > 0 else {"restarted": True}
        self.run = begin(self._settings | how)
        self._meter = Meter(self._devices, {name: used or 0.0 for name, used in self.run.compute.items()})

    def finish(self, exit_code: int = 0) -> None:
        if self.run is None:
            return
        for dumps in self._dumps:
            dumps.log(self.run, all_of_them=True)
        self.run.finish("succeeded" if exit_code == 0 else "failed")


def register() -> None:
    """Teach `verl.utils.tracking.Tracking` the backend "headroom". A second call changes nothing."""
    from verl.utils.tracking import Tracking

    if NAME in Tracking.supported_backend:
        return
    Tracking.supported_backend = [*Tracking.supported_backend, NAME]
    plain_init, plain_finish = Tracking.__init__, Tracking.finish

    def __init__(
        self: Any,
        project_name: str,
        experiment_name: str,
        default_backend: str | list[str] = "console",
        config: Any = None,
    ) -> None:
        plain_init(self, project_name, experiment_name, default_backend, config)
        if NAME in ([default_backend] if isinstance(default_backend, str) else default_backend):
            self.logger[NAME] = VerlLogger(project_name, experiment_name, config)

    def finish(self: Any, exit_code: int = 0) -> None:
        if (ours := getattr(self, "logger", {}).get(NAME)) is not None:
            ours.finish(exit_code)
        plain_finish(self, exit_code)

    Tracking.__init__, Tracking.finish = __init__, finish


def _plain(config: Any) -> Any:
    """OmegaConf's containers as plain ones."""
    if isinstance(config, Mapping) or hasattr(config, "items"):
        return {str(key): _plain(value) for key, value in config.items()}
    return [_plain(each) for each in config] if isinstance(config, list | tuple) else config
