"""The folder that benchmarks of pages share: an embedded PostgreSQL with made data in it, kept for the next time."""

import os
import shutil
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROJECT = "made"
USER = "bench"
RUNS, POINTS = 500, 2_000_000
COUNTED_UP_TO = 10_000_000


def add_options(parser: ArgumentParser) -> None:
    """Options of every benchmark on made data."""
    parser.add_argument("--home", type=Path, help="folder that keeps the data (default: a temporary one)")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"made where the folder has none ({RUNS:,})")
    parser.add_argument(
        "--points", type=int, default=POINTS, help=f"of all their series together ({POINTS:,})"
    )


@contextmanager
def made_home(options: Namespace) -> Iterator[Path]:
    """`bare_home` with the made project; the data are made once."""
    with bare_home(options.home) as folder:
        _make_data(options.runs, options.points)
        yield folder


@contextmanager
def bare_home(home: Path | None = None) -> Iterator[Path]:
    """Django set up on the folder (default: a temporary one), migrated, with assets and an account that may do all."""
    folder = (home or Path(tempfile.mkdtemp(prefix="headroom-bench-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ |= {"HEADROOM_HOME": str(folder), "DJANGO_SETTINGS_MODULE": "webapp.settings"}
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.pop("REDIS_URL", None)
    from stack.postgres import start_postgres

    postgres = start_postgres(folder / "postgres")
    os.environ["DATABASE_URL"] = postgres.url
    try:
        _prepare()
        yield folder
    finally:
        postgres.stop()
        if home is None:
            shutil.rmtree(folder, ignore_errors=True)


def _prepare() -> None:
    import logging

    import django

    django.setup()
    logging.disable(logging.WARNING)
    from django.contrib.auth import get_user_model
    from django.core.management import call_command

    from webapp.identity.accounts.models import Role
    from webapp.identity.accounts.services import default_project, set_role
    from webapp.interfaces.assets import collect_assets

    call_command("migrate", verbosity=0)
    collect_assets()
    user, _ = get_user_model().objects.get_or_create(username=USER)
    set_role(default_project(), user, Role.ADMIN)


def _make_data(runs: int, points: int) -> None:
    from django.contrib.auth import get_user_model
    from django.core.management import call_command

    from benchmarks.made.command import Command as MakeData
    from webapp.identity.accounts.models import Project, Role
    from webapp.identity.accounts.services import set_role
    from webapp.record.runs.models import Run

    if not Run.objects.filter(project__slug=PROJECT).exists():
        call_command(MakeData(), runs=runs, points=points, project=PROJECT)
    user = get_user_model().objects.get(username=USER)
    set_role(Project.objects.get(slug=PROJECT), user, Role.ADMIN)


def session_key(project: str = PROJECT) -> str:
    """A session of the account, in the project."""
    from django.contrib.auth import get_user_model
    from django.test import Client

    client = Client()
    client.force_login(get_user_model().objects.get(username=USER))
    session = client.session
    session["project"] = project
    session.save()
    return client.cookies["sessionid"].value


def sizes() -> dict[str, int]:
    """Rows and bytes of what was made; of a large table the rows as PostgreSQL last estimated them."""
    from django.db import connection

    from webapp.record.runs.models import Run

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT reltuples::bigint, pg_total_relation_size(oid) FROM pg_class WHERE relname = 'runs_point'"
        )
        points, point_bytes = cursor.fetchone()
        if points < COUNTED_UP_TO:  # counting 100 million takes a minute
            cursor.execute("SELECT count(*) FROM runs_point")
            (points,) = cursor.fetchone()
        cursor.execute("SELECT pg_database_size(current_database())")
        (database_bytes,) = cursor.fetchone()
    return {
        "runs": Run.objects.filter(project__slug=PROJECT).count(),
        "points": points,
        "point_bytes": point_bytes,
        "database_bytes": database_bytes,
    }
