"""Which files pages load, and whether the collected ones are made of them as they are now.

Collecting the assets at the start of a stack: seconds the first time, nothing where no source changed.

Static files under names with a hash of their content; before they are collected, under their own names.

Tests and `runserver` need no collecting: WhiteNoise then serves what the finders find. `collectstatic` makes the
hashed and compressed files; where a source changed since, they count as not collected.
"""

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import brotli
from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.contrib.staticfiles.storage import ManifestStaticFilesStorage
from django.core.management import call_command
from whitenoise.compress import Compressor
from whitenoise.storage import CompressedManifestStaticFilesStorage

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
    """Changes with any source: name, size and time of each, and of this file, which makes the assets of them."""
    lines = []
    for name, path in sorted([*source_files(), ("assets.py", Path(__file__))]):
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


# Relative imports of our own modules. Django's own patterns would search all of plotly.js, too.
MODULE_IMPORTS = (
    (
        r"""(?P<matched>(?P<head>\b(?:import|export)\b[^;'"]*?\bfrom\s*|\bimport\s*)["'](?P<url>\.{1,2}/[^"']+)["'])""",
        '%(head)s"%(url)s"',
    ),
    (r"""(?P<matched>\bimport\(\s*["'](?P<url>\.{1,2}/[^"']+)["']\s*\))""", 'import("%(url)s")'),
)


LARGE_BYTES = 200_000
LARGE_QUALITY = 9  # of brotli: 9 % more bytes than 11, in a twentieth of the seconds that a first start waits


class QuickCompressor(Compressor):
    """Brotli at its best for small files, and nearly so for large ones."""

    @staticmethod
    def compress_brotli(data: bytes) -> bytes:
        return brotli.compress(data, quality=LARGE_QUALITY if len(data) > LARGE_BYTES else 11)


class HashedFiles(CompressedManifestStaticFilesStorage):
    """Hashed names in pages, style sheets and module imports; brotli and gzip beside each file."""

    patterns = (ManifestStaticFilesStorage.patterns[0], ("js/*.js", MODULE_IMPORTS))

    def load_manifest(self) -> tuple[dict[str, str], str]:
        """What was collected, unless it is older than its sources."""
        return super().load_manifest() if is_collected(Path(self.location)) else ({}, "")

    def stored_name(self, name: str) -> str:
        """The hashed name; the plain one as long as nothing is collected."""
        return super().stored_name(name) if self.hashed_files else name

    def post_process(self, paths: dict[str, Any], dry_run: bool = False, **options: Any) -> Iterator[Any]:
        """Hash and compress what collectstatic copied."""
        if dry_run:
            return
        mark_unfinished(Path(self.location))
        yield from super().post_process(paths, dry_run=dry_run, **options)
        mark_collected(Path(self.location))

    def create_compressor(self, **options: Any) -> Compressor:
        """Used by WhiteNoise."""
        return QuickCompressor(**options)
