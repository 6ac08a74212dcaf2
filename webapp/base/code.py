"""Which code a process runs: a web server and a worker of different deployments do not quite understand each other."""

import hashlib
from functools import cache
from pathlib import Path

PACKAGES = ("observability", "scaling", "training", "webapp", "worker")
ROOT = Path(__file__).resolve().parents[2]


@cache
def code_version() -> str:
    """The digest (10 characters) of all modules that web server and worker share. Ask early: files may change later."""
    found = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:10]
