"""A whole stack for the kill matrix: what is asked of it, and what its files say."""

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from headroom.journal import unsealed
from tests.chaos import short_run
from tests.running_stack import RunningStack

Json = dict[str, Any]
TAIL_LINES = 15


class Site:
    """A running stack with the recipe, the model and the data of the kill matrix.

    Trainers reach its web server through `network`; this program reaches it directly.
    """

    def __init__(self, stack: RunningStack) -> None:
        assert stack.network is not None
        self.stack, self.home, self.network = stack, stack.home, stack.network
        short_run.prepare(self.home)
        self._http = httpx.Client(
            base_url=f"{stack.url}/api/v1/",
            headers={"Authorization": f"Bearer {stack.token('launch')}"},
            timeout=5,
        )
        tiny = self.asked("recipes/tiny-scalerl/revisions")["items"][0]["config"]
        recipe = {"slug": short_run.RECIPE, "name": short_run.RECIPE, "config": short_run.config_of(tiny)}
        self._http.post("recipes", json=recipe).raise_for_status()

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


@contextmanager
def own_site(variables: Mapping[str, str] | None = None) -> Iterator[Site]:
    """On a stack of its own, which goes with its folder. What `variables` name is used instead of what is embedded."""
    home = Path(tempfile.mkdtemp(prefix="headroom-chaos-"))
    stack = RunningStack.start(home, variables=variables, with_network=True)
    try:
        yield Site(stack)
    finally:
        stack.close()
