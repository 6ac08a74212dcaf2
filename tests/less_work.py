"""What tests do with less work than the product, and with the same outcome."""

from typing import Any

from django.conf import settings
from django.contrib.auth.hashers import Argon2PasswordHasher
from whitenoise.middleware import WhiteNoiseMiddleware

_scan = WhiteNoiseMiddleware.add_files_from_finders
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
