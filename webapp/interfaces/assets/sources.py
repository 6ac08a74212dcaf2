"""Which files pages load, and whether the collected ones are made of them as they are now.

Collecting the assets at the start of a stack: seconds the first time, nothing where no source changed.
"""

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command

STAMP = "collected-from"
# What django-htmx and the repository hold beside the files that pages load (patterns of names, as of collectstatic).
IGNORED = ["ext", "htmax-*.js", "htmx-4*.js", "htmx-2.js", "pinned.json", "CVS", ".*", "*~"]


def source_files() -> Iterator[tuple[str, Path]]:
    """(name as templates say it, file) of everything that is collected."""
    for finder in get_finders():
        for path, storage in finder.list(IGNORED):
            prefix = getattr(storage, "prefix", None)
            yield f"{prefix}/{path}" if prefix else path, Path(storage.path(path))


@cache
def sources_digest() -> str:
    """Changes with any source: name, size and time of each, those of the code that makes files of them included."""
    code = [(path.name, path) for path in Path(__file__).parent.glob("*.py")]
    lines = []
    for name, path in sorted([*source_files(), *code]):
        status = path.stat()
        lines.append(f"{name} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def is_collected(folder: Path) -> bool:
    """Whether `folder` holds what the present sources make."""
    stamp = folder / STAMP
    return stamp.is_file() and stamp.read_text() == sources_digest()


def mark_collected(folder: Path) -> None:
    """Say that `folder` holds what the present sources make."""
    (folder / STAMP).write_text(sources_digest())


def mark_unfinished(folder: Path) -> None:
    """From now on, and until `mark_collected`, `folder` counts as empty."""
    (folder / STAMP).unlink(missing_ok=True)


def collect_assets() -> bool:
    """Copy, hash and compress every asset into STATIC_ROOT; False where that is done already.

    Files of an earlier version stay: a page that is open may still ask for them.
    """
    folder = Path(settings.STATIC_ROOT)
    if is_collected(folder):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    call_command("collectstatic", interactive=False, verbosity=0, ignore_patterns=list(IGNORED))
    return True
