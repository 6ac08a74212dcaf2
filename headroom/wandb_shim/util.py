"""What scripts use of `wandb.util`."""

import importlib
import re
import secrets
from string import ascii_lowercase, digits
from typing import Any

from headroom.wandb_shim.errors import UsageError


def generate_id(length: int = 8) -> str:
    return "".join(secrets.choice(ascii_lowercase + digits) for _ in range(length))


def make_artifact_name_safe(name: str) -> str:
    """At most 128 letters, digits and - _ . of it."""
    return re.sub(r"[^a-zA-Z0-9_\-.]", "_", name)[:128]


def get_module(name: str, required: str | bool | None = None, lazy: bool = True) -> Any:
    """The module; None where it is not installed. Raises UsageError where it is `required`."""
    try:
        return importlib.import_module(name)
    except ImportError:
        if required:
            raise UsageError(required if isinstance(required, str) else f"{name} is required") from None
        return None
