"""Against real servers that are right and wrong in one thing each."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from pathlib import Path

import psycopg
import pytest

from stack import environment, outside
from stack.parts import redis_answers, redis_command, redis_url
from stack.ports import free_port
from tests.databases import database_url, dropped
from tests.waiting import wait_until


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database made as the parameter says; its URL."""
    name = f"outside_{os.getpid()}"
    with psycopg.connect(database_url("postgres"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name}")
        connection.execute(f"CREATE DATABASE {name} {getattr(request, 'param', '')}")
    with dropped(name) as [url]:
        yield url


def test_a_database_that_can_be_used(database: str) -> None:
    assert outside.database_problem(database) is None


@pytest.mark.parametrize("database", ["ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"], indirect=True)
def test_a_database_of_another_encoding(database: str) -> None:
    assert "has the encoding SQL_ASCII: make one with ENCODING 'UTF8'." in str(
        outside.database_problem(database)
    )


def test_a_database_that_is_not_there_is_named_without_the_password() -> None:
    said = outside.database_problem(f"postgresql://somebody:geheim@127.0.0.1:{free_port()}/runs")
    assert said is not None
    assert "/runs does not answer: " in said and "Check DATABASE_URL" in said
    assert "geheim" not in said and "somebody" not in said


def test_an_account_that_may_not_make_tables(database: str) -> None:
    role = f"reader_{os.getpid()}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        try:
            join = "&" if "?" in database else "?"
            said = outside.database_problem(f"{database}{join}options=-c%20role%3D{role}")
        finally:
            connection.execute(f"DROP ROLE {role}")
    assert "may not make tables" in str(said)


def test_a_clock_that_is_off(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = outside.time.time
    monkeypatch.setattr(outside.time, "time", lambda: real() + 93)
    assert "differ by 93 s" in str(outside.database_problem(database))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[int]:
    port = free_port()
    with subprocess.Popen(redis_command(tmp_path, port), stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: redis_answers(redis_url(port)))
        yield port
        process.terminate()


def test_a_broker(broker: int) -> None:
    url = redis_url(broker)
    assert outside.broker_problem(url) is None

    wrong = outside.broker_problem(f"redis://:falsch@127.0.0.1:{broker}/0")
    assert f"The broker 127.0.0.1:{broker}/0 does not answer: " in str(wrong) and "falsch" not in str(wrong)
    assert "Check REDIS_URL" in str(outside.broker_problem(f"redis://127.0.0.1:{free_port()}/0"))


def test_a_broker_that_only_repeats_another(broker: int) -> None:
    import redis

    with redis.Redis.from_url(redis_url(broker)) as client:
        client.replicaof("127.0.0.1", str(free_port()))
    assert "is a replica that takes no writes" in str(outside.broker_problem(redis_url(broker)))


@pytest.fixture
def dashboard() -> Iterator[tuple[str, dict[str, object]]]:
    """What answers like Ray's dashboard; `status` and `body` can be changed."""
    answer: dict[str, object] = {"status": 200, "body": {"ray_version": version("ray")}}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer["asked"] = self.headers.get("Authorization")
            body = json.dumps(answer["body"]).encode()
            self.send_response(int(str(answer["status"])))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", answer
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_cluster(dashboard: tuple[str, dict[str, object]], monkeypatch: pytest.MonkeyPatch) -> None:
    address, answer = dashboard
    monkeypatch.setenv("RAY_AUTH_TOKEN", "the-token")
    assert outside.cluster_problem(address) is None
    assert answer["asked"] == "Bearer the-token"

    answer["body"] = {"ray_version": "2.9.0"}
    assert "is 2.9.0, here it is" in str(outside.cluster_problem(address))
    answer["status"] = 403
    assert "does not take the token: set RAY_AUTH_TOKEN" in str(outside.cluster_problem(address))
    answer |= {"status": 200, "body": {"hello": "world"}}
    assert "is no Ray dashboard (HTTP 200)" in str(outside.cluster_problem(address))
    assert "Check RAY_ADDRESS" in str(outside.cluster_problem(f"http://127.0.0.1:{free_port()}"))


def test_the_embedded_cluster_is_asked_with_the_token_of_the_installation(
    dashboard: tuple[str, dict[str, object]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    address, answer = dashboard
    monkeypatch.setenv("HEADROOM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    own = environment.secret("ray_token")

    assert outside.cluster_problem(address) is None and answer["asked"] == f"Bearer {own}"
    monkeypatch.setenv("RAY_ADDRESS", address)
    assert (
        outside.cluster_problem(address) is None and answer["asked"] is None
    )  # it is nobody else's business


def test_a_folder(tmp_path: Path) -> None:
    assert outside.home_problem(tmp_path / "new", 1) is None
    assert "GB that must stay free: make room" in str(outside.home_problem(tmp_path, 1e18))

    (tmp_path / "file").write_text("")
    assert "cannot be written: " in str(outside.home_problem(tmp_path / "file" / "home", 1))
