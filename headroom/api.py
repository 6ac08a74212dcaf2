"""Reading from a Headroom server: runs, curves, fits, predictions, exports. Standard library and httpx only.

    import headroom

    api = headroom.Api("https://headroom.example", token="hr_...")  # or HEADROOM_URL and HEADROOM_TOKEN
    for run in api.runs("task:arithmetic ceiling >= 0.6"):
        print(run["name"], len(api.curve(run["id"])["points"]))

Lists are read page by page as they are used. Where the server asks to come again later (429), a call waits as
long as it says, up to `patience` seconds in all. What else goes wrong is an ApiError. docs/api.md has more.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Self, cast
from urllib.parse import quote

import httpx

from headroom.api_types import (
    Axis,
    Columns,
    Curve,
    Fit,
    Group,
    Prediction,
    PredictionDetail,
    Recipe,
    Record,
    Run,
    RunDetail,
    SampledColumns,
    Series,
    Study,
    StudyDetail,
)
from headroom.beginning import token_from_environment
from headroom.server import retry_after, trusted
from headroom.version import USER_AGENT

PAGE = 500
PASS_RATE = "eval/pass_rate"
RUNS_AT_ONCE = 100  # of `curves`
FORMATS = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet"}
LATER = frozenset({429, 503})
Query = dict[str, Any]


class ApiError(Exception):
    """A request that was refused, or that no server answered.

    status: of HTTP, None without an answer. code: in a word, such as "not_found". message: one sentence. field: the
    dotted path of the value at fault, or None.
    """

    def __init__(
        self, message: str, *, status: int | None = None, code: str = "", field: str | None = None
    ) -> None:
        super().__init__(f"{message} (HTTP {status})" if status else message)
        self.message = message
        self.status = status
        self.code = code
        self.field = field


class Api:
    """A Headroom server, read with a token of the scope read.

    url: with or without /api/v1; else HEADROOM_URL. token: else HEADROOM_TOKEN, or the file HEADROOM_TOKEN_FILE.
    timeout: seconds for one answer to begin. patience: seconds that one call may wait where the server asks to come
    again later. Raises ValueError without a URL or token. Every method raises ApiError.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        patience: float = 120.0,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        url = (url or os.environ.get("HEADROOM_URL") or "").rstrip("/").removesuffix("/api/v1")
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"url, or HEADROOM_URL, must start with http:// or https://, not {url!r}")
        self.url, self.patience, self._sleep = url, patience, sleep
        self._client = httpx.Client(
            base_url=f"{url}/api/v1/",
            headers={
                "User-Agent": USER_AGENT,
                "Authorization": f"Bearer {token or token_from_environment()}",
            },
            timeout=httpx.Timeout(timeout, connect=min(10.0, timeout)),
            verify=trusted(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def runs(self, filter: str = "", **query: Any) -> Iterator[Run]:
        """Runs, newest first, that a filter finds (docs/filtering.md). query: state, recipe, task, model, alarm, q."""
        yield from self._pages("runs", {"filter": filter} | query)

    def run(self, run: str) -> RunDetail:
        """One run with its configuration, attempts, newest values and alarms."""
        return cast(RunDetail, self.get(f"runs/{_part(run)}"))

    def metrics(self, run: str) -> list[str]:
        """The names of a run's series."""
        return list(self._pages(f"runs/{_part(run)}/metrics", {}))

    def curve(
        self, run: str, metric: str = PASS_RATE, x: Axis = "device_hours", *, start: bool = True
    ) -> Curve:
        """Every point of a curve, unsampled, without superseded ones. start: with the evaluation before any update.

        A metric that the run does not have is an ApiError (404, field metric).
        """
        query = {"metric": metric, "x": x, "start": start}
        return cast(Curve, self.get(f"runs/{_part(run)}/curve", query))

    def curves(
        self, runs: Iterable[str], metric: str = PASS_RATE, x: Axis = "device_hours"
    ) -> Iterator[Columns]:
        """Every point of a curve of each run, in columns: one request for a hundred runs."""
        yield from self._of_many("curves", runs, {"metric": metric, "x": x})

    def series(
        self,
        run: str,
        metric: str,
        x: Axis = "step",
        points: int = 1000,
        *,
        lo: float | None = None,
        hi: float | None = None,
    ) -> Series:
        """A series for a chart: at most so many points, and how they were chosen. lo, hi: on the axis x, to zoom in."""
        query = {"metric": metric, "x": x, "points": points, "lo": lo, "hi": hi}
        return cast(Series, self.get(f"runs/{_part(run)}/series", query))

    def many_series(
        self, runs: Iterable[str], metric: str, x: Axis = "step", points: int = 1000
    ) -> Iterator[SampledColumns]:
        """The same of many runs, in columns: one request for a hundred runs. Runs without the series are left out."""
        yield from self._of_many("series", runs, {"metric": metric, "x": x, "points": points})

    def records(self, run: str) -> Iterator[Record]:
        """Everything that a run reported, in the order of arrival, read page by page."""
        yield from self._pages(f"runs/{_part(run)}/records", {})

    def new_records(self, run: str, since: str | None = None) -> tuple[list[Record], str | None]:
        """The records after `since`, and the `since` of the next call; None: all of them, from the first."""
        found: list[Record] = []
        while True:
            page = self.get(f"runs/{_part(run)}/records", {"since": since, "limit": PAGE})
            found += page["items"]
            since = page["since"]
            if page["next"] is None:
                return found, since

    def fits(self, run: str | None = None, metric: str = "") -> Iterator[Fit]:
        """Stored fits of a run, or of all runs, newest first."""
        yield from self._pages(f"runs/{_part(run)}/fits" if run else "fits", {"metric": metric})

    def fit(self, fit: int) -> Fit:
        """One stored fit."""
        return cast(Fit, self.get(f"fits/{_part(fit)}"))

    def leaderboard(self, **query: Any) -> list[Group]:
        """Recipes by ceiling, a group for each task and model. query: budget, x, task, model, published."""
        return self.get("leaderboard", query)["groups"]

    def predictions(self, **query: Any) -> Iterator[Prediction]:
        """Predictions, newest first, with their outcomes. query: status, author, recipe, run, task, model."""
        yield from self._pages("predictions", query)

    def prediction(self, prediction: str) -> PredictionDetail:
        """One prediction with all that was frozen."""
        return cast(PredictionDetail, self.get(f"predictions/{_part(prediction)}"))

    def recipes(self) -> Iterator[Recipe]:
        """The recipes of the project."""
        yield from self._pages("recipes", {})

    def studies(self) -> Iterator[Study]:
        """The studies of the project, newest first."""
        yield from self._pages("studies", {})

    def study(self, study: str) -> StudyDetail:
        """One study with its variants and results."""
        return cast(StudyDetail, self.get(f"studies/{_part(study)}"))

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        run: str | None = None,
        filter: str = "",
        content: Literal["curves", "records", "runs"] = "curves",
        metrics: Sequence[str] = (),
        superseded: bool = False,
        shape: Literal["wide", "long"] = "wide",
    ) -> int:
        """Write an unsampled export to a file whose name ends in .csv, .jsonl or .parquet; returns its bytes.

        Of one run its records (`shape`: of a table), else of all runs that `filter` finds their `content`. It is
        streamed and takes the file's place only when it is whole. Raises ValueError for another ending, and OSError.
        """
        target = Path(path)
        if target.suffix not in FORMATS:
            raise ValueError(f"{target.name} must end in one of {', '.join(FORMATS)}")
        query: Query = {"format": FORMATS[target.suffix], "metric": list(metrics), "superseded": superseded}
        query |= {"shape": shape} if run else {"filter": filter, "content": content}
        partial = target.with_name(f"{target.name}.partial")
        try:
            self._waiting(
                lambda: self._download(f"runs/{_part(run)}/export" if run else "export", query, partial)
            )
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)
        return target.stat().st_size

    def get(self, path: str, query: Query | None = None) -> Any:
        """The JSON at a path under /api/v1/, such as "compare"; for what has no method here."""
        return self._waiting(lambda: self._answer(path, query or {}))

    def _pages(self, path: str, query: Query) -> Iterator[Any]:
        cursor: str | None = None
        while True:
            page = self.get(path, query | {"limit": PAGE, "cursor": cursor})
            yield from page["items"]
            if (cursor := page["next"]) is None:
                return

    def _of_many(self, path: str, runs: Iterable[str], query: Query) -> Iterator[Any]:
        wanted = list(dict.fromkeys(runs))
        for start in range(0, len(wanted), RUNS_AT_ONCE):
            yield from self.get(path, query | {"run": wanted[start : start + RUNS_AT_ONCE]})["items"]

    def _answer(self, path: str, query: Query) -> Any:
        try:
            response = self._client.get(path, params=_plain(query))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._unreachable(error) from error
        _check(response)
        try:
            return response.json()
        except ValueError:
            raise ApiError(f"{self.url} does not answer like a Headroom server") from None

    def _download(self, path: str, query: Query, target: Path) -> None:
        try:
            with self._client.stream("GET", path, params=_plain(query)) as response:
                if not response.is_success:
                    response.read()
                _check(response)
                with target.open("wb") as file:
                    for piece in response.iter_bytes():
                        file.write(piece)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._unreachable(error) from error

    def _waiting(self, ask: Callable[[], Any]) -> Any:
        """Ask until there is an answer: where the server says when to come again, then, as far as patience reaches."""
        left = self.patience
        while True:
            try:
                return ask()
            except _Later as error:
                if error.seconds > left:
                    raise
                left -= error.seconds
                self._sleep(error.seconds)

    def _unreachable(self, error: Exception) -> ApiError:
        return ApiError(f"{self.url} cannot be reached: {error or type(error).__name__}")


class _Later(ApiError):
    """The server asks to come again after so many seconds."""

    seconds = 1.0


def _check(response: httpx.Response) -> None:
    """Raises ApiError for a refusal, with what the server said of it."""
    if response.is_success:
        return
    try:
        error = response.json()["error"]
        said = {"code": str(error["code"]), "field": error.get("field")}
        message = str(error["message"])
    except (ValueError, KeyError, TypeError, AttributeError):
        said, message = {}, f"{response.url.path} answered {response.reason_phrase or 'with an error'}"
    seconds = retry_after(response)
    if response.status_code in LATER and seconds is not None:
        later = _Later(message, status=response.status_code, **said)
        later.seconds = max(0.1, seconds)
        raise later
    raise ApiError(message, status=response.status_code, **said)


def _plain(query: Query) -> Query:
    """Without what was not asked for."""
    return {name: value for name, value in query.items() if value is not None and value != "" and value != []}


def _part(value: object) -> str:
    """An id as one part of a path, whatever it holds."""
    return quote(str(value), safe="")
