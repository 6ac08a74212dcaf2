"""Compute used so far, row after row: of what the source says, else devices x time, else unknown."""

from collections.abc import Callable, Mapping
from datetime import datetime

from headroom.adapters.naming import VERL_BESIDE
from webapp.interfaces.imports.readers.rows import COMPUTE, Options

# What other trainers call a total of ours. Each is one since the training began, also after a resume.
TOTALS = {
    "device_hours": ("compute/device_hours",),
    "flops": ("compute/flops", "train/total_flos"),
    "tokens": (
        "compute/tokens",
        "train/num_tokens",
        "eval/num_tokens",
        "progress/total_tokens",
        "train/num_input_tokens_seen",
    ),
}
VERL_TOKENS = "perf/total_num_tokens"  # of one step
VERL_STEP = "timing_s/step"  # seconds of one step
VERL_DEVICES = ("trainer/n_gpus_per_node", "trainer/nnodes")
Say = Callable[[str], None]
Amounts = Mapping[str, float | None]


class Totals:
    """One run's totals. They never fall: a clock that goes back, or a source that does, adds nothing.

    devices: device-hours are devices x time where the source never says them. from_first_step: amounts are of each
    step from 1 on, so that a source which begins later, or lacks some, does not tell a total. starts_at_zero: the
    trainer's first update makes step 1, so that nothing was used at step 0.
    """

    def __init__(
        self, devices: float | None, say: Say, *, from_first_step: bool = False, starts_at_zero: bool = False
    ) -> None:
        self._devices, self._say = devices, say
        self._from_first_step, self._starts_at_zero = from_first_step, starts_at_zero
        self._totals: dict[str, float] = {}
        self._steps: dict[str, int] = {}  # which a total was last said of
        self._added: set[str] = set()
        self._incomplete: set[str] = set()
        self._began: datetime | None = None
        self._seconds = 0.0

    def at(
        self, step: int, *, time: datetime | None, elapsed: float | None, totals: Amounts, added: Amounts
    ) -> dict[str, float | None]:
        """The totals at one row. totals: as the source says them; added: amounts of this row alone; elapsed: seconds
        since the run began. Raises ValueError for an amount below 0."""
        seconds = self._time_passes(time, elapsed)
        for name in COMPUTE:
            self._take(name, step, totals.get(name), added.get(name))
        return {name: self._known(name, step, seconds) for name in COMPUTE}

    def _time_passes(self, time: datetime | None, elapsed: float | None) -> float | None:
        if elapsed is None and time is None:
            return None
        if elapsed is None and time is not None:
            self._began = self._began or time
            elapsed = (time - self._began).total_seconds()
        self._seconds = max(self._seconds, elapsed or 0.0)
        return self._seconds

    def _take(self, name: str, step: int, total: float | None, added: float | None) -> None:
        for amount in (total, added):
            if amount is not None and amount < 0:
                raise ValueError(f"{name} is {amount:g}, below 0")
        if added is not None:
            if self._from_first_step and step > self._steps.get(name, 0) + 1:
                self._incomplete.add(name)
                self._say(f"{name} are unknown from step {step} on: the source has not all steps before it.")
            self._added.add(name)
            self._totals[name] = self._totals.get(name, 0.0) + added
            self._steps[name] = max(step, self._steps.get(name, step))
        elif total is not None:
            before = self._totals.get(name, 0.0)
            if total < before:
                self._say(f"{name} fall at step {step}, which a total cannot: the higher value is kept.")
            self._totals[name] = max(before, total)
            self._steps[name] = step

    def _known(self, name: str, step: int, seconds: float | None) -> float | None:
        if name in self._incomplete:
            return None
        if name in self._added:  # at a later step more was used, and how much is not said
            return self._totals[name] if step <= self._steps[name] else None
        if name in self._totals:  # said of a step, it holds for all that this step says
            return self._totals[name] if self._steps[name] == step else None
        if self._starts_at_zero and step == 0:
            return 0.0
        if name == "device_hours" and self._devices is not None and seconds is not None:
            return self._devices * seconds / 3600
        return None


def amounts_of_tracker(
    values: Amounts, options: Options, devices: float | None
) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """(totals, added) in what a trainer logged: those that options name, else those that are known by their names."""
    totals: dict[str, float | None] = {}
    added: dict[str, float | None] = {}
    for role in COMPUTE:
        named = options.columns.get(role)
        found = next(
            (name for name in ((named,) if named else TOTALS[role]) if values.get(name) is not None), None
        )
        if found is not None:
            (added if role in options.per_row else totals)[role] = values[found]
    if "tokens" not in (totals | added) and "tokens" not in options.columns and VERL_TOKENS in values:
        added["tokens"] = values[VERL_TOKENS]
    if devices is not None and "device_hours" not in (totals | added) and (values.get(VERL_STEP) is not None):
        added["device_hours"] = devices * _trained_seconds(values) / 3600
    return totals, added


def _trained_seconds(values: Amounts) -> float:
    return max(0.0, (values[VERL_STEP] or 0.0) - sum(values.get(name) or 0.0 for name in VERL_BESIDE))


def devices_of_config(config: Mapping[str, object]) -> float | None:
    """Of a run of verl, whose configuration is nested (`trainer: {nnodes}`) or flat (`trainer/nnodes`)."""
    trainer = config.get("trainer")
    found = [
        config.get(name, trainer.get(name.partition("/")[2]) if isinstance(trainer, Mapping) else None)
        for name in VERL_DEVICES
    ]
    try:
        per_node, nodes = (int(str(each)) for each in found)
    except ValueError:
        return None
    return float(per_node * nodes) if per_node > 0 and nodes > 0 else None
