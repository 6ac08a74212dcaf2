"""The server, and what Headroom stored, asked through its own API."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

if find_spec("mlflow") is None:  # Headroom's own environment: `make trackers` has the clients
    collect_ignore_glob = ["test_*.py"]
ROOT = Path(__file__).resolve().parents[2]
FOREIGN = ("MLFLOW_", "TRACKIO_", "HEADROOM_", "DATABASE_URL", "REDIS_URL", "DJANGO_")


@dataclass
class Headroom:
    """A running server: its address, tokens, and the process that holds it."""

    url: str
    read: str
    write: str
    process: "subprocess.Popen[str]"

    def get(self, path: str, **query: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.read}"}
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=query, headers=headers, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def run(self, name: str) -> dict[str, Any]:
        """The one run of this name, with its detail."""
        (found,) = [run for run in self.get("runs", q=name)["items"] if run["name"] == name]
        return self.get(f"runs/{found['id']}")

    def records(self, name: str) -> list[dict[str, Any]]:
        return self.get(f"runs/{self.run(name)['id']}/records", limit=500)["items"]

    def curve(self, name: str, metric: str = "eval/pass_rate", x: str = "step") -> list[tuple[Any, float]]:
        """(x, value) of every point that counts."""
        found = self.get(f"runs/{self.run(name)['id']}/curve", metric=metric, x=x)["points"]
        return [(point["compute"], point["value"]) for point in found]

    def samples(self, name: str) -> list[tuple[str, int, int]]:
        """(kind, step, responses) of the run of this name."""
        found = self.get(f"runs/{self.run(name)['id']}/samples", limit=500)["items"]
        return [(one["kind"], one["step"], one["rows"]) for one in found]

    def responses(self, name: str, kind: str, step: int) -> list[dict[str, Any]]:
        return self.get(f"runs/{self.run(name)['id']}/samples/{kind}/{step}")["items"]

    def kill(self) -> None:
        """Kill the web server, and wait until it is there again."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("kill\n")
        self.process.stdin.flush()
        assert json.loads(self.process.stdout.readline()) == "again"


@pytest.fixture(scope="session")
def headroom() -> Iterator[Headroom]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    process = subprocess.Popen(
        [str(ROOT / ".venv/bin/python"), "-m", "tests.trackers.server"],
        cwd=ROOT, env=variables, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin and process.stdout
    line = process.stdout.readline()
    assert line, "the server did not start"
    yield Headroom(**json.loads(line), process=process)
    process.stdin.close()
    process.wait(60)


@pytest.fixture(autouse=True)
def _a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients leave files where they are started."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def mlflow_env(headroom: Headroom, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All that a user of MLflow changes."""
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", headroom.url)
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", headroom.write)
    yield
    mlflow.end_run()
    mlflow.set_tracking_uri(None)
    mlflow.tracking.fluent._active_experiment_id = None
    os.environ.pop("MLFLOW_EXPERIMENT_ID", None)  # set_experiment leaves it


@pytest.fixture
def trackio_env(headroom: Headroom, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All that a user of trackio changes."""
    monkeypatch.setenv("TRACKIO_SERVER_URL", headroom.url)
    monkeypatch.setenv("TRACKIO_WRITE_TOKEN", headroom.write)
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))


@pytest.fixture
def wandb_env(headroom: Headroom, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All that a user of wandb changes: `headroom.wandb_shim.install()` before the trainer is imported."""
    from headroom import wandb_shim

    for name in ("wandb", "wandb.sdk", *wandb_shim.sdk.BY_NAME):
        monkeypatch.setitem(sys.modules, name, wandb_shim)  # what stands there afterwards, it puts back
    wandb_shim.install()
    monkeypatch.setenv("HEADROOM_URL", headroom.url)
    monkeypatch.setenv("HEADROOM_TOKEN", headroom.write)
    yield
    wandb_shim.finish()
