import os
import stat
from pathlib import Path

import pytest

from stack import environment
from stack.environment import Services


@pytest.fixture(autouse=True)
def own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADROOM_HOME", str(tmp_path))
    for name in ("DATABASE_URL", "REDIS_URL", "RAY_ADDRESS", "HEADROOM_URL"):
        monkeypatch.delenv(name, raising=False)


def test_nothing_is_known_before_anything_was_started() -> None:
    assert environment.services() == Services()


def test_variables_win_over_what_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Services("postgresql://started", "redis://started", "http://ray", "http://web").save(tmp_path)
    monkeypatch.setenv("REDIS_URL", "redis://given")

    assert environment.services() == Services(
        "postgresql://started", "redis://given", "http://ray", "http://web"
    )


def test_files_with_passwords_are_the_owners_only(tmp_path: Path) -> None:
    Services(redis_url="redis://:secret@x").save(tmp_path)
    environment.secret("key")

    for path in (tmp_path / "services.json", tmp_path / "secrets" / "key"):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_secret_stays_the_same() -> None:
    assert environment.secret("key") == environment.secret("key") != environment.secret("other")


def test_a_home_is_for_its_owner_alone_also_what_was_there_before(tmp_path):
    before = os.umask(0o022)
    try:
        home = tmp_path / "home"
        (home / "logs").mkdir(parents=True)
        (home / "logs" / "web.log").write_text("old")
        (home / "notes").write_text("old")
        environment.keep_private(home)
        (home / "new").write_text("new")
        (home / "imports").mkdir()
        modes = {path.name: path.stat().st_mode & 0o777 for path in (home, *home.iterdir())}
    finally:
        os.umask(before)

    assert modes.pop("home") == (0o711 if os.geteuid() == 0 else 0o700)
    assert all(mode & 0o077 == 0 for mode in modes.values()), modes
