"""trackio's own client, pointed at Headroom by two variables."""

import hashlib
import math
import shutil
import time
from pathlib import Path

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
    assert "left_out" not in detail["config"]["logged_through"]
    assert headroom.curve("tracked by trackio") == [(step, step / 100) for step in range(50)]


def files_of(headroom: Headroom, name: str) -> dict[str, str]:
    """Path -> digest."""
    found = headroom.get(f"runs/{headroom.run(name)['id']}/artifacts", limit=500)["items"]
    return {one["path"]: one["sha256"] for one in found}


def test_pictures_tables_and_files_are_kept_and_finishing_is_quick(
    headroom: Headroom, tmp_path: Path
) -> None:
    import numpy as np
    from trackio.utils import MEDIA_DIR

    picture = np.zeros((8, 8, 3), dtype=np.uint8)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "grpo.yaml").write_text("lr: 1")
    trackio.init(project="media", name="with media", auto_log_cpu=False)
    trackio.log({"loss": 1.0}, step=0)
    wait_for_run(headroom, "with media")
    trackio.log({"sample": trackio.Image(picture, caption="a sample"), "loss": 0.5}, step=1)
    trackio.log({"rows": trackio.Table(columns=["prompt", "reward"], data=[["2 + 2", 1.0]])}, step=2)
    trackio.save("conf/grpo.yaml")
    began = time.monotonic()
    trackio.finish()

    assert time.monotonic() - began < 15  # it was 30 s as long as uploads were refused
    kept = files_of(headroom, "with media")
    (shown,) = [path for path in kept if path.startswith("media/1/")]
    (sent,) = MEDIA_DIR.rglob(shown.rpartition("/")[2])
    assert kept[shown] == hashlib.sha256(sent.read_bytes()).hexdigest()
    assert kept["files/conf/grpo.yaml"] == hashlib.sha256(b"lr: 1").hexdigest()
    assert {"logged/sample/1.json", "logged/rows/2.json"} < set(kept)
    assert headroom.curve("with media", "loss") == [(0, 1.0), (1, 0.5)]


def test_an_artifact_is_logged_in_versions_and_downloaded(headroom: Headroom, tmp_path: Path) -> None:
    from trackio.utils import project_artifacts_dir

    folder = tmp_path / "checkpoint"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "weights").write_bytes(bytes(range(256)) * 100)
    (folder / "config.json").write_text("{}")
    run = trackio.init(project="headroom-artifacts", name="with an artifact", auto_log_cpu=False)
    trackio.log({"loss": 1.0}, step=0)
    first = run.log_artifact(folder, name="policy", type="model", aliases=["best"])
    (folder / "config.json").write_text('{"k": 8}')
    second = run.log_artifact(folder, name="policy", type="model")
    shutil.rmtree(project_artifacts_dir("headroom-artifacts"))  # what is downloaded comes from the server
    here = Path(run.use_artifact("policy:best").download(tmp_path / "back"))
    trackio.finish()

    assert (first.version, second.version) == ("v0", "v1")
    assert (here / "deep" / "weights").read_bytes() == bytes(range(256)) * 100
    assert (here / "config.json").read_text() == "{}"
    kept = files_of(headroom, "with an artifact")
    assert {path for path in kept if path.startswith("artifacts/")} == {
        f"artifacts/policy/v{version}/{name}"
        for version in (0, 1)
        for name in ("config.json", "deep/weights")
    }


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
