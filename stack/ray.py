"""The embedded Ray cluster: one head node with dashboard and Jobs API on loopback, behind a token."""

import hashlib
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import httpx

from stack import environment
from stack.ports import free_ports

OBJECT_STORE_BYTES = 512 * 1024 * 1024
# Between SIGTERM and SIGKILL of a stopped job: Ray's own 3 s are too short to write a checkpoint.
JOB_STOP_SECONDS = 30
# Generator and trainer take one core each; on a single core they share it.
MIN_CPUS = 2
RAY_PROGRAM = Path(sys.executable).with_name("ray")


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
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token_path()),
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
    try:
        response = httpx.get(f"{address}/api/jobs/", headers=headers, timeout=5, trust_env=False)
    except httpx.HTTPError:
        return False
    return response.status_code == 200
