"""The file of a backup: a tar with `manifest.json`, `database.dump` and, where asked for, `secrets/django_key`."""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from webapp.base.whole_files import sha256, writing

MANIFEST, DUMP, KEY = "manifest.json", "database.dump", "secrets/django_key"
FORMAT = 1
CHUNK = 1 << 20


class BackupError(RuntimeError):
    """A backup cannot be made or used; the message says why in a sentence."""


@dataclass(frozen=True)
class Manifest:
    """What a backup says of itself. `checkpoints`: run -> its checkpoints' steps and bytes, oldest first."""

    made_at: str  # ISO 8601
    postgres: int  # major version of the server
    migrations: list[str]  # app.name
    key_digest: str  # of the key that the secrets in the database need
    settings: dict[str, str]  # variables that were set; of secrets only that they were
    checkpoints: dict[str, list[dict[str, int]]]
    dump_sha256: str
    dump_bytes: int
    format: int = FORMAT


def write(path: Path, manifest: Manifest, dump: Path, key: str | None) -> None:
    """Raises BackupError where the file cannot be written; nothing is left of it then."""
    try:
        with writing(path) as file, tarfile.open(fileobj=file, mode="w") as tar:
            _add(tar, MANIFEST, json.dumps(asdict(manifest), indent=1).encode())
            tar.add(dump, DUMP)
            if key is not None:
                _add(tar, KEY, key.encode())
    except OSError as error:
        raise BackupError(f"{path} cannot be written: {error.strerror}.") from error


def read(path: Path, dump: Path) -> tuple[Manifest, str | None]:
    """The manifest and the key, if it is in; the dump is copied to `dump`. Raises BackupError for a file that is no
    backup, was cut off or changed, or is of a later format."""
    try:
        with tarfile.open(path) as tar:
            manifest = _manifest(json.loads(_content(tar, MANIFEST)))
            source = tar.extractfile(DUMP)
            assert source is not None
            with dump.open("wb") as target:
                while chunk := source.read(CHUNK):
                    target.write(chunk)
            key = _content(tar, KEY).decode() if KEY in tar.getnames() else None
    except FileNotFoundError as error:
        raise BackupError(f"There is no file {path}.") from error
    except (OSError, tarfile.TarError, KeyError, ValueError, AssertionError) as error:
        raise BackupError(f"{path} is no whole backup of Headroom: {error}.") from error
    if sha256(dump) != manifest.dump_sha256:
        raise BackupError(
            f"{path} was changed or damaged: its dump has another checksum than when it was made."
        )
    return manifest, key


def key_digest(key: str) -> str:
    """Tells keys apart, and says nothing of them."""
    return hashlib.sha256(f"headroom backup {key}".encode()).hexdigest()[:16]


def _manifest(said: Mapping[str, Any]) -> Manifest:
    if said.get("format", 0) > FORMAT:
        raise ValueError(f"it has format {said['format']}, this version reads {FORMAT}")
    try:
        return Manifest(**said)
    except TypeError as error:
        raise ValueError(f"its manifest is not understood ({error})") from error


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o600
    tar.addfile(info, io.BytesIO(content))


def _content(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is no file")
    return file.read()
