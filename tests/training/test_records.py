from typing import Any

import pytest
from pydantic import ValidationError

from training.records import Record


def record(**changes: Any) -> dict[str, Any]:
    return {
        "attempt": 1,
        "seq": 0,
        "step": 4,
        "time": "2026-01-02T03:04:05.678+00:00",
        "compute": {"device_hours": 0.1, "flops": 1e12, "tokens": 5},
        "metrics": {"eval/pass_rate": 0.5, "train/kl": None},
        **changes,
    }


def test_record_accepts_what_the_client_sends() -> None:
    parsed = Record.model_validate(record())

    assert parsed.metrics == {"eval/pass_rate": 0.5, "train/kl": None}
    assert parsed.compute.tokens == 5


def test_compute_may_be_unknown() -> None:
    nothing = {"device_hours": None, "flops": None, "tokens": None}

    assert Record.model_validate(record(compute=nothing)).compute.model_dump() == nothing


@pytest.mark.parametrize(
    ("changes", "location"),
    [
        pytest.param({"attempt": 0}, ("attempt",), id="attempt-zero"),
        pytest.param({"seq": -1}, ("seq",), id="negative-seq"),
        pytest.param({"seq": "1"}, ("seq",), id="text-seq"),
        pytest.param({"step": 1.5}, ("step",), id="fraction-of-a-step"),
        pytest.param({"step": True}, ("step",), id="boolean-step"),
        pytest.param({"time": "yesterday"}, ("time",), id="no-time"),
        pytest.param({"time": "2026-01-02T03:04:05"}, ("time",), id="no-offset"),
        pytest.param({"compute": {"device_hours": 1.0, "flops": 0.0}}, ("compute", "tokens"), id="no-tokens"),
        pytest.param(
            {"compute": {"device_hours": -1.0, "flops": 0.0, "tokens": 0}},
            ("compute", "device_hours"),
            id="negative-compute",
        ),
        pytest.param({"metrics": {"a": float("nan")}}, ("metrics",), id="nan"),
        pytest.param({"metrics": {"a": float("inf")}}, ("metrics",), id="infinite"),
        pytest.param({"metrics": {"a": "1"}}, ("metrics", "a"), id="text-metric"),
        pytest.param({"metrics": {"": 1.0}}, ("metrics",), id="nameless"),
        pytest.param({"metrics": {f"m{i}": 1.0 for i in range(1001)}}, ("metrics",), id="too-many"),
        pytest.param({"extra": 1}, ("extra",), id="extra-key"),
    ],
)
def test_record_refuses(changes: dict[str, Any], location: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError) as caught:
        Record.model_validate(record(**changes))
    assert caught.value.errors()[0]["loc"] == location
