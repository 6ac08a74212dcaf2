"""Whatever describes a run is stored in readable words; what cannot be is named, and nothing raises."""

import dataclasses
import enum
import json
from argparse import Namespace
from collections import namedtuple
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headroom.configuration import described, plain


class Loss(enum.Enum):
    DAPO = "dapo"
    GRPO = 2


@dataclasses.dataclass
class Optimizer:
    lr: float
    state: Path


class Model:
    """As pydantic's."""

    def model_dump(self) -> dict[str, Any]:
        return {"layers": 2}


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Wordy:
    def __repr__(self) -> str:
        return "Schedule(cosine)"


Span = namedtuple("Span", "lo hi")


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (Path("/data/math"), "/data/math"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.array([1.0, np.inf]), [1.0, "inf"]),
        (np.zeros((100, 100)), "ndarray of float64, shape [100, 100]"),
        (datetime(2026, 1, 2, 3), "2026-01-02T03:00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (timedelta(minutes=2), "0:02:00"),
        (Loss.DAPO, "dapo"),
        (Loss.GRPO, "GRPO"),
        (Optimizer(0.1, Path("x")), {"lr": 0.1, "state": "x"}),
        (Model(), {"layers": 2}),
        (Span(1, 2), {"lo": 1, "hi": 2}),
        (b"ab\xff", "ab\\xff"),
        (plain, "headroom.configuration.plain"),
        (Optimizer, f"{__name__}.Optimizer"),
        (partial(int, base=2), "functools.partial(<class 'int'>, base=2)"),
        (Namespace(a=1, b=[None]), {"a": 1, "b": [None]}),
        (Wordy(), "Schedule(cosine)"),
        (2**70, str(2**70)),
        ((1, "two"), [1, "two"]),
        ({Loss.DAPO: 1, 3: 2}, {"dapo": 1, "3": 2}),
        ("a\0b\ud800", "ab?"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_is_readable(value: Any, stored: Any) -> None:
    found, lost = plain({"key": value})

    assert (found, lost) == ({"key": stored}, [])
    assert json.loads(json.dumps(found, allow_nan=False)) == found


@pytest.mark.parametrize(
    "value", [object(), Broken(), (each for each in ()), 10**5000, range(10**9)], ids=type
)
def test_a_value_that_cannot_be_kept_is_named_by_its_key(value: Any) -> None:
    assert plain({"a": {"b": [1, value]}, "c": 2}) == ({"a": {"b": [1]}, "c": 2}, ["config.a.b[1]"])


def test_a_value_that_holds_itself_is_named() -> None:
    ring: dict[str, Any] = {"lr": 1}
    ring["self"] = ring

    assert plain(ring) == ({"lr": 1}, ["config.self"])


def test_a_description_is_what_the_server_takes() -> None:
    given = {"name": "n" * 200, "task": "a\tb", "model": None, "seed": True, "config": [1]}

    assert described(given) == ({"name": "n" * 120, "task": "a b", "config": {"config": [1]}}, ["seed"])
    assert described({"config": object(), "seed": 3}) == ({"seed": 3}, ["config"])
