"""Records of runs whose pass rates follow Eq. 1, for page and browser tests; everything goes through the services."""

import random
from collections.abc import Sequence
from datetime import timedelta

from django.db.models import DateTimeField, ExpressionWrapper, F

from training.records import Record
from webapp.record.runs.models import Point

C_MID = 1.0  # device-hours
DIAGNOSTICS = {
    "train/reward": 0.4,
    "train/entropy": 0.3,
    "train/truncation_rate": 0.02,
    "perf/trainer_idle": 0.25,
}


def rate_at(hours: float, *, a: float, b: float = 2.0, r0: float = 0.2) -> float:
    """Eq. 1 at `hours` device-hours."""
    return r0 if hours == 0 else r0 + (a - r0) / (1 + (C_MID / hours) ** b)


def record(seq: int, hours: float, metrics: dict[str, float], *, attempt: int = 1) -> Record:
    """One record; its step is its sequence number."""
    return Record.model_validate(
        {
            "attempt": attempt,
            "seq": seq,
            "step": seq,
            "time": "2026-01-01T00:00:00+00:00",
            "compute": {"device_hours": hours, "flops": 1e15 * hours, "tokens": 1e6 * hours},
            "metrics": metrics,
        }
    )


def curve_records(
    n: int = 30, *, a: float = 0.6, to: float = 8.0, noise: float = 0.004, seed: int = 0, first: int = 0
) -> list[Record]:
    """`n` evaluations evenly over `to` device-hours, and one before the first update (when `first` is 0)."""
    rng = random.Random(seed)
    hours: Sequence[float] = [to * i / n for i in range(first, n + 1)]
    return [
        record(
            first + i,
            at,
            {"eval/pass_rate": rate_at(at, a=a) + rng.gauss(0, noise), "eval/pass_rate_stderr": 0.01}
            | DIAGNOSTICS,
        )
        for i, at in enumerate(hours)
    ]


PARTS = {"math": 0.5, "code": 0.7}  # part -> its ceiling


def mixture_records(first: int = 0, last: int = 30, *, noise: float = 0.004, seed: int = 0) -> list[Record]:
    """Evaluations of a run on a mixture of two tasks, overall and by part, half a device-hour apart."""
    rng = random.Random(seed)
    records = []
    for i in range(first, last + 1):
        rates = {
            f"eval/{part}/pass_rate": rate_at(i / 2, a=a) + rng.gauss(0, noise) for part, a in PARTS.items()
        }
        rates["eval/pass_rate"] = sum(rates.values()) / len(rates)
        errors = {f"{name}_stderr": 0.01 for name in rates}
        records.append(record(i, i / 2, rates | errors | DIAGNOSTICS))
    return records


def stretch_times(over: timedelta, last: int) -> None:
    """As if the stored points had come evenly within this time, from the first (step 0) to the one of step `last`."""
    Point.objects.update(time=ExpressionWrapper(F("time") + F("step") * (over / last), DateTimeField()))
