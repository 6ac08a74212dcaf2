"""The parts that the supervisor may start: PostgreSQL, Redis, Ray, the web server, Celery."""

import socket
import sys
from dataclasses import replace
from pathlib import Path

import httpx

from observability import logs
from stack import ray, redis
from stack.part import Part
from stack.ports import listening_error
from stack.postgres import RECOVERY_SECONDS

BIN = Path(sys.executable).parent
# Fits are small; one thread each keeps two cores free for the training.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
CELERY = ONE_THREAD | {"CELERY_SKIP_CHECKS": "1"}  # the checks import all pages
PROCESSES = 2  # of the web server and of a worker


def postgres_part(home: Path, log_folder: Path) -> tuple[Part, Path]:
    """PostgreSQL and the file that holds its URL once it runs."""
    address_file = home / "postgres-url"
    address_file.unlink(missing_ok=True)

    def command() -> list[str]:
        return [sys.executable, "-m", "stack.postgres", str(home / "postgres"), str(address_file)]

    part = Part("postgres", command, address_file.exists, log_folder, ready_seconds=RECOVERY_SECONDS)
    return part, address_file


def redis_part(home: Path, log_folder: Path, port: int) -> Part:
    url = redis.redis_url(port)
    return Part(
        "redis",
        lambda: redis.redis_command(home / "redis", port),
        lambda: redis.redis_answers(url),
        log_folder,
    )


class RayPart(Part):
    """A Ray head node. Each start takes new ports; the Jobs API stays at `address` where its port is still free."""

    address: str

    def __init__(self, home: Path, log_folder: Path) -> None:
        super().__init__(
            "ray",
            self._command,
            lambda: ray.ray_answers(self.address),
            log_folder,
            ray.ray_environment(),
            90.0,
        )
        self._folder = ray.ray_folder(home)
        self._dashboard_port: int | None = None

    def _command(self) -> list[str]:
        ports = ray.RayPorts.free()
        if self._dashboard_port is not None and listening_error("127.0.0.1", self._dashboard_port) is None:
            ports = replace(ports, dashboard=self._dashboard_port)
        self._dashboard_port = ports.dashboard
        self.address = ray.ray_address(ports)
        return ray.ray_command(self._folder, ports)


def web_command(host: str, port: int, processes: int = PROCESSES) -> list[str]:
    bind = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    options = ["--config", "python:observability.gunicorn_conf"]
    options += [
        "--bind",
        bind,
        "--worker-class",
        "stack.web_worker.Worker",
        "--workers",
        str(processes),
        "--threads",
        "4",
    ]
    options += ["--timeout", "60", "--graceful-timeout", "3", "--preload"]
    options += [
        "--keep-alive",
        "75",
    ]  # longer than clients keep one: else both end it, and a request is lost
    options += ["--no-control-socket"]
    return [str(BIN / "gunicorn"), "webapp.wsgi", *options]


def worker_command(processes: int = PROCESSES) -> list[str]:
    celery = [*_celery("worker.app"), "worker", "--concurrency", str(processes)]
    return [*celery, "--loglevel", "INFO", "--without-gossip", "--without-mingle"]


def beat_command() -> list[str]:
    """Its schedule needs no file: every entry is due at the start."""
    celery = [*_celery("worker.beat"), "beat", "--scheduler", "celery.beat:Scheduler"]
    return [*celery, "--pidfile", "", "--loglevel", "INFO"]


def _celery(application: str) -> list[str]:
    quiet = ["--quiet"] if logs.is_json() else []  # its banner is no line of a log
    return [str(BIN / "celery"), *quiet, "-A", application]


def web_part(
    log_folder: Path, host: str, port: int, variables: dict[str, str], processes: int = PROCESSES
) -> Part:
    url = f"{local_url(host, port)}/healthz/ready"
    command = web_command(host, port, processes)
    return Part("web", lambda: command, lambda: _answers(url), log_folder, ONE_THREAD | variables)


def worker_part(home: Path, log_folder: Path, variables: dict[str, str]) -> Part:
    """Celery. It makes `ready_file` once it takes tasks."""
    ready_file = home / "celery" / "ready"

    def command() -> list[str]:
        ready_file.parent.mkdir(exist_ok=True)
        ready_file.unlink(missing_ok=True)
        return worker_command()

    extra = CELERY | variables | {"HEADROOM_WORKER_READY_FILE": str(ready_file)}
    return Part("celery", command, ready_file.exists, log_folder, extra)


def beat_part(log_folder: Path, variables: dict[str, str]) -> Part:
    """What asks for a round of reconciliation every two seconds. A process of its own: a worker does not notice when
    the beat that it started itself (`-B`) has died, and nothing would be reconciled any more.
    """
    return Part("beat", beat_command, lambda: True, log_folder, CELERY | variables)


def local_url(host: str, port: int) -> str:
    """How this machine reaches a server that listens on `host`."""
    reachable = "127.0.0.1" if host in ("0.0.0.0", "::", "") else host  # nosec B104  # compared, nothing is bound
    return f"http://[{reachable}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def allowed_hosts(host: str) -> str:
    """The host names under which the web server may be addressed when it listens on `host`."""
    names = ["localhost", "127.0.0.1", "[::1]"]
    if host in ("0.0.0.0", "::", ""):  # nosec B104  # compared, nothing is bound
        names += [socket.gethostname(), socket.getfqdn(), *_own_addresses()]
    else:
        names.append(f"[{host}]" if ":" in host else host)
    return ",".join(dict.fromkeys(names))


def _own_addresses() -> list[str]:
    try:
        found = socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
    except OSError:
        return []
    return [str(entry[4][0]) for entry in found]


def _answers(url: str) -> bool:
    """Whether the web server works there; it says 503 until the database is there, too."""
    try:
        status = httpx.get(url, timeout=5, trust_env=False).status_code
    except httpx.HTTPError:
        return False
    return status < 500 or status == 503


def ray_variables() -> dict[str, str]:
    """What a process needs to speak to the embedded Ray."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(ray.token_path())}
