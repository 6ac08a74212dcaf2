from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headroom import backoff, beginning, ending, sender
from headroom.run import Run
from tests.headroom.fake_server import FakeServer


@pytest.fixture(autouse=True)
def quick_and_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "GATHER_SECONDS", 0.01)
    monkeypatch.setattr(backoff, "FIRST_SECONDS", 0.02)
    monkeypatch.setattr(backoff, "FIRST_CLOSING_SECONDS", 0.02)
    for name in ("HEADROOM_URL", "HEADROOM_TOKEN", "HEADROOM_TOKEN_FILE", "HEADROOM_RUN", "HEADROOM_ATTEMPT"):
        monkeypatch.delenv(name, raising=False)


def killed(run: Run) -> None:
    """As by kill -9: the journal is let go, nothing is told to the server."""
    ending.forget(run.finish)
    run._finished = True
    if run._sender is not None:
        run._sender.close(None, 5)
    run._journal.close()


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    yield fake
    fake.stop()


@pytest.fixture
def journal_path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


@pytest.fixture
def begin(server: FakeServer, journal_path: Path) -> Iterator[Callable[..., Run]]:
    """`headroom.beginning.init` for run r1 on the fake server; what is still open at the end is closed."""
    runs: list[Run] = []

    def make(**settings: Any) -> Run:
        defaults: dict[str, Any] = {
            "run": "r1",
            "journal": journal_path,
            "url": server.url,
            "token": "hr_test",
        }
        runs.append(beginning.init(**defaults | settings))
        return runs[-1]

    yield make
    for finish in (partial(run.finish, timeout=1) for run in runs):
        finish()
