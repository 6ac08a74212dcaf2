"""Whether parts that somebody else runs can be used: one sentence each on what is wrong and how to mend it.

The supervisor asks before it starts anything, `manage.py doctor` whenever a person does. No answer holds a password.
"""

import os
import shutil
import ssl
import tempfile
import time
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from stack import environment

CONNECT_SECONDS = 5
MIN_POSTGRES = 14  # what Django 5.2 needs
MIN_REDIS = (6, 2)
MAX_CLOCK_SECONDS = 5.0


def home_problem(folder: Path, least_bytes: float) -> str | None:
    """HEADROOM_HOME must take files, and have room for what starts."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return (
            f"{folder} cannot be written: {error.strerror}. Give it to the account that runs Headroom, or name another "
            "folder with HEADROOM_HOME."
        )
    if free < least_bytes:
        return (
            f"The disk of {folder} has {free / 1e9:.2f} GB left of the {least_bytes / 1e9:.2f} GB that must stay free: "
            "make room there."
        )
    return None


def database_problem(url: str) -> str | None:
    """PostgreSQL must answer, be new enough, take tables, and agree on the time."""
    import psycopg

    where = _place(url)
    try:
        with psycopg.connect(
            url, connect_timeout=CONNECT_SECONDS, autocommit=True, client_encoding="utf8"
        ) as connection:
            began = time.time()
            row = connection.execute(
                "SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), "
                "has_schema_privilege(current_user, coalesce(current_schema(), 'public'), 'CREATE'), "
                "current_setting('server_encoding'), extract(epoch FROM clock_timestamp())::float8"
            ).fetchone()
            here = (began + time.time()) / 2
    except (psycopg.Error, ValueError) as error:
        reason = _first_line(error).removeprefix("connection failed: ")
        return f"The database {where} does not answer: {reason}. Check DATABASE_URL and that PostgreSQL runs there."
    assert row is not None
    version, is_replica, may_create, encoding, there = row
    if version < MIN_POSTGRES * 10_000:
        return (
            f"The database {where} is PostgreSQL {version // 10_000}; Headroom needs {MIN_POSTGRES} or newer."
        )
    if is_replica:
        return f"The database {where} is a replica that takes no writes: name the primary server in DATABASE_URL."
    if encoding != "UTF8":
        return f"The database {where} has the encoding {encoding}: make one with ENCODING 'UTF8'."
    if not may_create:
        return f"The account of DATABASE_URL may not make tables in {where}: GRANT CREATE ON SCHEMA public TO it."
    if abs(here - there) > MAX_CLOCK_SECONDS:
        return (
            f"This machine's clock and that of the database {where} differ by {abs(here - there):.0f} s: tokens and "
            "claims would have wrong times. Let both follow a time server."
        )
    return None


def broker_problem(url: str) -> str | None:
    """Redis or Valkey must answer, be new enough, and take writes."""
    import redis

    where = _place(url)
    try:
        with redis.Redis.from_url(
            url, socket_connect_timeout=CONNECT_SECONDS, socket_timeout=CONNECT_SECONDS
        ) as client:
            info = client.info()
    except (redis.RedisError, OSError, ValueError) as error:
        return f"The broker {where} does not answer: {_first_line(error)}. Check REDIS_URL and that Redis runs there."
    version = tuple(int(part) for part in str(info["redis_version"]).split(".")[:2])
    if version < MIN_REDIS:
        needed = ".".join(map(str, MIN_REDIS))
        return f"The broker {where} is Redis {info['redis_version']}; Headroom needs {needed} or newer."
    if info.get("role") == "slave" and info.get("slave_read_only") != 0:
        return f"The broker {where} is a replica that takes no writes: name the primary server in REDIS_URL."
    return None


def cluster_problem(address: str) -> str | None:
    """Ray's dashboard must answer, take our token, and be of our version: a driver of another one cannot join."""
    from importlib.metadata import version

    import httpx

    where = _place(address)
    try:
        response = httpx.get(
            f"{address.rstrip('/')}/api/version",
            headers=ray_headers(),
            timeout=CONNECT_SECONDS,
            verify=trusted(),
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = _first_line(error) or type(error).__name__
        return f"Ray's dashboard {where} does not answer: {reason}. Check RAY_ADDRESS and that the head node runs."
    if response.status_code in (401, 403):
        return (
            f"Ray at {where} does not take the token: set RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH to its file."
        )
    try:
        theirs = str(response.json()["ray_version"])
    except (ValueError, KeyError, TypeError):
        said = f"HTTP {response.status_code}"
        return (
            f"What answers at {where} is no Ray dashboard ({said}): RAY_ADDRESS names its port, usually 8265."
        )
    ours = version("ray")
    if theirs != ours:
        return f"Ray at {where} is {theirs}, here it is {ours}: jobs need the same version on both sides."
    return None


def ray_token() -> str | None:
    """As Ray's own clients find it: RAY_AUTH_TOKEN, the file of RAY_AUTH_TOKEN_PATH, ~/.ray/auth_token. Where no
    cluster is named, that of the embedded one comes before the last."""
    if token := os.environ.get("RAY_AUTH_TOKEN"):
        return token.strip()
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    places = [Path(named).expanduser()] if named else [Path.home() / ".ray" / "auth_token"]
    if not named and not os.environ.get("RAY_ADDRESS"):
        places.insert(0, environment.home() / "secrets" / "ray_token")
    return next((path.read_text().strip() for path in places if path.is_file()), None)


@cache
def trusted() -> ssl.SSLContext:
    """Whose certificates are believed. Read once a process: it takes 20 ms, also of a call that is not encrypted."""
    import httpx

    return httpx.create_ssl_context()


def ray_headers() -> dict[str, str]:
    """What a request to Ray's dashboard carries."""
    token = ray_token()
    return {"Authorization": f"Bearer {token}"} if token else {}


def _place(url: str) -> str:
    """Where it is, without account and password."""
    parts = urlsplit(url)
    if parts.scheme == "unix" or not parts.hostname:
        return f"at {parts.path}" if parts.path else "of the address given"
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.hostname}{port}{parts.path.rstrip('/')}"


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else ""
