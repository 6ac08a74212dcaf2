"""A backup and its restore into another database of the same real server, and every file that must be refused."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from stack.environment import ROOT
from tests.databases import create, create_migrated, database_url, dropped
from tests.running_stack import stack_environment
from webapp.operation.backups import BackupError, back_up, restore

SETUP = """
import django
django.setup()
"""
ASK = """
import json
from webapp.identity.accounts.models import Project
from webapp.record.runs.models import Point, Record, Run
from webapp.identity.secrets.services import hand_to_job
project = Project.objects.get(slug="lab")
print(json.dumps([Run.objects.count(), Record.objects.count(), Point.objects.count(), hand_to_job(project)]))
"""
FILL = """
from django.core.management import call_command
call_command("prepare_stack")
from benchmarks.made.command import Command as MakeData
call_command(MakeData(), runs=6, points=6000, project="lab", processes=1, seed=1)
from webapp.identity.accounts.models import Project, User
from webapp.identity.secrets.services import set_secret
set_secret(Project.objects.get(slug="lab"), name="HF_TOKEN", value="hf_of_the_lab_1234", user=User.objects.first())
"""


def run(home: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command of an installation whose stack does not run."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=stack_environment(home) | {"DJANGO_SETTINGS_MODULE": "webapp.settings"} | variables,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def databases(django_db_setup, django_db_blocker):
    """Addresses of a migrated one, which `installation` fills, and three empty ones."""
    first, *others = names = [f"backup_{os.getpid()}_{i}" for i in range(4)]
    with django_db_blocker.unblock():
        create_migrated(first)
    for name in others:
        create(name)
    with dropped(*names) as addresses:
        yield addresses


@pytest.fixture(scope="module")
def installation(databases, tmp_path_factory):
    """A folder whose database has runs and a secret, its backup, and what is told of it."""
    home = tmp_path_factory.mktemp("installation")
    here = {"DATABASE_URL": databases[0]}
    said = told(home, databases[0], FILL)
    file = home / "lab.backup"
    made = run(home, "manage.py", "backup", str(file), **here)
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith(f"{file}: 0.")
    return home, file, said


def told(home: Path, url: str, first: str = "") -> list:
    asked = run(home, "-c", SETUP + first + ASK, DATABASE_URL=url)
    assert asked.returncode == 0, asked.stderr
    return json.loads(asked.stdout.splitlines()[-1])


def test_everything_is_there_again_in_another_installation(installation, databases, tmp_path):
    home, file, before = installation
    (tmp_path / "secrets").mkdir()
    shutil.copy(home / "secrets" / "django_key", tmp_path / "secrets")

    restored = run(tmp_path, "manage.py", "restore", str(file), DATABASE_URL=databases[1])

    assert restored.returncode == 0, restored.stderr
    assert "the key here is another" not in restored.stdout
    after = told(tmp_path, databases[1])
    assert before == after and before[2] > 1000
    assert after[3] == {"HF_TOKEN": "hf_of_the_lab_1234"}


def test_without_the_key_a_restore_says_what_cannot_be_opened(installation, databases, tmp_path):
    _, file, _ = installation
    restored = run(tmp_path / "other", "manage.py", "restore", str(file), DATABASE_URL=databases[2])
    assert restored.returncode == 0, restored.stderr
    assert "Set HEADROOM_SECRET_KEY to the key of then." in restored.stdout


def test_the_file_is_its_owners(installation):
    _, file, _ = installation
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_database_with_tables_is_left_alone(installation, databases, tmp_path):
    _, file, _ = installation
    refused = run(tmp_path, "manage.py", "restore", str(file), DATABASE_URL=databases[0])

    assert refused.returncode == 1
    assert "a backup goes into an empty one" in refused.stderr and "Traceback" not in refused.stderr


def test_files_that_are_no_whole_backup_are_refused(installation, databases, tmp_path):
    _, file, _ = installation
    whole = file.read_bytes()
    cases = {
        "missing": (None, "is no whole backup of Headroom"),
        "text": (b"hello", "is no whole backup of Headroom"),
        "cut": (whole[: len(whole) // 2], "is no whole backup of Headroom"),
        "changed": (whole[:-20_000] + b"x" * 10_000 + whole[-10_000:], "is no whole backup of Headroom"),
    }
    for name, (content, words) in cases.items():
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(BackupError, match=words):
            restore(path, databases[3])
        with psycopg.connect(databases[3]) as connection:
            tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
            assert connection.execute(tables).fetchone() == (0,), name


@pytest.mark.usefixtures("installation")
def test_a_backup_of_a_newer_version_is_refused(databases, tmp_path):
    newer = "INSERT INTO django_migrations (app, name, applied) VALUES ('runs', '0999_of_the_future', now())"
    with psycopg.connect(databases[0]) as connection:
        connection.execute(newer)
    back_up(tmp_path / "newer", databases[0])
    with psycopg.connect(databases[0]) as connection:
        connection.execute("DELETE FROM django_migrations WHERE name = '0999_of_the_future'")

    with pytest.raises(BackupError, match=r"The backup was written by a newer Headroom.*runs\.0999"):
        restore(tmp_path / "newer", databases[3])


def test_a_dump_that_fails_leaves_no_file(db, tmp_path):
    with pytest.raises(BackupError, match="pg_dump failed: "):
        back_up(tmp_path / "file", database_url("not_there"))
    with pytest.raises(BackupError, match="cannot be written: No such file"):
        back_up(tmp_path / "no" / "file", database_url("not_there"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.deep
def test_an_embedded_database_is_started_for_a_restore(installation, tmp_path):
    _, file, _ = installation
    restored = run(tmp_path, "manage.py", "restore", str(file))
    assert restored.returncode == 0, restored.stderr

    again = run(tmp_path, "manage.py", "backup", str(tmp_path / "again"))
    assert again.returncode == 0, again.stderr
    refused = run(tmp_path, "manage.py", "restore", str(file))
    assert refused.returncode == 1 and "a backup goes into an empty one" in refused.stderr
