"""What a folder holds, by size and SHA-256 of each file: damage is noticed before anything is made of it."""

import hashlib
import json
from pathlib import Path


class DigestError(RuntimeError):
    """A folder that does not hold what was written; the message names the file and the reason."""


def digests_of(folder: Path) -> bytes:
    """All files below the folder, as JSON: {"files": {path: [bytes, SHA-256]}}. Reads them all. Raises OSError."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    found = {path.relative_to(folder).as_posix(): [path.stat().st_size, _sha256(path)] for path in files}
    return json.dumps({"files": found}).encode()


def check_digests(folder: Path, digests: Path) -> None:
    """Compare the folder with what `digests_of` gave, which the file `digests` holds; other files do not matter.

    Raises DigestError where one is missing or not the same, and OSError where one cannot be read at present: that
    says nothing of what it holds.
    """
    try:
        content = json.loads(digests.read_bytes())
        expected = {str(name): (int(size), str(digest)) for name, (size, digest) in content["files"].items()}
    except FileNotFoundError:
        raise DigestError(f"{digests} is missing") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DigestError(f"{digests} is damaged: it lists no files") from None
    for name, (size, digest) in expected.items():
        _check_file(folder / name, size, digest)


def _check_file(file: Path, size: int, digest: str) -> None:
    try:
        found = file.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        raise DigestError(f"{file} is missing") from None
    if found != size:
        raise DigestError(f"{file} is damaged: it has {found} bytes of {size}")
    if _sha256(file) != digest:
        raise DigestError(f"{file} is damaged: its SHA-256 is not that of what was written")


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
