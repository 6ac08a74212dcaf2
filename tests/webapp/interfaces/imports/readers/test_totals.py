"""Compute used so far: of what the source says, else devices x time, else unknown."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headroom.adapters.naming import verl_devices
from webapp.interfaces.imports.readers.building import Totals
from webapp.interfaces.imports.readers.rows import COMPUTE

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
AMOUNTS = st.none() | st.floats(0, 1e9)


def one(run: Totals, step: int, **said) -> dict[str, float | None]:
    return run.at(step, **{"time": None, "elapsed": None, "totals": {}, "added": {}} | said)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.floats(-1e6, 1e6), AMOUNTS, AMOUNTS), max_size=30),
    st.none() | st.floats(0.1, 1e4),
)
def test_totals_never_fall(rows, devices: float | None) -> None:
    totals = Totals(devices, lambda said: None)
    highest = dict.fromkeys(COMPUTE, 0.0)
    for step, seconds, tokens, flops in rows:
        time = BEGAN + timedelta(seconds=seconds)
        found = one(totals, step, time=time, totals={"tokens": tokens}, added={"flops": flops})
        for name, value in found.items():
            if value is not None:
                assert value >= highest[name]
                highest[name] = value
        assert (found["device_hours"] is None) == (devices is None)


def test_a_total_that_falls_is_said() -> None:
    said: list[str] = []
    totals = Totals(None, said.append)
    one(totals, 1, totals={"tokens": 50})
    assert one(totals, 2, totals={"tokens": 40})["tokens"] == 50
    assert said == ["tokens fall at step 2, which a total cannot: the higher value is kept."]


def test_a_total_holds_for_its_step_alone() -> None:
    totals = Totals(None, lambda said: None)
    assert one(totals, 1, totals={"tokens": 50})["tokens"] == 50
    assert one(totals, 1)["tokens"] == 50
    assert one(totals, 2)["tokens"] is None


def test_what_the_source_says_goes_before_devices_and_time() -> None:
    totals = Totals(8, lambda said: None)
    assert one(totals, 1, time=BEGAN, totals={"device_hours": 3})["device_hours"] == 3
    assert one(totals, 2, time=BEGAN + timedelta(hours=5))["device_hours"] is None


def test_below_0_is_refused() -> None:
    with pytest.raises(ValueError, match="flops is -1, below 0"):
        one(Totals(None, lambda said: None), 1, totals={"flops": -1})


@pytest.mark.parametrize(
    ("config", "devices"),
    [
        ({"trainer": {"n_gpus_per_node": 4, "nnodes": 2}}, 8),
        ({"trainer/n_gpus_per_node": "4", "trainer/nnodes": "2"}, 8),
        ({"trainer": {"n_gpus_per_node": 4}}, 4), ({"trainer": "x"}, None), ({}, None),  # verl's default: one node
        ({"trainer": {"n_gpus_per_node": 0, "nnodes": 1}}, None), ({"trainer": {"nnodes": 2}}, None),
        ({"trainer": {"n_gpus_per_node": "8.0", "nnodes": "many"}}, None),
    ],
)  # fmt: skip
def test_devices_of_verls_configuration(config, devices: float | None) -> None:
    assert verl_devices(config) == devices
