"""`make demo`: the whole way through the house, shown in a terminal.

Starts the stack, launches a ScaleRL run and a GRPO run over the REST API that anyone else would use, shows step, pass
rate, compute and the fitted ceiling while they train, and ends with the comparison.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from stack import environment

RECIPES = ("tiny-scalerl", "tiny-deepseek-grpo")
TASK, MODEL = "arithmetic", "tiny-arithmetic"
BUDGET_HOURS = 0.04  # of each run: device-hours, 72 s on two cores
ENDED = {"succeeded", "failed", "cancelled", "lost"}
POLL_SECONDS = 1.0
RUN_TIMEOUT_SECONDS = 1800.0

Json = dict[str, Any]


@dataclass
class Watched:
    """A run as the terminal shows it."""

    id: str
    name: str
    state: str = "queued"
    evaluations: int = 0
    finished: bool = False


def launch_token(username: str) -> str:
    """An API token that may launch, made as an administrator would make it."""
    command = [sys.executable, "manage.py", "create_token", username, "--scope", "launch"]
    made = subprocess.run(command, cwd=environment.ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return made.stdout.strip().splitlines()[-1]


class Api:
    """The few calls that the demo needs; raises httpx.HTTPStatusError with the server's own words."""

    def __init__(self, url: str, token: str) -> None:
        self._client = httpx.Client(
            base_url=f"{url}/api/v1/", headers={"Authorization": f"Bearer {token}"}, timeout=30.0
        )

    def get(self, path: str, **params: Any) -> Json:
        return self._checked(self._client.get(path, params=params))

    def post(self, path: str, body: Json) -> Json:
        return self._checked(self._client.post(path, json=body))

    @staticmethod
    def _checked(response: httpx.Response) -> Json:
        if response.is_error:
            raise httpx.HTTPStatusError(response.text, request=response.request, response=response)
        return response.json()


def launch(api: Api, recipe: str, seed: int) -> Watched:
    """Launch one run."""
    body = {"recipe": recipe, "task": TASK, "model": MODEL, "seed": seed, "budget_hours": BUDGET_HOURS}
    run = api.post("runs", body)
    return Watched(run["id"], run["name"])


def next_seed(api: Api) -> int:
    """The first seed that no earlier demo used, so that repeated demos become seeds of the same recipes."""
    runs = api.get("runs", recipe=RECIPES[0], limit=100)["items"]
    return 1 + max((run["seed"] for run in runs), default=0)


def watch(api: Api, runs: list[Watched], say: Callable[[str], None]) -> None:
    """Print each new evaluation and change of state until all runs have ended."""
    deadline = time.monotonic() + RUN_TIMEOUT_SECONDS
    width = max(len(run.name) for run in runs)
    while not all(run.finished for run in runs):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the runs did not end within {RUN_TIMEOUT_SECONDS:.0f} s")
        for run in runs:
            if not run.finished:
                _report(api, run, width, say)
        time.sleep(POLL_SECONDS)


def _report(api: Api, run: Watched, width: int, say: Callable[[str], None]) -> None:
    figure = api.get(f"runs/{run.id}/figure")
    if figure["state"] != run.state:
        run.state = figure["state"]
        reason = f": {figure['state_reason']}" if figure["state_reason"] else ""
        say(f"{run.name:{width}}  {run.state}{reason}")
    evaluations = len(figure["points"]["x"]) + (figure["start"] is not None)
    if evaluations > run.evaluations:
        run.evaluations = evaluations
        say(f"{run.name:{width}}  {progress_line(figure)}")
    run.finished = figure["state"] in ENDED


def progress_line(figure: Json) -> str:
    """Step, pass rate, compute, and the ceiling with its interval or why there is none yet."""
    points = figure["points"]
    if not points["x"]:
        return f"step    0  pass rate {figure['start']['y']:.3f}  before the first update"
    ceiling = figure["ceiling"]
    shown = f"{ceiling['text']} ({ceiling['interval_text']})"
    return (
        f"step {points['step'][-1]:4d}  pass rate {points['y'][-1]:.3f}  "
        f"{figure['progress']['text']}  ceiling {shown}"
    )


def summary(api: Api, runs: list[Watched]) -> list[str]:
    """The comparison as lines of text."""
    compared = api.get("compare", run=[run.id for run in runs])
    lines = []
    for row in compared["table"]:
        parameters = ", ".join(
            f"{cell['name']} {cell['value_text']} ({cell['interval_text']})" for cell in row["rows"]
        )
        lines.append(f"{row['label']}: {parameters or row['ceiling']['text']}")
    for run in runs:
        if hindsight := api.get(f"runs/{run.id}/figure")["hindsight"]:
            lines.append(f"{run.name}: {hindsight['sentence']}")
    return lines + compared["sentences"]


def all_fitted(api: Api, runs: list[Watched]) -> bool:
    """Whether each run succeeded and has a fit."""
    figures = [api.get(f"runs/{run.id}/figure") for run in runs]
    return all(figure["state"] == "succeeded" and figure["fit"] is not None for figure in figures)


def show(url: str, username: str, say: Callable[[str], None]) -> bool:
    """Launch, watch and compare on a running stack; True when both runs succeeded and were fitted."""
    api = Api(url, launch_token(username))
    seed = next_seed(api)
    runs = [launch(api, recipe, seed) for recipe in RECIPES]
    say(f"\nWatch them at {url}/\n")
    watch(api, runs, say)
    say("")
    for line in summary(api, runs):
        say(line)
    return all_fitted(api, runs)
