"""`wandb.Artifact`: named files. They are gathered here, and kept with the run that logs them."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Self

from headroom.wandb_shim.accepted import Accepting, warn_once
from headroom.wandb_shim.data_types import Media

NO_REGISTRY = "there is no registry: links of artifacts are not kept"
NO_DRAFTS = "there are no drafts of artifacts: make another one"
NOT_DELETED = "artifacts are not deleted from here"
UNKEPT = {
    "finalize": "", "verify": "", "save": "", "link": NO_REGISTRY, "unlink": NOT_DELETED, "delete": NOT_DELETED,
    "logged_by": "", "used_by": "", "new_draft": NO_DRAFTS, "is_draft": NO_DRAFTS,
    "get_added_local_path_name": "", "get": "tables and images of artifacts are not read back",
}  # fmt: skip


class Entry(SimpleNamespace):
    """A file of an artifact: `path` within it, `local_path` on this machine."""

    path: str
    local_path: str

    @property
    def size(self) -> int:
        return os.path.getsize(self.local_path)

    def download(self, root: str | os.PathLike[str] | None = None, **others: Any) -> str:
        """A copy of it below `root`; without one, the file itself."""
        if root is None:
            return self.local_path
        target = Path(root) / self.path
        target.parent.mkdir(parents=True, exist_ok=True)
        return shutil.copyfile(self.local_path, target).__str__()


class Artifact(Accepting, unkept=UNKEPT, answers={"used_by": []}):
    """Files by their path within it, of this machine."""

    def __init__(
        self,
        name: str,
        type: str = "unspecified",  # noqa: A002  # wandb's name
        description: str | None = None,
        metadata: dict[str, Any] | None = None,
        **others: Any,
    ) -> None:
        self.name, self.type, self.description = name, type, description
        self.metadata: dict[str, Any] = dict(metadata or {})
        self.aliases: list[str] = []
        self.tags: list[str] = []
        self.entries: dict[str, Entry] = {}
        self.references: list[str] = []
        self.state, self.version, self.ttl = "PENDING", "v0", None
        self.created_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._made: tempfile.TemporaryDirectory[str] | None = None

    def add_file(
        self, local_path: str | os.PathLike[str], name: str | None = None, *args: Any, **others: Any
    ) -> Entry | None:
        path = Path(local_path)
        if not path.is_file():
            warn_once("artifact file", f"there is no file {path}: it is not in the artifact {self.name}")
            return None
        entry = Entry(path=name or path.name, local_path=str(path.resolve()))
        self.entries[entry.path] = entry
        return entry

    def add_dir(
        self, local_path: str | os.PathLike[str], name: str | None = None, *args: Any, **others: Any
    ) -> None:
        root = Path(local_path)
        for path in sorted(each for each in root.rglob("*") if each.is_file()):
            self.add_file(path, (Path(name or "") / path.relative_to(root)).as_posix())

    def add(self, obj: Any, name: str, overwrite: bool = False) -> Entry | None:
        """A table, an image and so on, as a file."""
        written, stem = None, name.replace("/", "-")
        if isinstance(obj, Media):
            try:
                written = obj.write(self._folder() / stem)
            except Exception as error:  # of a library that makes it
                warn_once("artifact media", f"{name!r} could not be written: {error!r}")
        if written is None:
            warn_once("artifact add", f"a {type(obj).__name__} is not kept in artifacts")
            return None
        suffix = written.name.removeprefix(stem)
        return self.add_file(written, name if name.endswith(suffix) else name + suffix)

    def add_reference(self, uri: Any, name: str | None = None, *args: Any, **others: Any) -> list[Entry]:
        self.references.append(str(uri))
        warn_once("add_reference", "references of artifacts are not followed: their addresses alone are kept")
        return []

    @contextmanager
    def new_file(
        self, name: str, mode: str = "x", encoding: str | None = None, **others: Any
    ) -> Iterator[IO[Any]]:
        path = self._folder() / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode.replace("x", "w"), encoding=encoding) as file:
            yield file
        self.add_file(path, name)

    def _folder(self) -> Path:
        self._made = self._made or tempfile.TemporaryDirectory(prefix="headroom-artifact-")
        return Path(self._made.name)

    def remove(self, item: Any) -> None:
        self.entries.pop(str(getattr(item, "path", item)), None)

    def get_entry(self, name: str) -> Entry | None:
        found = self.entries.get(str(name))
        if found is None:
            warn_once("artifact entry", f"the artifact {self.name} has no {name!r} on this machine")
        return found

    get_path = get_entry

    def files(self, names: list[str] | None = None, **others: Any) -> list[Entry]:
        return [entry for name, entry in self.entries.items() if names is None or name in names]

    def file(self, root: str | None = None) -> str | None:
        """The only file of it."""
        return next((entry.download(root) for entry in self.entries.values()), None)

    def download(self, root: str | os.PathLike[str] | None = None, **others: Any) -> str:
        """A folder with copies of its files. What this process has not put together is not there: it is empty then."""
        folder = Path(root) if root is not None else Path("artifacts") / f"{self.name.replace(':', '-')}"
        folder.mkdir(parents=True, exist_ok=True)
        for entry in self.entries.values():
            entry.download(folder)
        return str(folder)

    checkout = download

    def wait(self, timeout: int | None = None) -> Self:
        return self

    @property
    def manifest(self) -> Any:
        return SimpleNamespace(entries=self.entries)

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.entries.values())

    @property
    def file_count(self) -> int:
        return len(self.entries)

    @property
    def digest(self) -> str:
        """SHA-256 of the paths and contents of its files."""
        whole = hashlib.sha256()
        for name, entry in sorted(self.entries.items()):
            whole.update(name.encode())
            whole.update(hashlib.sha256(Path(entry.local_path).read_bytes()).digest())
        return whole.hexdigest()

    @property
    def id(self) -> str:
        return self.name

    qualified_name = source_name = id
