"""What a folder holds, by size and SHA-256 of each file: damage is noticed before anything is made of it.

What a checkpoint notes of its model's files, so that a resume with another model of the same name is refused.
"""

import functools
import hashlib
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

THREADS = 8  # hashing lets the interpreter go; ranks write a file each
# Of config.json: what says how the file was made, and not what the model computes.
NOT_COMPARED = (
    "_name_or_path",
    "transformers_version",
    "dtype",
    "torch_dtype",
    "use_cache",
    "_attn_implementation",
)
TOKENIZER = "tokenizer.json"


class DigestError(RuntimeError):
    """A folder that does not hold what was written; the message names the file and the reason."""


def digests_of(folder: Path) -> bytes:
    """All files below the folder, as JSON: {"files": {path: [bytes, SHA-256]}}. Reads them all. Raises OSError."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    digests = zip(files, _sha256_of_each(files), strict=True)
    found = {path.relative_to(folder).as_posix(): [path.stat().st_size, digest] for path, digest in digests}
    return json.dumps({"files": found}).encode()


def check_digests(folder: Path, digests: Path) -> None:
    """Compare the folder with what `digests_of` gave, which the file `digests` holds; other files do not matter.

    Raises DigestError where one is missing or not the same, and OSError where one cannot be read at present: that
    says nothing of what it holds.
    """
    expected = read_digests(digests)
    for name, (size, _) in expected.items():
        file = folder / name
        try:
            length = file.stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            raise DigestError(f"{file} is missing") from None
        if length != size:
            raise DigestError(f"{file} is damaged: it has {length} bytes of {size}")
    found = _sha256_of_each(folder / name for name in expected)
    for (name, (_, digest)), is_digest in zip(expected.items(), found, strict=True):
        if is_digest != digest:
            raise DigestError(f"{folder / name} is damaged: its SHA-256 is not that of what was written")


def read_digests(digests: Path) -> dict[str, tuple[int, str]]:
    """Path -> (bytes, SHA-256), as `digests_of` gave them to the file. Raises DigestError, OSError."""
    try:
        files = json.loads(digests.read_bytes())["files"].items()
        expected = {str(name): (int(size), str(digest)) for name, (size, digest) in files}
    except FileNotFoundError:
        raise DigestError(f"{digests} is missing") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        expected = {}
    if not expected:
        raise DigestError(f"{digests} is damaged: it lists no files")
    return expected


def _sha256_of_each(files: Iterable[Path]) -> list[str]:
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(_sha256, files))


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@functools.cache
def weights_digest(folder: Path) -> str:
    """Of all its weights (*.safetensors), 16 digits; read once a process. Raises OSError."""
    digests = _sha256_of_each(sorted(folder.glob("*.safetensors")))
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:16]


def model_identity(folder: Path) -> dict[str, Any]:
    """Entries of config.json and the SHA-256 of tokenizer.json. Raises OSError or ValueError where they lack."""
    config = json.loads((folder / "config.json").read_text())
    kept = {name: value for name, value in config.items() if name not in NOT_COMPARED}
    return {"config": kept, "tokenizer": hashlib.sha256((folder / TOKENIZER).read_bytes()).hexdigest()}
