"""Ray Jobs over its REST API: submit, look, read the end of a log, stop.

REST rather than Ray's own client, which has no time-outs, downloads whole logs, and would bring Ray into every process
that speaks to it. The address is read at each use: the supervisor may have started Ray anew elsewhere.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import httpx

from stack import environment
from stack.outside import ray_token, trusted
from webapp.record.runs.observation import JobStatus

TIMEOUT = httpx.Timeout(20.0, connect=3.0)
LOG_TAIL_BYTES = 64 * 1024
LOG_TAIL_LINES = 1000
MOST_STATES = 10_000  # that Ray gives at a time; without a limit it gives 100


class RayUnreachable(RuntimeError):
    """Ray cannot be asked now; the same request may go through later."""


class RayRefused(RuntimeError):
    """Ray will not take this request, now or later."""


class RayJobs(AbstractContextManager["RayJobs"]):
    """The Jobs API at `address` (http://host:port of Ray's dashboard), within a `with`."""

    def __init__(self, address: str, token: str | None = None) -> None:
        url = address if address.startswith("http") else f"http://{address}"
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT, verify=trusted())
        self._address = url

    def submit(
        self,
        submission_id: str,
        entrypoint: str,
        variables: Mapping[str, str],
        *,
        cpus: int = 0,
        gpus: int = 0,
    ) -> None:
        """Have Ray run `entrypoint` once it has these devices. An id that Ray knows already is the same job: success.

        Raises RayUnreachable or RayRefused.
        """
        body: dict[str, Any] = {
            "submission_id": submission_id,
            "entrypoint": entrypoint,
            "runtime_env": {"env_vars": dict(variables)},
        }
        if cpus or gpus:
            body |= {"entrypoint_num_cpus": cpus, "entrypoint_num_gpus": gpus}
        response = self._request("POST", "/api/jobs/", json=body)
        if response.is_success or self.status(submission_id) is not None:
            return
        error = f"Ray did not take the job: {_last_line(response.text)}"
        if response.status_code == 400:
            raise RayRefused(error)
        raise RayUnreachable(error)

    def status(self, submission_id: str) -> JobStatus | None:
        """What Ray says of the job; None where it does not know it. Raises RayUnreachable."""
        response = self._request("GET", f"/api/jobs/{submission_id}")
        if response.status_code == 404:
            return None
        self._check(response)
        return _job_status(response.json())

    def all(self) -> dict[str, JobStatus]:
        """Every job that Ray knows, by submission id, in one request. Raises RayUnreachable."""
        response = self._request("GET", "/api/jobs/")
        self._check(response)
        try:
            return {
                job["submission_id"]: _job_status(job)
                for job in response.json()
                if job.get("submission_id")  # not a driver that somebody started by hand
            }
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise RayUnreachable(f"Ray at {self._address} does not answer like one: {error!r}") from error

    def log_tail(self, submission_id: str, node_id: str | None) -> str:
        """The last lines of the job's output, at most LOG_TAIL_BYTES; empty where there is none yet."""
        if node_id is None:
            return ""
        wanted = {"node_id": node_id, "filename": f"job-driver-{submission_id}.log", "lines": LOG_TAIL_LINES}
        response = self._request("GET", "/api/v0/logs/file", params=wanted)
        if not response.is_success:  # the file does not exist before the driver starts
            return ""
        return response.content[-LOG_TAIL_BYTES:].decode(errors="replace")

    def stop(self, submission_id: str) -> None:
        """Ask the job to stop (SIGTERM, and SIGKILL after RAY_JOB_STOP_WAIT_TIME_S); an unknown job is stopped.

        Raises RayUnreachable.
        """
        response = self._request("POST", f"/api/jobs/{submission_id}/stop")
        if response.status_code != 404:
            self._check(response)

    def nodes(self) -> list[dict[str, Any]]:
        """The cluster's nodes as Ray's state API gives them, dead ones included. Raises RayUnreachable."""
        return self._state("nodes", {})

    def placement_groups(self) -> list[dict[str, Any]]:
        """What jobs have reserved or wait for, with the nodes of their bundles. Raises RayUnreachable."""
        kept = {"filter_keys": "state", "filter_predicates": "!=", "filter_values": "REMOVED"}
        return self._state("placement_groups", kept | {"detail": "true"})

    def _state(self, what: str, params: Mapping[str, str]) -> list[dict[str, Any]]:
        response = self._request("GET", f"/api/v0/{what}", params={"limit": MOST_STATES} | dict(params))
        self._check(response)
        try:
            return list(response.json()["data"]["result"]["result"])
        except (ValueError, KeyError, TypeError) as error:
            raise RayUnreachable(f"Ray at {self._address} does not say what {what} it has") from error

    def _request(self, method: str, path: str, **kwargs: Any) -> httpx.Response:
        try:
            response = self._client.request(method, path, **kwargs)
        except httpx.HTTPError as error:
            raise RayUnreachable(
                f"Ray at {self._address} does not answer: {error or type(error).__name__}"
            ) from error
        if response.status_code in (401, 403):
            raise RayUnreachable(
                f"Ray at {self._address} does not accept the token: {_last_line(response.text)}"
            )
        return response

    def _check(self, response: httpx.Response) -> None:
        if not response.is_success:
            raise RayUnreachable(f"Ray at {self._address} answered: {_last_line(response.text)}")

    def __exit__(self, *_: object) -> None:
        self._client.close()


def connect() -> RayJobs:
    """The Jobs API of this installation. Raises RayUnreachable where there is none."""
    if not (address := environment.services().ray_address):
        raise RayUnreachable("no Ray cluster is known: it was not started and RAY_ADDRESS is not set")
    return RayJobs(address, ray_token())


def _job_status(job: Mapping[str, Any]) -> JobStatus:
    return JobStatus(job["status"], job.get("message") or "", job.get("driver_node_id"), job.get("job_id"))


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip(" .")]
    return lines[-1][:500] if lines else "no reason given"
