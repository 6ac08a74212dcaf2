import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headroom.wandb_shim as wandb
from headroom.wandb_shim.entries import FROM_ENVIRONMENT
from tests.headroom.fake_server import FakeServer


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    for name in (*FROM_ENVIRONMENT.values(), "WANDB_DISABLED", "HEADROOM_MODE"):
        monkeypatch.delenv(name, raising=False)
    wandb.accepted.forget()
    yield
    wandb.finish()


@pytest.fixture
def online(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    """Runs that begin now report to it."""
    monkeypatch.setenv("HEADROOM_URL", server.url)
    monkeypatch.setenv("HEADROOM_TOKEN", "hr_test")
    yield server
    wandb.finish()


@pytest.fixture
def described(online: FakeServer) -> Callable[[], dict[str, Any]]:
    """All that was said of the run after it was begun: the newest of each, entries of the configuration together."""

    def together() -> dict[str, Any]:
        said: dict[str, Any] = {"config": {}}
        for body in (body for what, body in online.notices if what == "describe"):
            said |= body | {"config": said["config"] | body.get("config", {})}
        return said

    return together


def records() -> list[dict[str, Any]]:
    lines = [line for path in Path().rglob("*.jsonl") for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def said() -> list[tuple[int, dict[str, Any]]]:
    return [(record["step"], record["metrics"]) for record in records()]


def logged() -> dict[str, Any]:
    """The newest value of each metric."""
    return {name: value for _, metrics in said() for name, value in metrics.items()}
