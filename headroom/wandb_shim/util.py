"""What scripts use of `wandb.util`."""

import importlib
import json
import re
import secrets
from string import ascii_lowercase, digits
from typing import Any

from headroom.wandb_shim.errors import UsageError


def generate_id(length: int = 8) -> str:
    return "".join(secrets.choice(ascii_lowercase + digits) for _ in range(length))


random_string = generate_id


def make_artifact_name_safe(name: str) -> str:
    """At most 128 letters, digits and - _ . of it."""
    return re.sub(r"[^a-zA-Z0-9_\-.]", "_", name)[:128]


def json_friendly(obj: Any) -> tuple[Any, bool]:
    """(what can be written as JSON, whether that is something else)."""
    for turn in ("tolist", "item", "isoformat"):
        if callable(found := getattr(obj, turn, None)):
            return found(), True
    return obj, False


def json_dumps_safer(obj: Any, **others: Any) -> str:
    return json.dumps(obj, default=lambda each: json_friendly(each)[0], **others)


def to_human_size(size: float, units: Any = None) -> str:
    """1234 is "1.2KB"."""
    for unit in ("B", "KB", "MB", "GB"):
        if abs(size) < 1000:
            return f"{size:.1f}{unit}"
        size /= 1000
    return f"{size:.1f}TB"


def get_module(name: str, required: str | bool | None = None, lazy: bool = True) -> Any:
    """The module; None where it is not installed. Raises UsageError where it is `required`."""
    try:
        return importlib.import_module(name)
    except ImportError:
        if required:
            raise UsageError(required if isinstance(required, str) else f"{name} is required") from None
        return None


def is_numpy_array(obj: Any) -> bool:
    numpy = get_module("numpy")
    return numpy is not None and isinstance(obj, numpy.ndarray)


def is_pandas_data_frame(obj: Any) -> bool:
    return hasattr(obj, "itertuples")


def is_pytorch_tensor(obj: Any) -> bool:
    return type(obj).__module__.startswith("torch") and hasattr(obj, "detach")
