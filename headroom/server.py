"""The few calls that the client makes to a Headroom server, and what their failures mean for the caller."""

import math
import ssl
from collections.abc import Mapping
from functools import cache
from threading import Lock
from typing import Any, BinaryIO
from urllib.parse import quote

import httpx

from headroom.configuration import plain
from headroom.version import USER_AGENT
from headroom.warned import log

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
# The record itself is at fault: sending it again cannot help.
CONFLICT, UNPROCESSABLE = 409, 422
FINAL_STATUSES = frozenset({400, CONFLICT, 413, UNPROCESSABLE})


class ServerError(Exception):
    """A call failed; `reason` says why in words, `status` is the HTTP status or None where there was no answer."""

    def __init__(self, reason: str, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.retry_after = retry_after  # seconds, where the server names them

    @property
    def final(self) -> bool:
        """True where the same request would be refused again."""
        return self.status in FINAL_STATUSES

    @property
    def passing(self) -> bool:
        """True where the server is away or in trouble, rather than unwilling."""
        return self.status is None or self.status in (408, 429) or self.status >= 500


class Server:
    """A Headroom server at `url` (with or without `/api/v1`), spoken to with a bearer token."""

    def __init__(self, url: str, token: str | None, answer_seconds: float = ANSWER_SECONDS) -> None:
        self._warned, self._token = False, token
        self.url = url.rstrip("/").removesuffix("/api/v1")
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"HEADROOM_URL must start with http:// or https://, not {url!r}")
        headers = {"User-Agent": USER_AGENT} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._client = httpx.Client(
            base_url=f"{self.url}/api/v1/",
            headers=headers,
            timeout=httpx.Timeout(answer_seconds, connect=CONNECT_SECONDS),
            verify=trusted(),
        )

    def create_run(self, description: Mapping[str, Any], key: str) -> str:
        """Make a tracked run, once for each `key`; its id."""
        answer = self._notify("runs", {"tracked": True, **description}, headers={"Idempotency-Key": key})
        if not isinstance(answer.get("id"), str):
            raise ServerError(f"{self.url} does not answer like a Headroom server")
        return answer["id"]

    def start(self, run: str, payload: dict[str, Any]) -> None:
        self._tell(f"runs/{run}/start", payload)

    def describe(self, run: str, payload: dict[str, Any]) -> None:
        self.ask("POST", f"runs/{run}/describe", json=payload)

    def finish(self, run: str, payload: dict[str, Any]) -> None:
        self._tell(f"runs/{run}/finish", payload)

    def _tell(self, path: str, payload: dict[str, Any]) -> None:
        """What is told later says when it was; older servers refuse that."""
        try:
            self._notify(path, payload)
        except ServerError as error:
            if error.status != UNPROCESSABLE or "time" not in payload:
                raise
            self._notify(path, {name: value for name, value in payload.items() if name != "time"})

    def refused(self, run: str, payload: dict[str, Any]) -> None:
        """How much of what an attempt logged the server will not get. Older servers have no place for it."""
        try:
            self._notify(f"runs/{run}/refused", payload)
        except ServerError as error:
            if error.status not in (404, 405):
                raise

    def send_records(self, run: str, records: list[bytes]) -> float | None:
        """Send records, each as JSON, as one batch. Returning means that the server has stored them all.

        The answer is for how many seconds the server would have records gathered before the next batch; None where it
        does not say (older servers do not).
        """
        body = b'{"records":[' + b",".join(records) + b"]}"
        headers = {"Content-Type": "application/json"}
        answer = self.ask("POST", f"runs/{run}/records", content=body, headers=headers)
        if "accepted" not in answer:  # a proxy's page with status 200 is no acknowledgement
            raise ServerError(f"{self.url} does not answer like a Headroom server")
        if answer.get("warning") and not self._warned:
            self._warned = True
            log.warning("headroom: run %s: %s", run, answer["warning"])
        return _seconds(answer.get("gather_seconds"))

    def send_file(self, run: str, name: str, file: BinaryIO) -> None:
        """Keep a file with a run; sent while it is read."""
        headers = {"Content-Type": "application/octet-stream"}
        self.ask("PUT", f"runs/{run}/artifacts/{quote(name, safe='/')}", content=file, headers=headers)

    def send_samples(self, run: str, name: str, attempt: int | None, file: BinaryIO) -> None:
        """Keep responses of a step with a run. name: KIND/STEP; attempt: None for the run's newest."""
        headers = {"Content-Type": "application/gzip"}
        path = f"runs/{run}/samples/{name}"
        which = {} if attempt is None else {"attempt": attempt}
        self.ask("PUT", path, params=which, content=file, headers=headers)

    def again(self) -> "Server":
        """Another connection, for another thread."""
        return Server(self.url, self._token)

    def close(self) -> None:
        self._client.close()

    def _notify(self, path: str, payload: Mapping[str, Any], **kwargs: Any) -> dict[str, Any]:
        """What journals of earlier versions hold may be no JSON."""
        return self.ask("POST", path, json=plain(payload)[0], **kwargs)

    def ask(self, method: str, path: str, **kwargs: Any) -> dict[str, Any]:
        """The object that the server answers; empty where it answers another thing. Raises ServerError."""
        try:
            response = self._client.request(method, path, **kwargs)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ServerError(f"{self.url} cannot be reached: {error or type(error).__name__}") from error
        if not response.is_success:
            raise ServerError(reason_of(response), response.status_code, retry_after(response))
        return _object(response)


def trusted() -> ssl.SSLContext:
    """Whose certificates are believed: read once for all runs of a process, because it takes tens of milliseconds."""
    with _reading:
        return _certificates()


_reading = Lock()
_certificates = cache(httpx.create_ssl_context)


def _object(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _seconds(value: Any) -> float | None:
    """A duration in an answer; None where it is no finite number of seconds from 0 on."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < math.inf else None


def reason_of(response: httpx.Response) -> str:
    """What an answer that is no success says, in a line."""
    error = _object(response).get("error")
    if isinstance(error, dict) and error.get("message"):
        field, message = error.get("field") or "", str(error["message"])
        named = message if message.startswith(field) else f"{field}: {message}"
        return f"{named} (HTTP {response.status_code})"
    return f"{response.url} answered HTTP {response.status_code} {response.reason_phrase}"


def retry_after(response: httpx.Response) -> float | None:
    try:
        return max(0.0, float(response.headers["Retry-After"]))
    except (KeyError, ValueError):
        return None
