"""The end of a run whose server is away."""

import logging

import pytest

from training.launch import SERVER_TIMEOUT_SECONDS, wait_for_server


class Late:
    """A reporter whose server has everything at the n-th time that it is waited for."""

    def __init__(self, at: int) -> None:
        self._at = at
        self.waits: list[float] = []

    def log(self, *_: object, **__: object) -> None:
        raise AssertionError("the run has ended")

    def finish(self, state: str = "succeeded", message: str = "", timeout: float = 10) -> bool:
        self.waits.append(timeout)
        return len(self.waits) >= self._at


def test_server_that_has_everything_is_not_waited_for() -> None:
    reporter = Late(1)
    wait_for_server(reporter)

    assert reporter.waits == [0]


def test_server_that_is_away_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    reporter = Late(2)
    with caplog.at_level(logging.WARNING):
        wait_for_server(reporter)

    assert reporter.waits == [0, SERVER_TIMEOUT_SECONDS]
    assert "waiting for the server" in caplog.text and "given up" not in caplog.text


def test_server_that_stays_away_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        wait_for_server(Late(3))

    assert "given up; the journal keeps them, and a resume sends them" in caplog.text
