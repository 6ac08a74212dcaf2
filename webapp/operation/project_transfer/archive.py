"""The file of a project: a zip of `manifest.json`, one `parts/NAME.copy` a table (rows as PostgreSQL's COPY writes
them), and `files/SHA256` for each content that its runs' artifacts have.

The zip's checksums tell a damaged file; they do not tell who made it.
"""

import json
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO

from webapp.base import disk
from webapp.base.errors import ServiceError

MANIFEST = "manifest.json"
KIND = "headroom project"
FORMAT = 1
CHUNK = 1 << 20
MOST_MANIFEST = 16 << 20  # bytes
DAMAGES = (OSError, zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, RuntimeError)


class MovingError(ServiceError):
    """A project cannot be exported or imported; the message says why in a sentence."""


@dataclass(frozen=True)
class PartSaid:
    """What the manifest says of a part: its columns in order, and how many rows."""

    columns: list[str]
    rows: int


@dataclass(frozen=True)
class Manifest:
    """What a file says of itself."""

    made_at: str  # ISO 8601
    version: str  # of the Headroom that made it
    migrations: list[str]  # app.name, of that database
    project: dict[str, Any]  # `tables.PROJECT_FIELDS`
    parts: dict[str, PartSaid] = field(default_factory=dict)
    kind: str = KIND
    format: int = FORMAT


class Writer:
    """Writes parts one after the other, then the manifest."""

    def __init__(self, file: zipfile.ZipFile) -> None:
        self.file = file
        self.parts: dict[str, PartSaid] = {}
        self.contents: set[str] = set()

    def part(self, name: str, columns: list[str], chunks: "Iterator[bytes | memoryview]") -> None:
        """Rows as COPY gives them: every line is one."""
        rows = 0
        with self.file.open(_member(name), "w", force_zip64=True) as out:
            for chunk in chunks:
                data = bytes(chunk)
                out.write(data)
                rows += data.count(b"\n")
        self.parts[name] = PartSaid(columns, rows)

    def content(self, sha256: str, source: BinaryIO) -> None:
        """What a file holds; the same is written once."""
        if sha256 not in self.contents:
            self.contents.add(sha256)
            with self.file.open(f"files/{sha256}", "w", force_zip64=True) as out:
                shutil.copyfileobj(source, out, CHUNK)

    def manifest(self, manifest: Manifest) -> None:
        self.file.writestr(MANIFEST, json.dumps(asdict(manifest), indent=1))


@contextmanager
def writing(path: Path) -> Iterator[Writer]:
    """See `webapp.base.disk.writing`. Raises MovingError."""
    if not path.parent.is_dir():
        raise MovingError(f"There is no folder {path.parent}.")
    if path.is_dir():
        raise MovingError(f"{path} is a folder: name a file.")
    try:
        with (
            disk.writing(path) as raw,
            zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as file,
        ):
            yield Writer(file)
    except OSError as error:
        raise MovingError(f"{path} cannot be written: {error.strerror}.") from error


class Reader:
    """Reads a file whose manifest was understood."""

    def __init__(self, path: Path, file: zipfile.ZipFile) -> None:
        self.path, self.file = path, file
        self.manifest = self._manifest()

    def part(self, name: str) -> Iterator[bytes]:
        """The rows of a part, checked when the last one was given. Raises MovingError."""
        try:
            with self.file.open(_member(name)) as source:
                while chunk := source.read(CHUNK):
                    yield chunk
        except DAMAGES as error:
            raise self._damaged(name, str(error)) from error

    @contextmanager
    def content(self, sha256: str) -> "Iterator[IO[bytes] | None]":
        """What a file holds; None where it was gone when the project was exported. Raises MovingError."""
        name = f"files/{sha256}"
        if name not in self.file.NameToInfo:
            yield None
            return
        try:
            with self.file.open(name) as source:
                yield source
        except DAMAGES as error:
            raise self._damaged(name, str(error)) from error

    def check_parts(self, wanted: dict[str, list[str]]) -> None:
        """Raises MovingError where a part is missing, unknown, or has other columns."""
        inside = set(self.file.namelist())
        for name, columns in wanted.items():
            if name not in self.manifest.parts or _member(name) not in inside:
                raise MovingError(f"{self.path}: the part {name} is missing.")
            if self.manifest.parts[name].columns != columns:
                raise MovingError(f"{self.path}: the part {name} has other columns than its table here.")
        if unknown := sorted(self.manifest.parts.keys() - wanted.keys()):
            raise MovingError(f"{self.path}: the part {unknown[0]} is unknown here.")

    def _manifest(self) -> Manifest:
        try:
            if self.file.getinfo(MANIFEST).file_size > MOST_MANIFEST:
                raise ValueError("it is too long")
            said = json.loads(self.file.read(MANIFEST))
            if said["kind"] != KIND:
                raise ValueError("it is of something else")
            number = int(said["format"])
        except (*DAMAGES, ValueError, TypeError) as error:
            raise self._damaged(MANIFEST, str(error)) from error
        if number > FORMAT:
            raise MovingError(
                f"{self.path} has format {number}, and this version reads up to {FORMAT}: import it with the Headroom "
                f"that made it ({said.get('version')}) or a later one."
            )
        try:
            parts = {name: PartSaid(**part) for name, part in said.pop("parts").items()}
            return Manifest(**said, parts=parts)
        except (TypeError, AttributeError, KeyError) as error:
            raise self._damaged(MANIFEST, str(error)) from error

    def _damaged(self, name: str, why: str) -> MovingError:
        return MovingError(f"{self.path} was changed or damaged, in the part {name}: {why.rstrip('.')}.")


@contextmanager
def reading(path: Path) -> Iterator[Reader]:
    """Raises MovingError for a file that is not there, is no project of Headroom, or was cut off."""
    try:
        file = zipfile.ZipFile(path)
    except FileNotFoundError as error:
        raise MovingError(f"There is no file {path}.") from error
    except (OSError, zipfile.BadZipFile) as error:
        raise MovingError(f"{path} is no whole project of Headroom: {error}.") from error
    with file:
        yield Reader(path, file)


def _member(name: str) -> str:
    return f"parts/{name}.copy"
