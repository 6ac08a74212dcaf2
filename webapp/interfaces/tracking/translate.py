"""What the loggers of other trackers say, in Headroom's words: names, the pass rate, compute. Pure functions.

Lines of values become records: grouped by moment, translated, with compute; see docs/tracking.md.

Nothing is guessed: what is not known is None. MLflow's and trackio's protocols use it, importers may.
"""

import datetime as dt
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headroom.adapters.naming import (
    TOTAL_TOKENS,
    USUAL_PASS_RATE,
    VERL_DEVICES,
    VERL_STEP,
    VERL_TOKENS,
    entry,
    model_of,
    name_of_transformers,
    name_of_verl,
    seed_of,
    verl_devices,
    verl_seconds,
    whole_number,
)
from training.records import Compute, Record

TRANSFORMERS, VERL = "transformers", "verl"
MLFLOW_ENDS = {"FINISHED": "succeeded", "FAILED": "failed", "KILLED": "cancelled"}  # its status -> ours
DESCRIPTION = "mlflow.note.content"  # the tag that MLflow keeps a run's description in
NO_WORDS = ("mlflow.", "headroom.")  # tags that are not for people begin so
PASS_RATE = "eval/pass_rate"
MAX_NAME = 250  # of a metric
MAX_TIME = 253_402_300_799_999  # the last millisecond of the year 9999
MILLISECONDS_AN_HOUR = 3_600_000

OF_TRANSFORMERS = ("per_device_train_batch_size", "gradient_accumulation_steps")
GLOBAL_STEP = "train/global_step"  # of transformers, which logs without a step of its own
TOTAL_FLOPS = ("compute/flops", "total_flos", "train/total_flos")
DEVICE_HOURS = "compute/device_hours"
# What a trainer logs once a step, when the step is done: only this tells from which step a training went on. TRL times
# its parts under the step before, both evaluate what they resume from.
STEP_MARKS = {
    TRANSFORMERS: frozenset({"loss", "train/loss", "learning_rate", "train/learning_rate"}),
    VERL: frozenset({VERL_STEP, "training/global_step"}),
}


@dataclass(frozen=True)
class RunDescription:
    """What params and tags of a run say of how to read its metrics.

    `devices`: accelerators it trains on. `pass_rate`: which metric is the held-out pass rate, of `n_prompts` prompts
    with `k` answers each. None or empty where it is not said.
    """

    trainer: str = ""
    devices: int | None = None
    pass_rate: str = ""
    k: int | None = None
    n_prompts: int | None = None
    task: str = ""
    model: str = ""
    seed: int | None = None


def said_by(params: Mapping[str, Any], tags: Mapping[str, Any]) -> RunDescription:
    """Tags go before params: they can be changed."""

    def told(name: str) -> Any:
        return tags.get(f"headroom.{name}", params.get(f"headroom.{name}"))

    trainer = _trainer(params)
    model = told("model") or model_of(params)
    seed = seed_of({"seed": told("seed")})
    return RunDescription(
        trainer=trainer,
        devices=_count(told("devices")) or (verl_devices(params) if trainer == VERL else None),
        pass_rate=str(told("pass_rate") or ""),
        k=_count(told("k")),
        n_prompts=_count(told("n_prompts")),
        task=str(told("task") or ""),
        model=str(model),
        seed=seed_of(params) if seed is None else seed,
    )


def _trainer(params: Mapping[str, Any]) -> str:
    """Told by the params that its own callback logs."""
    if entry(params, VERL_DEVICES) is not None:
        return VERL
    return TRANSFORMERS if all(name in params for name in OF_TRANSFORMERS) else ""


def _count(value: Any) -> int | None:
    return whole_number(value) or None


def stored_name(logged: str, trainer: str) -> str:
    """The name under which a metric is stored, so that pages, diagnostics and alarms know it."""
    if trainer == TRANSFORMERS or logged == GLOBAL_STEP:
        name = name_of_transformers(logged)
    else:
        name = name_of_verl(logged) if trainer == VERL else logged
    return name if len(name) <= MAX_NAME else logged


def to_value(given: Any) -> float | None:
    """A number, also as protobuf's JSON writes what is not finite ("NaN", "Infinity"); None for anything else."""
    if isinstance(given, bool) or given is None:
        return None
    if isinstance(given, str) and given not in ("NaN", "Infinity", "-Infinity"):
        return None
    try:
        return float(given)
    except (TypeError, ValueError, OverflowError):
        return None


def evaluation(values: Mapping[str, float], said: RunDescription) -> dict[str, float]:
    """The pass rate among what was logged at one moment (finite values by logged name), and what is known of it.

    It is the metric that the run names, or else the only one that verl or TRL call so. Where the client logs
    `eval/pass_rate` itself there is nothing to add. A value outside [0, 1] is no pass rate.
    """
    if PASS_RATE in values:
        return {}
    if said.pass_rate:
        wanted = (said.pass_rate, said.pass_rate.replace("@", "_at_"))
        names = [name for name in dict.fromkeys(wanted) if name in values]
    else:
        names = [name for name in values if USUAL_PASS_RATE.fullmatch(name)]
    if len(names) != 1 or not 0 <= values[names[0]] <= 1:
        return {}
    found = USUAL_PASS_RATE.fullmatch(names[0])
    known = {
        PASS_RATE: values[names[0]],
        f"{PASS_RATE}_stderr": values.get(f"{names[0]}_stderr"),
        "eval/k": int(found["k"]) if found and found["k"] else said.k,
        "eval/n_prompts": said.n_prompts,
    }
    return {name: float(value) for name, value in known.items() if value is not None}


@dataclass
class Meter:
    """The compute of an attempt so far, from what is logged: device-hours, FLOPs, tokens; None while not known.

    `since_ms`: when the attempt began, by the client's clock, and `base_hours` what was spent before. `told`: the
    client counts device-hours itself, so that nothing else may.
    """

    device_hours: float | None = None
    flops: float | None = None
    tokens: float | None = None
    since_ms: int | None = None
    base_hours: float = 0.0
    told: bool = False

    def advance(self, values: Mapping[str, float], *, step: int, time_ms: int, said: RunDescription) -> None:
        """Take in what was logged at one moment (finite values by logged name)."""
        self.tokens = _total(values, TOTAL_TOKENS, self.tokens)
        if not any(name in values for name in TOTAL_TOKENS) and values.get(VERL_TOKENS, -1) >= 0:
            self.tokens = (self.tokens or 0.0) + values[VERL_TOKENS]
        if said.trainer == VERL and step == 0 and self.tokens is None:
            self.tokens = 0.0  # before its first step nothing was used
        self.flops = _total(values, TOTAL_FLOPS, self.flops)
        if values.get(DEVICE_HOURS, -1) >= 0:
            self.device_hours, self.told = values[DEVICE_HOURS], True
        elif said.devices and not self.told:
            self._count_time(values, step, time_ms, said.devices, by_steps=said.trainer == VERL)

    def _count_time(
        self, values: Mapping[str, float], step: int, time_ms: int, devices: int, *, by_steps: bool
    ) -> None:
        """Devices x the time of verl's steps without testing and saving; of others the time since the beginning.

        A clock that goes backwards never lowers it. Before verl's first step nothing was spent.
        """
        if by_steps and VERL_STEP in values:
            self.device_hours = (self.device_hours or 0.0) + devices * verl_seconds(values) / 3600
        elif by_steps:
            if self.device_hours is None and step == 0:
                self.device_hours = 0.0
        elif self.since_ms is not None:
            hours = self.base_hours + devices * (time_ms - self.since_ms) / MILLISECONDS_AN_HOUR
            self.device_hours = max(hours, self.device_hours or 0.0, self.base_hours)

    @property
    def compute(self) -> dict[str, float | None]:
        return {"device_hours": self.device_hours, "flops": self.flops, "tokens": self.tokens}


def _total(values: Mapping[str, float], names: tuple[str, ...], before: float | None) -> float | None:
    """A cumulative amount as it is reported now, or as it was last."""
    return next((values[name] for name in names if values.get(name, -1) >= 0), before)


MAX_IN_RECORD = 990  # of a record's 1000 metrics: the rest is for what the translation adds
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Value:
    """One value as a client logged it; NaN and infinity are values, too."""

    name: str
    value: float
    step: int
    time_ms: int

    @property
    def moment(self) -> tuple[int, int]:
        return self.step, self.time_ms

    @property
    def rank(self) -> tuple[int, int, float]:
        """The greatest is the newest. NaN is less than any number."""
        return self.step, self.time_ms, -math.inf if math.isnan(self.value) else self.value


def by_moment(values: Iterable[Value]) -> list[list[Value]]:
    """Values of one step and time together, in the order of arrival; a name twice, or too many, begins another list."""
    times: Counter[tuple[tuple[int, int], str]] = Counter()  # that a name came at a moment
    lists: dict[tuple[tuple[int, int], int], list[Value]] = {}
    for value in values:
        lists.setdefault((value.moment, times[value.moment, value.name]), []).append(value)
        times[value.moment, value.name] += 1
    return [
        found[first : first + MAX_IN_RECORD]
        for found in lists.values()
        for first in range(0, len(found), MAX_IN_RECORD)
    ]


def records_of(
    lists: Sequence[Sequence[Value]],
    *,
    series: Mapping[str, str],
    attempt: int,
    first_seq: int,
    meter: Meter,
    said: RunDescription,
) -> Iterator[Record]:
    """One record a list. `series`: name of a metric -> name of its series. The meter goes on as the records do."""
    for seq, values in enumerate(lists, first_seq):
        finite = {each.name: each.value for each in values if math.isfinite(each.value)}
        step, time_ms = values[0].moment
        meter.advance(finite, step=step, time_ms=time_ms, said=said)
        logged = {series[each.name]: finite.get(each.name) for each in values if each.name in series}
        yield Record(
            attempt=attempt,
            seq=seq,
            step=step,
            time=iso(time_ms),
            compute=Compute(**meter.compute),
            metrics={**evaluation(finite, said), **logged},
        )


def now_ms() -> int:
    return int(time.time() * 1000)


def iso(time_ms: int) -> str:
    return (EPOCH + dt.timedelta(milliseconds=time_ms)).isoformat()


def to_ms(moment: dt.datetime) -> int:
    return (moment - EPOCH) // dt.timedelta(milliseconds=1)
