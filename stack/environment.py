"""Where Headroom's parts are. A variable that is set means "use that"; unset means "the embedded one".

The supervisor (`stack.supervisor`) writes what it started to `HEADROOM_HOME/services.json`; every other process
(web, worker, management commands) reads it through this module. Standard library only.
"""

import json
import os
import secrets
import stat
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def home() -> Path:
    """The one folder that holds all state: `HEADROOM_HOME`, by default `var` beside `manage.py`."""
    return Path(os.environ.get("HEADROOM_HOME") or ROOT / "var").resolve()


def keep_private(folder: Path) -> None:
    """Make the folder of all state, where it is not there, and let its owner alone look into it; what this process and
    its children write from now on is for their owner alone, too.

    The embedded PostgreSQL of root belongs to another account, which must be let through; all beside it is closed.
    """
    os.umask(0o077)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    closed = 0o711 if os.geteuid() == 0 else 0o700
    for path, mode in (
        (folder, closed),
        *((each, 0o700) for each in folder.iterdir() if not each.is_symlink()),
    ):
        found = path.stat()
        if found.st_uid == os.geteuid():  # of a volume, the folder may be somebody else's
            path.chmod(stat.S_IMODE(found.st_mode) & mode)


@dataclass(frozen=True)
class Services:
    """Addresses of the running parts; None where nothing is known (not started and no variable set)."""

    database_url: str | None = None
    redis_url: str | None = None
    ray_address: str | None = None  # of the Ray dashboard / Jobs API, e.g. http://127.0.0.1:8265
    web_url: str | None = None  # as seen from the cluster's nodes

    def save(self, folder: Path) -> None:
        """Write atomically to `folder/services.json`, readable by its owner only (it holds passwords)."""
        target = folder / "services.json"
        partial = target.with_suffix(".partial")
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(asdict(self), file, indent=1)
        partial.replace(target)


def services() -> Services:
    """The services in force: environment variables first, then what the supervisor last started."""
    path = home() / "services.json"
    saved = json.loads(path.read_text()) if path.exists() else {}
    given = {name: url for name, url in asdict(services_given()).items() if url}
    return Services(**({name: saved.get(name) for name in asdict(Services())} | given))


def services_given() -> Services:
    """Those that environment variables name."""
    return Services(
        database_url=os.environ.get("DATABASE_URL") or None,
        redis_url=os.environ.get("REDIS_URL") or None,
        ray_address=os.environ.get("RAY_ADDRESS") or None,
        web_url=os.environ.get("HEADROOM_URL") or None,
    )


class HomeError(RuntimeError):
    """HEADROOM_HOME cannot be used; the message says why."""


def secret(name: str) -> str:
    """A secret of this installation, made on first use and kept in `HEADROOM_HOME/secrets/NAME`. Raises HomeError."""
    path = home() / "secrets" / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise HomeError(f"{home()} cannot be used: {error.strerror}") from error
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(48))
    except FileExistsError:
        pass
    return path.read_text().strip()
