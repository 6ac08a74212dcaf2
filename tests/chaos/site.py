"""A whole stack of its own for the kill matrix: what is asked of it, and what its files say."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from headroom.journal import unsealed
from stack.ports import free_port
from tests.chaos import short_run
from tests.chaos.network import Network
from tests.running_stack import RunningStack, stack_environment

Json = dict[str, Any]
TAIL_LINES = 15


class Site:
    """Embedded PostgreSQL, Redis, Ray, Celery and web server in a folder that goes with it.

    What `variables` name is used instead of the embedded one.

    Trainers reach the web server through `network`; this program reaches it directly.
    """

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="headroom-chaos-"))
        port = free_port()
        self.network = Network(port)
        short_run.prepare(self.home)
        own = stack_environment(self.home) | {"HEADROOM_URL": self.network.url}
        self.stack = RunningStack.start(self.home, port=port, variables=own | dict(variables or {}))
        self._http = httpx.Client(base_url=f"{self.stack.url}/api/v1/", timeout=5)

    def __enter__(self) -> "Site":
        try:
            self._http.headers["Authorization"] = f"Bearer {self.stack.token('launch')}"
            tiny = self.asked("recipes/tiny-scalerl/revisions")["items"][0]["config"]
            recipe = {"slug": short_run.RECIPE, "name": short_run.RECIPE, "config": short_run.config_of(tiny)}
            self._http.post("recipes", json=recipe).raise_for_status()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
        self.network.close()
        self.stack.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    # -- the API -----------------------------------------------------------------------------------------------

    def ask(self, path: str, **params: Any) -> Json | None:
        """The answer; None while there is none, or none that is good."""
        try:
            response = self._http.get(path, params=params)
            return response.json() if response.is_success else None
        except (httpx.HTTPError, ValueError):
            return None

    def asked(self, path: str, seconds: float = 60.0, **params: Any) -> Json:
        """The answer, as soon as there is one. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while (answer := self.ask(path, **params)) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no answer to GET {path} within {seconds:g} s")
            time.sleep(0.1)
        return answer

    def health(self) -> Json | None:
        """What /healthz says; None where the web server does not answer."""
        try:
            return httpx.get(f"{self.stack.url}/healthz", timeout=3).json()
        except (httpx.HTTPError, ValueError):
            return None

    def is_well(self) -> bool:
        """Whether every part answers."""
        return (self.health() or {}).get("status") == "ok"

    def launch(self) -> str:
        """The id of a new run."""
        response = self._http.post("runs", json=short_run.launch_body())
        response.raise_for_status()
        return response.json()["id"]

    def resume(self, run_id: str) -> bool:
        """Whether the next attempt was taken."""
        try:
            return self._http.post(f"runs/{run_id}/resume").is_success
        except httpx.HTTPError:
            return False

    def records(self, run_id: str) -> list[Json]:
        """Everything that is stored, in the order of arrival."""
        found: list[Json] = []
        cursor: dict[str, str] = {}
        while True:
            page = self.asked(f"runs/{run_id}/records", limit=200, **cursor)
            found += page["items"]
            if not page["next"]:
                return found
            cursor = {"cursor": page["next"]}

    # -- files -------------------------------------------------------------------------------------------------

    def run_folder(self, run_id: str) -> Path:
        return self.home / "runs" / run_id

    def journal(self, run_id: str) -> list[Json]:
        """Every record that the journal holds, of all attempts."""
        return [json.loads(unsealed(line) or b"null") for line in self._lines(run_id)]

    def unsent_records(self, run_id: str) -> int:
        """How many the server has not acknowledged, as the client knows it."""
        state = self.run_folder(run_id) / "metrics.jsonl.state"
        try:
            acknowledged = json.loads(state.read_text())["acknowledged"]
        except (OSError, ValueError):
            acknowledged = 0
        sizes = [len(line) for line in self._lines(run_id)]
        return sum(sum(sizes[: i + 1]) > acknowledged for i in range(len(sizes)))

    def _lines(self, run_id: str) -> list[bytes]:
        try:
            data = (self.run_folder(run_id) / "metrics.jsonl").read_bytes()
        except OSError:
            return []
        return [line for line in data.splitlines(keepends=True) if line.endswith(b"\n")]

    def last_words(self) -> str:
        """The ends of all logs, newest last."""
        logs = sorted((self.home / "logs").glob("*.log"), key=os.path.getmtime)
        logs += sorted((self.home / "postgres").glob("log"))
        parts = []
        for path in logs:
            lines = path.read_text(errors="replace").splitlines()[-TAIL_LINES:]
            parts.append("\n".join([f"--- {path.name}", *(line[:300] for line in lines)]))
        return "\n".join([*parts, "--- supervisor", *self.stack.output[-TAIL_LINES:]])
