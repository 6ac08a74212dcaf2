"""verl's `trainer.logger` takes "headroom" once `register()` has run, before its trainer starts:

    from headroom.adapters import verl
    verl.register()  # then: trainer.logger='["console","headroom"]'

Needs verl only where `register` is called. Settings come from HEADROOM_URL, HEADROOM_TOKEN and so on.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headroom.adapters.beginning import JOURNAL, StepClock, begin
from headroom.adapters.naming import VERL_BESIDE, of_verl
from headroom.run import Run
from headroom.values import to_number

NAME = "headroom"
PASS_RATE = re.compile(r"val-core/.+/mean@(\d+)$")


class VerlLogger:
    """One of `Tracking.logger`: verl calls `log(data=, step=)` with the metrics of each step, and `finish`.

    pass_rate: which metric is the held-out pass rate; by default the only `val-core/.../mean@K`.
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
        self._devices = int(trainer.get("n_gpus_per_node") or 1) * int(trainer.get("nnodes") or 1)
        folder = Path(
            trainer.get("default_local_dir") or Path("headroom-runs") / project_name / experiment_name
        )
        self._settings = {
            "name": experiment_name,
            "task": project_name,
            "config": config,
            "journal": folder / JOURNAL,
        } | settings
        self.run: Run | None = None

    def log(self, data: Mapping[str, Any], step: int) -> None:
        """The first one begins the run: verl says only here from which step it goes on."""
        trained = "timing_s/step" in data
        if self.run is None:
            self._begin(step - 1 if trained else step)
        assert self.run is not None
        if trained:
            self._clock.add(
                max(0, _number(data, "timing_s/step") - sum(_number(data, name) for name in VERL_BESIDE))
            )
        self._tokens += _number(data, "perf/total_num_tokens")
        compute = {"device_hours": self._clock.device_hours, "tokens": self._tokens}
        metrics = {name: value for name, value in of_verl(data).items() if to_number(value) is not None}
        self.run.log(metrics | self._evaluation(data), step=step, compute=compute)

    def _begin(self, after_step: int) -> None:
        is_new = not Path(self._settings["journal"]).exists()
        how = {} if is_new else {"resumed_from_step": after_step} if after_step > 0 else {"restarted": True}
        self.run = begin(self._settings | how)
        self._clock = StepClock(self._devices, self.run.compute["device_hours"] or 0.0)
        self._tokens = self.run.compute["tokens"] or 0

    def _evaluation(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The pass rate, where exactly one metric can be it. verl does not say of how many prompts."""
        names = [
            name
            for name in data
            if name == self._pass_rate or (not self._pass_rate and PASS_RATE.match(name))
        ]
        if len(names) != 1:
            return {}
        found = PASS_RATE.match(names[0])
        return {"eval/pass_rate": data[names[0]]} | ({"eval/k": int(found[1])} if found else {})

    def finish(self, exit_code: int = 0) -> None:
        if self.run is not None:
            self.run.finish("succeeded" if exit_code == 0 else "failed")


def _number(data: Mapping[str, Any], name: str) -> int | float:
    return to_number(data.get(name)) or 0


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
