"""What a reader reads: the file or folder as it lies on disk, an archive unpacked, or the address of a server."""

import json
from dataclasses import replace
from pathlib import Path

from django.conf import settings

from webapp.base.errors import InvalidInput
from webapp.base.sealing import unseal
from webapp.interfaces.imports import uploads
from webapp.interfaces.imports.apart import guess_kind, unpacked
from webapp.interfaces.imports.models import Import
from webapp.interfaces.imports.readers.archives import ENDINGS
from webapp.interfaces.imports.readers.kinds import KINDS
from webapp.interfaces.imports.readers.rows import BadSource, Options
from webapp.interfaces.imports.tables import mapping_of

UNPACKED = "unpacked"
UNPACKED_TO_PACKED = 4  # bytes of an archive's files to what may be uploaded


def opened(one: Import) -> tuple[str, Path | str, Options]:
    """Kind, place and options for `readers.kinds.read`.

    Raises BadSource, Unreadable where the credentials cannot be opened, and InvalidInput for a table whose columns
    nothing names.
    """
    options = _options(one)
    if one.address:
        return one.kind, one.address, options
    path = uploads.uploaded(one.pk)
    if path is None:
        raise BadSource(str(one), None, "The uploaded file is gone. Send it again.")
    if uploads.is_archive(path.name):
        path = _unpacked(one, path)
    kind = one.kind or guess_kind(path)
    if not kind:
        raise InvalidInput("kind", f"What kind of source {one} is cannot be told: choose it.")
    if not options.columns and KINDS[kind].preview is not None and path.is_file():
        options = mapping_of(kind, path, options)
    return kind, path, options


def _options(one: Import) -> Options:
    token, user = json.loads(unseal(one.sealed_credentials)) if one.sealed_credentials else ("", "")
    options = Options.from_json(one.options, token=token, user=user)
    return options if options.name or one.address else replace(options, name=_stem(one.source)[:120])


def _stem(name: str) -> str:
    """The name of a file without its ending, of an archive without both."""
    endings = [ending for ending in ENDINGS if name.lower().endswith(ending)]
    return name[: -len(max(endings, key=len))] if endings else Path(name).stem


def _unpacked(one: Import, archive: Path) -> Path:
    """Its only file, or the folder with all of them; unpacked once. Raises BadSource."""
    folder = uploads.folder_of(one.pk) / UNPACKED
    if not folder.exists():
        partial = folder.with_name(f".{UNPACKED}.partial")
        uploads.remove(partial)
        unpacked(archive, partial, max_bytes=UNPACKED_TO_PACKED * settings.IMPORT_MAX_BYTES)
        partial.rename(folder)
    inside = sorted(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_file() else folder
