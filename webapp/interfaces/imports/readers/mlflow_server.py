"""A server of MLflow, asked over its REST interface; calls leave by `webapp.base.outbound`, which checks where to."""

import base64
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlencode

from webapp.base import outbound
from webapp.interfaces.imports.readers.mlflow_files import MlflowRun, Point
from webapp.interfaces.imports.readers.rows import MAX_RUNS, BadSource, FoundRun, Options

API = "/api/2.0/mlflow/"
TIMEOUT_S = 60.0
TURN_S = 600.0  # of all calls of one reading: while it lasts no other import goes on
MAX_ANSWER = 64 * 1024 * 1024
CLIENT = outbound.Client(max_bytes=MAX_ANSWER)
MAX_PAGES = 100_000
EXPERIMENTS_A_PAGE, RUNS_A_PAGE, EXPERIMENTS_A_SEARCH = 1000, 200, 50
POINTS_HELD = 200_000  # of all histories of one run together


def read(address: str, options: Options, client: outbound.Client = CLIENT) -> list[FoundRun]:
    """Every active run of the experiments that `options` name, or of all. Raises BadSource."""
    server = Server(address.rstrip("/"), options, client)
    experiments = server.experiments()
    missing = set(options.experiments) - set(experiments.values())
    if missing:
        raise BadSource(server.address, None, f"There is no experiment {sorted(missing)[0]}.")
    return [run.found(options) for run in server.runs(experiments)]


@dataclass(frozen=True)
class Server:
    address: str
    options: Options
    client: outbound.Client
    until: float = field(default_factory=lambda: time.monotonic() + TURN_S)

    def experiments(self) -> dict[str, str]:
        """Id -> name of those that are asked for."""
        body = {"max_results": EXPERIMENTS_A_PAGE}
        named = {
            str(one.get("experiment_id")): str(one.get("name", ""))
            for one in self._all("POST", "experiments/search", "experiments", body)
        }
        wanted = self.options.experiments or named.values()
        return {key: name for key, name in named.items() if name in wanted}

    def runs(self, experiments: Mapping[str, str]) -> list[MlflowRun]:
        """Raises BadSource."""
        found: list[MlflowRun] = []
        ids = list(experiments)
        for first in range(0, len(ids), EXPERIMENTS_A_SEARCH):
            body = {
                "experiment_ids": ids[first : first + EXPERIMENTS_A_SEARCH],
                "max_results": RUNS_A_PAGE,
                "run_view_type": "ACTIVE_ONLY",
            }
            for one in self._all("POST", "runs/search", "runs", body):
                if len(found) == MAX_RUNS:
                    raise BadSource(
                        self.address, None, f"There are more than {MAX_RUNS:,} runs: name experiments."
                    )
                found.append(self._run(one, experiments))
        return found

    def _run(self, one: Mapping[str, Any], experiments: Mapping[str, str]) -> MlflowRun:
        info, data = one.get("info"), one.get("data") or {}
        if not isinstance(info, Mapping):
            raise BadSource(self.address, None, "A run of the server has no info.")
        run_id = str(info.get("run_id") or info.get("run_uuid") or "")
        names = sorted(_pairs(data, "metrics"))
        return MlflowRun(
            place=f"{self.address}, run {run_id}",
            run_id=run_id,
            name=str(info.get("run_name") or ""),
            experiment=experiments.get(str(info.get("experiment_id")), ""),
            status=str(info.get("status", "")),
            params=_pairs(data, "params"),
            tags=_pairs(data, "tags"),
            metric_names=names,
            histories=partial(self._histories, run_id, names),
        )

    def _histories(self, run_id: str, names: list[str]) -> list[Iterator[Point]]:
        page = max(100, min(10_000, POINTS_HELD // max(1, len(names))))
        return [self._history(run_id, name, page) for name in names]

    def _history(self, run_id: str, name: str, page: int) -> Iterator[Point]:
        query = {"run_id": run_id, "metric_key": name, "max_results": page}
        for one in self._all("GET", "metrics/get-history", "metrics", query):
            try:
                number = float(one.get("value"))  # type: ignore[arg-type]  # protobuf's JSON has "NaN", "Infinity"
                yield Point(int(one.get("timestamp") or 0), int(one.get("step") or 0), name, number)
            except (TypeError, ValueError, OverflowError):
                reason = f"The history of {name} of run {run_id} has a point that is none."
                raise BadSource(self.address, None, reason) from None

    def _all(
        self, method: str, path: str, field: str, asked: Mapping[str, Any]
    ) -> Iterator[Mapping[str, Any]]:
        """The items of all pages. Raises BadSource."""
        token = ""
        for _ in range(MAX_PAGES):
            answer = self._ask(method, path, {**asked, **({"page_token": token} if token else {})})
            items = answer.get(field) or []
            if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
                raise BadSource(self.address, None, f"The answer of {path} is none of MLflow's.")
            yield from items
            next_token = str(answer.get("next_page_token") or "")
            if not next_token or next_token == token:
                return
            token = next_token
        raise BadSource(self.address, None, f"The answer of {path} has no end.")

    def _ask(self, method: str, path: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        if time.monotonic() >= self.until:
            raise BadSource(self.address, None, "The server answers too slowly.")
        url = f"{self.address}{API}{path}" + (f"?{urlencode(asked)}" if method == "GET" else "")
        send = {"json": asked} if method == "POST" else {}
        try:
            answer = self.client.request(method, url, headers=self._headers(), timeout_s=TIMEOUT_S, **send)
        except (outbound.Refused, outbound.Failed) as error:
            raise BadSource(self.address, None, str(error)) from None
        if answer.status in (401, 403):
            raise BadSource(
                self.address, None, f"The server lets nobody in with these credentials ({answer.status})."
            )
        if answer.status != 200:
            raise BadSource(self.address, None, f"The server answered {path} with status {answer.status}.")
        try:
            found = answer.json()
        except outbound.Failed:
            found = None
        if not isinstance(found, dict):
            raise BadSource(self.address, None, f"The answer of {path} is none of MLflow's.")
        return found

    def _headers(self) -> dict[str, str]:
        token, user = (getattr(self.options, name, "") for name in ("token", "user"))
        if user:
            pair = base64.b64encode(f"{user}:{token}".encode()).decode()
            return {"authorization": f"Basic {pair}"}
        return {"authorization": f"Bearer {token}"} if token else {}


def _pairs(data: Mapping[str, Any], field: str) -> dict[str, str]:
    """Of a list of {key, value}."""
    items = data.get(field) or []
    return {
        str(item["key"]): str(item.get("value", ""))
        for item in items
        if isinstance(item, Mapping) and "key" in item
    }
