"""The end of a run whose server is away, or that was asked to end."""

import asyncio
import logging
import os
from signal import SIGINT, SIGTERM

import pytest

from headroom import Finished
from training.launch import SERVER_TIMEOUT_SECONDS, heed_signals, wait_for_server
from training.waiting import Interrupted, Switchboard

ROUNDS = 5  # of the loop, until a handler has run


class Late:
    """A reporter whose server has everything at the n-th time that it is waited for."""

    def __init__(self, at: int) -> None:
        self._at = at
        self.waits: list[float] = []

    def log(self, *_: object, **__: object) -> None:
        raise AssertionError("the run has ended")

    log_samples = log

    def log_system(self, figures: object) -> None:
        raise AssertionError("the run has ended")

    def finish(self, state: str = "succeeded", message: str = "", timeout: float = 10) -> Finished:
        self.waits.append(timeout)
        return Finished(sent=len(self.waits) >= self._at)


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


def sent(*signals: int) -> Switchboard:
    """What a run's waits know after these signals."""
    switch = Switchboard()

    async def receive() -> None:
        heed_signals(switch)
        for number in signals:
            os.kill(os.getpid(), number)
            for _ in range(ROUNDS):
                await asyncio.sleep(0)

    asyncio.run(receive())
    return switch


@pytest.mark.parametrize("signals", [[SIGINT], [SIGTERM], [SIGTERM, SIGTERM], [SIGINT, SIGTERM]])
def test_a_stop_may_be_asked_for_twice(signals: list[int]) -> None:
    switch = sent(*signals)

    assert switch.is_stopping
    switch.check()


@pytest.mark.parametrize("signals", [[SIGINT, SIGINT], [SIGTERM, SIGINT]])
def test_ctrl_c_while_a_run_stops_ends_every_wait(signals: list[int]) -> None:
    switch = sent(*signals)

    with pytest.raises(Interrupted, match="at once at a second Ctrl-C, without a checkpoint"):
        switch.check()
