"""The commands and health checks of docker-compose.yml, run outside of any container: same programs, same variables.

What differs from an engine: the addresses (loopback, free ports), the folder, and who runs them.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from stack import parts
from stack.environment import ROOT
from stack.ports import free_port
from stack.postgres import start_postgres
from tests.deploy import compose
from tests.packaging.conftest import OURS, Environment
from tests.waiting import wait_until

pytestmark = [pytest.mark.deep, pytest.mark.stack, pytest.mark.timeout(420)]
START_SECONDS, STOP_SECONDS = 120, 30


@dataclass
class Site:
    """Where the containers would be. `places`: what a service's name and port are here."""

    server: Environment
    home: Path
    web_port: int
    places: dict[str, str]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def here(self, text: str) -> str:
        for there, place in self.places.items():
            text = text.replace(there, place)
        return text

    def command(self, words: list[str]) -> list[str]:
        program, *rest = [self.here(word) for word in words]
        return [self.server.program(program), *rest]

    def variables(self, name: str) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
        ours = compose.services()[name].get("environment", {})
        return kept | {key: self.here(str(value)) for key, value in ours.items()}

    def start(self, name: str) -> None:
        with (self.home / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(
                self.command(compose.services()[name]["command"]),
                cwd=self.home,
                env=self.variables(name),
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def is_healthy(self, name: str) -> bool:
        assert self.running[name].poll() is None, (self.home / f"{name}.log").read_text()[-3000:]
        kind, *check = compose.services()[name]["healthcheck"]["test"]
        assert kind == "CMD"
        return subprocess.run(self.command(check), capture_output=True, timeout=30).returncode == 0

    def stop(self) -> dict[str, int]:
        for process in self.running.values():
            process.terminate()
        return {name: process.wait(STOP_SECONDS) for name, process in self.running.items()}


@pytest.fixture(scope="module")
def site(server: Environment) -> Iterator[Site]:
    home = Path(tempfile.mkdtemp(prefix="headroom-site-"))
    database = start_postgres(home / "postgres")
    port, broker_port, metrics_port = free_port(), free_port(), free_port()
    broker = subprocess.Popen(parts.redis_command(home / "redis", broker_port), stdout=subprocess.DEVNULL)
    url = parts.redis_url(broker_port)
    secrets = compose.env_file()
    made = Site(
        server,
        home,
        port,
        {
            f"postgresql://headroom:{secrets['POSTGRES_PASSWORD']}@postgres:5432/headroom": database.url,
            f"redis://:{secrets['REDIS_PASSWORD']}@redis:6379/0": url,
            "http://ray-head:8265": f"http://127.0.0.1:{free_port()}",  # nobody is there
            "http://web:8000": f"http://127.0.0.1:{port}",
            "http://127.0.0.1:8000": f"http://127.0.0.1:{port}",
            "0.0.0.0": "127.0.0.1",
            "8000": str(port),
            "9101": str(metrics_port),
            "/var/lib/headroom": str(home / "home"),
            "/tmp/ready": str(home / "ready"),
            "/opt/health.py": str(ROOT / "deploy" / "docker" / "health.py"),
        },
    )
    try:
        wait_until(lambda: parts.redis_answers(url), 20, "the broker")
        yield made
    finally:
        made.stop()
        broker.terminate()
        broker.wait(STOP_SECONDS)
        database.stop()
        shutil.rmtree(home, ignore_errors=True)


def test_all_parts_come_up_as_compose_starts_them(site: Site) -> None:
    prepared = subprocess.run(
        site.command(compose.services()["prepare"]["command"]),
        env=site.variables("prepare"),
        cwd=site.home,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert prepared.returncode == 0, prepared.stderr
    assert json.loads(prepared.stdout.splitlines()[-1])["password"]

    for name in ("web", "worker", "beat"):
        site.start(name)
        wait_until(lambda name=name: site.is_healthy(name), START_SECONDS, f"the health check of {name}")

    base = f"http://127.0.0.1:{site.web_port}"
    said = httpx.get(f"{base}/healthz").json()
    assert [said[part] for part in ("database", "broker", "worker", "beat")] == ["ok"] * 4
    assert said["ray"] != "ok"

    by_name = {"Host": compose.HOST}
    plain = httpx.get(f"{base}/sign-in", headers=by_name)
    assert (plain.status_code, plain.headers["Location"]) == (301, f"https://{compose.HOST}/sign-in")
    page = httpx.get(f"{base}/sign-in", headers=by_name | {"X-Forwarded-Proto": "https"})
    assert page.status_code == 200 and "max-age=31536000" in page.headers["Strict-Transport-Security"]
    (style, *_) = re.findall(r'href="(/static/[^"]+\.css)"', page.text)
    assert httpx.get(base + style, headers=by_name | {"X-Forwarded-Proto": "https"}).status_code == 200
    assert httpx.get(f"{base}/sign-in", headers={"Host": "elsewhere.example"}).status_code == 400

    assert set(site.stop().values()) == {0}
