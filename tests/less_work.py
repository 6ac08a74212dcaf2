"""What tests do with less work than the product, and with the same outcome."""

import ssl
from functools import cache
from typing import Any

import certifi
from django.conf import settings
from django.contrib.auth.hashers import Argon2PasswordHasher
from django.db import connection
from whitenoise.middleware import WhiteNoiseMiddleware

from webapp.identity.accounts.models import Project, project_created
from webapp.identity.accounts.services import DEFAULT_PROJECT
from webapp.record.recipes.apps import with_shipped_recipes
from webapp.record.recipes.services import SHIPPED, shipped_slugs, sync_shipped_recipes

COPY_RECIPES = """
INSERT INTO recipes_recipe (project_id, slug, name, description, created_at)
SELECT %(project)s, recipe.slug, recipe.name, recipe.description, now()
FROM recipes_recipe AS recipe JOIN accounts_project AS project ON project.id = recipe.project_id
WHERE project.slug = %(of)s AND recipe.slug = ANY(%(slugs)s) ORDER BY recipe.id
"""
COPY_REVISIONS = """
INSERT INTO recipes_revision (recipe_id, number, config, content_hash, message, created_at)
SELECT new.id, 1, revision.config, revision.content_hash, revision.message, now()
FROM recipes_recipe AS new
JOIN recipes_recipe AS recipe ON recipe.slug = new.slug
JOIN accounts_project AS project ON project.id = recipe.project_id AND project.slug = %(of)s
JOIN recipes_revision AS revision ON revision.recipe_id = recipe.id AND revision.message = %(message)s
WHERE new.project_id = %(project)s ORDER BY new.id
"""
_scan = WhiteNoiseMiddleware.add_files_from_finders
_make_context = ssl.create_default_context
_found: dict[tuple[Any, ...], dict[str, Any]] = {}


def hash_quickly() -> None:
    """Passwords are hashed as ever, with as little work as the method allows."""
    Argon2PasswordHasher.time_cost = Argon2PasswordHasher.parallelism = 1
    Argon2PasswordHasher.memory_cost = 8


def _scan_once(self: WhiteNoiseMiddleware) -> None:
    key = (settings.STATIC_ROOT, settings.STATIC_URL, settings.DEBUG, repr(settings.STORAGES))
    if key not in _found:
        _scan(self)
        _found[key] = dict(self.files)
    self.files.update(_found[key])


def scan_assets_once() -> None:
    """Each test client begins the middleware anew, which looks through all assets."""
    WhiteNoiseMiddleware.add_files_from_finders = _scan_once


@cache
def _trusting() -> ssl.SSLContext:
    return _make_context(cafile=certifi.where())


def _context(*purpose: Any, **options: Any) -> ssl.SSLContext:
    trusts = not purpose and options == {"cafile": certifi.where()}
    return _trusting() if trusts else _make_context(*purpose, **options)


def read_certificates_once() -> None:
    """Each client of httpx reads all that are trusted, which takes longer than most of its requests."""
    ssl.create_default_context = _context


def _copied(project: Project) -> int:
    """The recipes of the default project as far as they are shipped; they are read from files where it has none."""
    slugs = sorted(shipped_slugs())
    shipped = {"project": project.pk, "slugs": slugs, "of": DEFAULT_PROJECT, "message": SHIPPED}
    with connection.cursor() as cursor:
        cursor.execute(COPY_RECIPES, shipped)
        is_whole = cursor.rowcount == len(slugs)
        if is_whole:
            cursor.execute(COPY_REVISIONS, shipped)
    return len(slugs) if is_whole else sync_shipped_recipes(project)


def _with_copied_recipes(project: Project, **_: Any) -> None:
    _copied(project)


def ship_by_copying() -> None:
    """A new project has the recipes that files hold. To copy their rows takes a tenth of the time."""
    project_created.disconnect(with_shipped_recipes)
    project_created.connect(_with_copied_recipes)
