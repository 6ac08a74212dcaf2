"""Whether the database's tables are those that this code works with."""

from collections.abc import Iterable

from django.db import connections
from django.db.migrations.loader import MigrationLoader

MOST_NAMED = 3


def missing_migrations() -> list[str]:
    """`app.name` of what this code has and the database has not, sorted: the database is older than the code."""
    loader = MigrationLoader(connections["default"])
    return sorted(".".join(key) for key in loader.disk_migrations.keys() - loader.applied_migrations.keys())


def unknown_migrations() -> list[str]:
    """`app.name` of what was applied and is not here, sorted: a newer Headroom has been at work on this database."""
    loader = MigrationLoader(connections["default"], ignore_no_migrations=True)
    return _unknown(loader, set(loader.applied_migrations))


def unknown_of(names: Iterable[str]) -> list[str]:
    """Those of `app.name` that this code does not know, sorted; no database is asked."""
    applied = {(app, name) for app, _, name in (each.partition(".") for each in names)}
    return _unknown(MigrationLoader(None, ignore_no_migrations=True), applied)


def lacking_of(names: Iterable[str]) -> list[str]:
    """Those that this code has and `app.name`s have not, sorted; no database is asked."""
    applied = set(names)
    return sorted({".".join(key) for key in MigrationLoader(None).disk_migrations} - applied)


def _unknown(loader: MigrationLoader, applied: set[tuple[str, str]]) -> list[str]:
    gone = {key for migration in loader.disk_migrations.values() for key in migration.replaces}
    known = loader.disk_migrations.keys() | gone
    return sorted(".".join(key) for key in applied - known if _is_ours(key[0], known))


def _is_ours(app: str, known: set[tuple[str, str]]) -> bool:
    """An app that was taken out of INSTALLED_APPS leaves its rows; they say nothing of the version."""
    return any(label == app for label, _ in known)


def old_words(missing: list[str]) -> str:
    return (
        f"The database is older than this code: it lacks {named(missing)}. Run `python manage.py prepare_stack`, "
        "after a backup."
    )


def new_words(unknown: list[str]) -> str:
    return (
        f"The database was written by a newer Headroom: it has {named(unknown)}, unknown here. Install that version, "
        "or restore a backup that this one made."
    )


def named(migrations: list[str]) -> str:
    """ "2 migrations (runs.0011_…, runs.0012_…)"."""
    noun = "migration" if len(migrations) == 1 else "migrations"
    named = ", ".join(migrations[:MOST_NAMED]) + (", …" if len(migrations) > MOST_NAMED else "")
    return f"{len(migrations)} {noun} ({named})"
