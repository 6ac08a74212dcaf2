"""Where a recipe that is launched from here may read: data inside HEADROOM_HOME/data only.

Whoever works on the command line reads what they may read anyway; a launch runs as the installation, whose home holds
passwords and tokens.
"""

import posixpath
from collections.abc import Mapping
from typing import Any

PATH_OPTIONS = ("path", "held_out_path")


def outside_data(options: Mapping[str, Any]) -> str | None:
    """The first option of a task whose path leads out of HEADROOM_HOME/data; None where there is none."""
    return next((name for name in PATH_OPTIONS if _leads_out(options.get(name))), None)


def words_on(option: str) -> str:
    """What is wrong with this option."""
    return f"option {option} must be a path inside HEADROOM_HOME/data, relative and without leading out of it by .."


def _leads_out(path: Any) -> bool:
    if not isinstance(path, str):
        return False
    normal = posixpath.normpath(path)
    return normal == ".." or normal.startswith(("/", "../")) or "\0" in path
