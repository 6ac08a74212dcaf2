"""Static files under names with a hash of their content; before they are collected, under their own names.

Tests and `runserver` need no collecting: WhiteNoise then serves what the finders find. `collectstatic` makes the
hashed and compressed files; where a source changed since, they count as not collected.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import brotli
from django.contrib.staticfiles.storage import ManifestStaticFilesStorage
from whitenoise.compress import Compressor
from whitenoise.storage import CompressedManifestStaticFilesStorage

from webapp.interfaces.assets import sources

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
        return super().load_manifest() if sources.is_collected(Path(self.location)) else ({}, "")

    def stored_name(self, name: str) -> str:
        """The hashed name; the plain one as long as nothing is collected."""
        return super().stored_name(name) if self.hashed_files else name

    def post_process(self, paths: dict[str, Any], dry_run: bool = False, **options: Any) -> Iterator[Any]:
        """Hash and compress what collectstatic copied."""
        if dry_run:
            return
        sources.mark_unfinished(Path(self.location))
        yield from super().post_process(paths, dry_run=dry_run, **options)
        sources.mark_collected(Path(self.location))

    def create_compressor(self, **options: Any) -> Compressor:
        """Used by WhiteNoise."""
        return QuickCompressor(**options)
