"""The wheel as `make wheel` builds it, and environments into which nothing else was installed than what it asks for.

Each is made once a process: tests/deploy takes the same.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from stack.environment import ROOT

UV = str(Path(sys.executable).with_name("uv"))
OURS = ("HEADROOM_", "DJANGO_", "PYTHON", "DATABASE_URL", "REDIS_URL", "RAY_")


def run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Outside the checkout and without its variables; `folder` is where it runs, and its home."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return subprocess.run(
        command,
        cwd=folder,
        env=kept | {"HOME": str(folder)} | variables,
        capture_output=True,
        text=True,
        timeout=120,
    )


@dataclass(frozen=True)
class Environment:
    """A virtual environment. `folder`: an empty one to work in."""

    root: Path
    folder: Path

    def program(self, name: str) -> str:
        return str(self.root / "bin" / name)

    def run(self, name: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return run([self.program(name), *arguments], self.folder, **variables)

    def says(self, name: str, *arguments: str, **variables: str) -> str:
        """What a program prints that must succeed."""
        done = self.run(name, *arguments, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@cache
def built_wheel(base: Path) -> Path:
    folder = base / "wheel"
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(folder), str(ROOT)], check=True, timeout=120)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.getbasetemp())


@cache
def installed(extra: str, base: Path) -> Environment:
    """The wheel with an extra (or none) and what it asks for, at the locked versions, in a new environment."""
    folder = base / f"installed{extra.strip('[]')}"
    made = Environment(folder / "environment", folder / "work")
    made.folder.mkdir(parents=True)
    wanted = f"headroom{extra} @ {built_wheel(base).as_uri()}"
    lock = str(ROOT / "requirements.lock")
    subprocess.run(
        [UV, "venv", "--quiet", "--python", sys.executable, str(made.root)], check=True, timeout=60
    )
    install = [
        UV,
        "pip",
        "install",
        "--quiet",
        "--python",
        made.program("python"),
        "--constraints",
        lock,
        wanted,
    ]
    subprocess.run(install, check=True, timeout=240)
    return made


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return installed("", tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return installed("[server]", tmp_path_factory.getbasetemp())
