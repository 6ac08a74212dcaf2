"""Checkpoints and files of a run in a store that every machine reaches: a folder that is mounted everywhere, or S3.

URL/RUN/WRITER                      id of the attempt that writes here; the last one that came
        step-00000025/trainer/...   as in the run folder, byte for byte
                      driver.json
                      samples.npz
                      COMPLETE      written last: size and SHA-256 of all of these
                      DAMAGED       in its place, where a resume found that it no longer holds what was written
       /artifacts/KEY               a file of the run, which the server keeps there (`webapp.record.artifacts.store`)

HEADROOM_CHECKPOINTS_URL is an address that fsspec knows: file:///mnt/nfs/checkpoints, s3://bucket/prefix. Credentials
are never part of it: they come as each library looks for them (AWS_ACCESS_KEY_ID and the like), for jobs from the
project's secrets. fsspec is imported when a store is opened.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

from training.checkpoints import MARKER, CheckpointError, order
from training.digests import DigestError, check_digests, read_digests
from training.errors import Infrastructure, first_line

URL = "HEADROOM_CHECKPOINTS_URL"
ENDPOINT = "HEADROOM_CHECKPOINTS_ENDPOINT"
WRITER = "WRITER"
DAMAGED = "DAMAGED"
NAME = re.compile(r"step-\d+(\.\d+)?")
PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}
PARTS_AT_ONCE = 2  # of one file on its way to S3, 50 MiB each: what an upload takes of the driver's memory
CONNECT_SECONDS, READ_SECONDS = 10, 60


class StoreAway(CheckpointError, Infrastructure):
    """The store did not answer, or not as it should; the same may go through later."""


class StoreRefused(CheckpointError):
    """The store cannot be used as it is set up: its address, its package, or what the credentials allow."""


class Store:
    """The checkpoints of one run. Methods raise StoreAway or StoreRefused where it does not do its part."""

    def __init__(self, files: Any, place: str, words: str) -> None:
        """`files`: an fsspec file system. `place`: the run's folder in it; `words`: the same, for people."""
        self._files, self._place, self.words = files, place.rstrip("/"), words

    def names(self) -> list[str]:
        """Of the complete checkpoints, oldest first."""
        with self._asked("be listed"):
            return [name for name in self._folders() if self._files.exists(self._at(name, MARKER))]

    def prune(self, keep: int) -> None:
        """Remove all but the newest of each of the newest `keep` steps, as the run folder does."""
        newest = {order(name)[0]: name for name in self.names()}
        kept = [newest[step] for step in sorted(newest)][-keep:]
        with self._asked("be listed"):
            gone = [name for name in self._folders() if name not in kept]
        for name in gone:
            self.remove(name)

    def marker(self, name: str) -> bytes | None:
        """What COMPLETE of this checkpoint says; None where it is not there, or not complete."""
        with self._asked("be read"):
            return self._content(name, MARKER)

    def writer(self) -> str | None:
        """Who claimed the run's folder last."""
        with self._asked("be read"):
            content = self._content(WRITER)
        return content.decode(errors="replace").strip() if content else None

    def claim(self, writer: str) -> None:
        """From now on this one writes here; whoever did before notices before its next file."""
        with self._asked("be written"):
            self._write(writer.encode(), WRITER)

    def upload(self, folder: Path, before_each: Callable[[], None], sent: set[str]) -> None:
        """Copy a complete checkpoint, its marker last. `before_each`: called before each file; it raises to end this.
        `sent`: names of files that an earlier try has copied; grows.

        Raises CheckpointError where the folder itself no longer holds what was written.
        """
        name, marker = folder.name, (folder / MARKER).read_bytes()
        if self.marker(name) == marker:
            return
        try:
            check_digests(folder, folder / MARKER)
        except DigestError as error:
            raise CheckpointError(f"{error}; it is not copied to the store") from error
        if not sent:
            before_each()
            self.remove(name)  # half of it, by an attempt that died, or one of the same name
        with self._asked("be written"):
            for file, (size, _) in read_digests(folder / MARKER).items():
                if file in sent:
                    continue
                before_each()
                self._copy(folder / file, size, name, file)
                sent.add(file)
            before_each()
            self._write(marker, name, MARKER)

    def download(self, name: str, folder: Path) -> None:
        """Copy a complete checkpoint to a new folder and compare it with its digests.

        Raises DigestError where it does not hold what was written, OSError where the folder cannot be written.
        """
        if (marker := self.marker(name)) is None:
            raise DigestError(f"{self._said(name, MARKER)} is missing")
        folder.mkdir(parents=True)
        (folder / MARKER).write_bytes(marker)
        for file in read_digests(folder / MARKER):
            target = folder / _inside(file)
            target.parent.mkdir(parents=True, exist_ok=True)
            with self._asked("be read"):
                try:
                    self._files.get_file(self._at(name, file), str(target))
                except FileNotFoundError:
                    raise DigestError(f"{self._said(name, file)} is missing") from None
        check_digests(folder, folder / MARKER)

    def remove(self, name: str) -> None:
        """A checkpoint or a file that may be there, its marker first."""
        with self._asked("be cleaned"):
            for path in (self._at(name, MARKER), self._at(name)):
                with suppress(FileNotFoundError, NotADirectoryError):
                    self._files.rm(path, recursive=path != self._at(name, MARKER))

    def set_aside(self, name: str) -> None:
        """It is damaged: from now on it is not complete. What it holds stays until the next one has been copied."""
        with self._asked("be written"):
            self._write(self._content(name, MARKER) or b"", name, DAMAGED)
            self._files.rm(self._at(name, MARKER))

    def _folders(self) -> list[str]:
        """Of all checkpoints, complete or not, oldest first."""
        self._files.invalidate_cache()
        try:
            found = [
                str(entry).rstrip("/").rpartition("/")[2]
                for entry in self._files.ls(self._place, detail=False)
            ]
        except FileNotFoundError:
            return []
        return sorted((name for name in found if NAME.fullmatch(name)), key=order)

    def keep(self, file: Path, *parts: str) -> None:
        """Copy a file there, in place of what is. Raises FileNotFoundError where it is gone."""
        size = file.stat().st_size
        with self._asked("be written"):
            self._copy(file, size, *parts)

    def open(self, *parts: str) -> BinaryIO | None:
        """A file to be read; None where it is not there."""
        with self._asked("be read"):
            try:
                return cast(BinaryIO, self._files.open(self._at(*parts), "rb"))
            except FileNotFoundError:
                return None

    def _copy(self, file: Path, size: int, *parts: str) -> None:
        self._files.put_file(str(file), self._at(*parts))
        if (arrived := self._files.size(self._at(*parts))) != size:
            raise OSError(f"{parts[-1]} has {arrived} bytes there, of {size}")

    def _content(self, *parts: str) -> bytes | None:
        try:
            return bytes(self._files.cat_file(self._at(*parts)))
        except FileNotFoundError:
            return None

    def _write(self, content: bytes, *parts: str) -> None:
        self._files.pipe_file(self._at(*parts), content)

    def _at(self, *parts: str) -> str:
        return "/".join((self._place, *(part for part in parts if part != ".")))

    def _said(self, *parts: str) -> str:
        return "/".join((self.words, *parts))

    @contextmanager
    def _asked(self, what: str) -> Iterator[None]:
        try:
            yield
        except (CheckpointError, DigestError):
            raise
        except Exception as error:  # each file system has its own
            is_refused = (
                isinstance(error, PermissionError | FileNotFoundError)  # no such bucket
                or type(error).__name__ == "NoCredentialsError"
            )
            kind = StoreRefused if is_refused else StoreAway
            reason = f"{type(error).__name__}: {first_line(error)}"
            raise kind(f"the checkpoint store {self.words} cannot {what}: {reason}") from error


def open_store(run: str, environment: Mapping[str, str] = os.environ) -> Store | None:
    """The store of a run by its id, as HEADROOM_CHECKPOINTS_URL says; None where it is not set.

    Nothing is asked of the store yet. Raises StoreRefused.
    """
    if not (url := environment.get(URL, "").strip().rstrip("/")):
        return None
    scheme, address = url.partition("://")[0], urlsplit(url)
    if "://" not in url:
        raise StoreRefused(f"{URL} is no address: file:///FOLDER or s3://BUCKET/PREFIX")
    if address.username or address.password or address.query:
        raise StoreRefused(f"{URL} holds credentials or options: they are never part of the address")
    try:
        import fsspec

        files, place = fsspec.core.url_to_fs(url, **_options(scheme, environment.get(ENDPOINT, "").strip()))
    except (ImportError, ValueError) as error:
        package = PACKAGES.get(scheme)
        hint = f": the package {package} is not installed here" if package else f": {first_line(error)}"
        raise StoreRefused(f"{URL} begins with {scheme}://, which cannot be used{hint}") from error
    if scheme == "file" and not Path(place).is_dir():
        raise StoreRefused(f"{URL}: the folder {place} does not exist here; is it mounted?")
    return Store(files, f"{place.rstrip('/')}/{run}", f"{url}/{run}")


def _options(scheme: str, endpoint: str) -> dict[str, Any]:
    """Of the file system: it asks anew each time, since other machines write there."""
    options: dict[str, Any] = {"use_listings_cache": False, "skip_instance_cache": True}
    if scheme == "file":
        return {"auto_mkdir": True, "skip_instance_cache": True}
    if scheme in ("s3", "s3a"):
        options["max_concurrency"] = PARTS_AT_ONCE
        options["config_kwargs"] = {"connect_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS}
        if endpoint:
            options["endpoint_url"] = endpoint
    return options


def _inside(file: str) -> PurePosixPath:
    """The path, unless it leads out of its folder. Raises DigestError."""
    path = PurePosixPath(file)
    if path.is_absolute() or ".." in path.parts:
        raise DigestError(f"the checkpoint lists {json.dumps(file)}, which lies outside of it")
    return path
