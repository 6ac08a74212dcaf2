"""Small files that are read as far as they can be, and written whole or not at all."""

import json
from pathlib import Path
from typing import Any


def read_json(path: Path) -> dict[str, Any]:
    """The object in the file; empty where there is none."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def replace_file(path: Path, content: str | bytes) -> None:
    """Write it beside its place, then move it there."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(content.encode() if isinstance(content, str) else content)
    partial.replace(path)
