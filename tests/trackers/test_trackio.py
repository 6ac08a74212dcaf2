"""trackio's own client, pointed at Headroom by two variables."""

import math
import time

import pytest
import trackio

from tests.trackers.conftest import Headroom

pytestmark = pytest.mark.usefixtures("trackio_env")


def wait_for_run(headroom: Headroom, name: str) -> None:
    """The client connects in the background; what is logged before waits in its buffer."""
    deadline = time.monotonic() + 60
    while not headroom.get("runs", q=name)["items"]:
        assert time.monotonic() < deadline, "the client has not connected"
        time.sleep(0.2)


def test_a_run_from_beginning_to_end(headroom: Headroom) -> None:
    trackio.init(project="from trackio", name="tracked by trackio", config={"lr": 1e-6}, auto_log_cpu=False)
    trackio.log({"loss": 1.0, "eval/pass_rate": 0.0}, step=0)
    wait_for_run(
        headroom, "tracked by trackio"
    )  # what it holds back before cannot be NaN: trackio does not send that
    for step in range(1, 50):
        trackio.log({"loss": 1 / (1 + step), "eval/pass_rate": step / 100}, step=step)
    trackio.log({"loss": math.nan, "table": trackio.Table(columns=["a"], data=[[1]])}, step=50)
    trackio.alert("Entropy fell", text="below 0.1", level=trackio.AlertLevel.WARN)
    trackio.finish()

    detail = headroom.run("tracked by trackio")
    assert detail["config"]["lr"] == 1e-6 and detail["config"]["logged_through"]["group"] == "from trackio"
    assert detail["config"]["logged_through"]["alerts"][0]["title"] == "Entropy fell"
    assert detail["config"]["logged_through"]["left_out"] == ["table"]
    assert headroom.curve("tracked by trackio") == [(step, step / 100) for step in range(50)]


def test_going_on_with_a_run(headroom: Headroom) -> None:
    for first, last in ((0, 5), (3, 8)):
        trackio.init(
            project="from trackio", name="went on", resume="allow", config={"lr": 1}, auto_log_cpu=False
        )
        for step in range(first, last):
            trackio.log({"eval/pass_rate": step / 10 + first / 100}, step=step)
        trackio.finish()

    expected = [(0, 0.0), (1, 0.1), (2, 0.2), (3, 0.33), (4, 0.43), (5, 0.53), (6, 0.63), (7, 0.73)]
    assert headroom.curve("went on") == [(step, pytest.approx(value)) for step, value in expected]


def test_a_server_that_is_away_for_a_while(headroom: Headroom) -> None:
    trackio.init(project="from trackio", name="through a restart", auto_log_cpu=False)
    for step in range(200):
        if step == 100:
            wait_for_run(headroom, "through a restart")
            headroom.kill()
        trackio.log({"loss": float(step)}, step=step)
    trackio.finish()

    assert headroom.curve("through a restart", "loss") == [(step, float(step)) for step in range(200)]
