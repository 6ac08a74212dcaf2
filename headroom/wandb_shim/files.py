"""Files of a run: its folder, artifacts (`wandb.Artifact`: named files), pictures. They are kept with it."""

import atexit
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Self

from headroom.configuration import file_name
from headroom.wandb_shim.accepted import Accepting, warn_once
from headroom.wandb_shim.data_types import Media, Table

NO_REGISTRY = "there is no registry: links of artifacts are not kept"
NO_DRAFTS = "there are no drafts of artifacts: make another one"
NOT_DELETED = "artifacts are not deleted from here"
UNKEPT = {
    "finalize": "", "verify": "", "save": "", "link": NO_REGISTRY, "unlink": NOT_DELETED, "delete": NOT_DELETED,
    "logged_by": "", "used_by": "", "new_draft": NO_DRAFTS, "is_draft": NO_DRAFTS,
    "get_added_local_path_name": "",
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


class ArtifactTTL(Enum):
    INHERIT = 0


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
        self._objects: dict[str, Any] = {}
        self.references: list[str] = []
        self.state, self.version, self.ttl = "PENDING", "v0", None
        self.created_at = datetime.now(UTC).isoformat(timespec="seconds")

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
                written = obj.write(Path(self._made.name) / stem)
            except Exception as error:  # of a library that makes it
                warn_once("artifact media", f"{name!r} could not be written: {error!r}")
        if written is None:
            warn_once("artifact add", f"a {type(obj).__name__} is not kept in artifacts")
            return None
        self._objects[name] = obj
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
        path = Path(self._made.name) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode.replace("x", "w"), encoding=encoding) as file:
            yield file
        self.add_file(path, name)

    @cached_property
    def _made(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="headroom-artifact-")

    def remove(self, item: Any) -> None:
        self.entries.pop(str(getattr(item, "path", item)), None)

    def get_entry(self, name: str) -> Entry | None:
        found = self.entries.get(str(name))
        if found is None:
            warn_once("artifact entry", f"the artifact {self.name} has no {name!r} on this machine")
        return found

    get_path = get_entry

    def get(self, name: str) -> Any:
        """The table or image of this name, where this process has added it."""
        if name not in self._objects:
            warn_once("artifact get", "tables and images of artifacts are not read back")
        return self._objects.get(name)

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

    manifest = property(lambda self: SimpleNamespace(entries=self.entries))

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.entries.values())

    file_count = property(lambda self: len(self.entries))

    @property
    def digest(self) -> str:
        """SHA-256 of the paths and contents of its files."""
        whole = hashlib.sha256()
        for name, entry in sorted(self.entries.items()):
            whole.update(name.encode())
            whole.update(hashlib.sha256(Path(entry.local_path).read_bytes()).digest())
        return whole.hexdigest()

    id = qualified_name = source_name = property(lambda self: self.name)


_logged: dict[str, Artifact] = {}  # of all runs of this process, by name


class Nothing:
    """The run of mode "disabled"."""

    id = last_step = journal_path = None
    compute: dict[str, float] = {}

    def log(self, *args: Any, **kwargs: Any) -> None:
        pass

    finish = describe = log_artifact = __exit__ = log


class Files(Accepting):
    """`inner` is the client's run, `id` wandb's of it."""

    def __init__(self, inner: Any, id: str) -> None:  # noqa: A002  # wandb's name
        self._inner, self.id = inner, id
        self._step = 0
        self._files: Path | None = None
        self._media: dict[str, str] = {}  # path -> digest

    @property
    def disabled(self) -> bool:
        return isinstance(self._inner, Nothing)

    @property
    def dir(self) -> str:
        """A folder for files of the run, beside its journal."""
        if self._files is None:
            journal = self._inner.journal_path
            self._files = (
                journal.with_suffix(".files")
                if journal
                else Path(tempfile.mkdtemp(prefix="headroom-disabled-"))
            )
            self._files.mkdir(parents=True, exist_ok=True)
            atexit.register(self.keep_folder)
        return str(self._files)

    sync_dir = dir

    def keep_media(self, name: str, media: Media) -> None:
        kind = type(media).__name__
        if self.disabled:
            return
        if kind == "Histogram":
            warn_once(
                kind,
                f"{name!r} is a Histogram, no number: count, min, max, mean and std are kept, bins are not",
            )
            return
        if isinstance(media, Table) and any(isinstance(cell, Media) for row in media.data for cell in row):
            warn_once("media in tables", f"pictures and the like in the table {name!r} are not kept")
        with tempfile.TemporaryDirectory(prefix="headroom-media-") as folder:
            stem = Path(folder) / file_name(name)
            try:
                written = media.write(stem)
            except Exception as error:  # of a library that makes it
                warn_once(f"{kind} file", f"{name!r} could not be written as a file: {error!r}")
                return
            if written is None:
                warn_once(kind, f"{name!r} ({kind}) is no number, and no file can be made of it: left out")
                return
            suffix = written.name.removeprefix(stem.name)
            self._keep_file(written, self._free_path(name, suffix, written))

    def _free_path(self, name: str, suffix: str, file: Path) -> str:
        """Of a step's second one of this name another path: TRL logs a table of its batch and one of its evaluation."""
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        paths = (f"media/{name}{'' if n == 1 else f'-{n}'}_{self._step}{suffix}" for n in count(1))
        return next(path for path in paths if self._media.setdefault(path, digest) == digest)

    def _keep_file(self, path: str | os.PathLike[str], name: str) -> None:
        self._inner.log_artifact(str(path), name)

    def log_artifact(
        self,
        artifact_or_path: Any,
        name: str | None = None,
        type: str | None = None,  # noqa: A002  # wandb's name
        aliases: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        **others: Any,
    ) -> Artifact:
        """Its files are kept with the run, as NAME/path."""
        artifact = artifact_or_path if isinstance(artifact_or_path, Artifact) else None
        if artifact is None:
            path = Path(str(artifact_or_path))
            artifact = Artifact(name or f"run-{self.id}-{path.name}", type or "unspecified")
            if path.is_dir():
                artifact.add_dir(path)
            else:
                artifact.add_file(path)
        artifact.aliases = [*artifact.aliases, *(aliases or ("latest",))]
        artifact.state = "COMMITTED"
        _logged[artifact.name] = artifact
        for entry in artifact.files():
            self._keep_file(entry.local_path, f"{artifact.name}/{entry.path}")
        self._keep_description(artifact)
        return artifact

    def _keep_description(self, artifact: Artifact) -> None:
        """What it is, as NAME/artifact.json."""
        said = {
            name: getattr(artifact, name)
            for name in ("type", "description", "metadata", "aliases", "references")
        }
        with tempfile.TemporaryDirectory(prefix="headroom-artifact-") as folder:
            path = Path(folder) / "artifact.json"
            path.write_text(json.dumps(said, default=str))
            self._keep_file(path, f"{artifact.name}/{path.name}")

    upsert_artifact = finish_artifact = log_artifact

    def use_artifact(self, artifact_or_name: Any, *args: Any, **others: Any) -> Artifact:
        """One that this process has logged; of any other one an empty artifact."""
        return artifact_or_name if isinstance(artifact_or_name, Artifact) else logged(artifact_or_name)

    def log_model(self, path: Any, name: str | None = None, aliases: Sequence[str] | None = None) -> None:
        self.log_artifact(path, name, "model", aliases)

    def use_model(self, name: str) -> str:
        return self.use_artifact(name).download()

    def save(self, glob_str: Any = None, base_path: Any = None, *args: Any, **others: Any) -> list[str]:
        """The files that it names; they are kept with the run."""
        if glob_str is None:
            return []
        pattern = Path(os.fspath(glob_str))
        root = Path(base_path) if base_path else pattern.parent if pattern.is_absolute() else Path()
        found = sorted(pattern.parent.glob(pattern.name)) if pattern.name else []
        for path in found:
            if path.is_file():
                inside = path.relative_to(root) if path.is_relative_to(root) else Path(path.name)
                self._keep_file(path, inside.as_posix())
        return [str(path) for path in found]

    def restore(self, name: str, *args: Any, **others: Any) -> IO[str] | None:
        """The file, where it is on this machine."""
        for folder in (Path(self.dir), Path()):
            if (folder / name).is_file():
                return (folder / name).open()
        warn_once("restore", f"{name!r} is not on this machine, and files are not fetched back")
        return None

    def keep_folder(self) -> None:
        """What the script put into `run.dir`, as wandb does."""
        folder = self._files
        if folder is None:
            return
        atexit.unregister(self.keep_folder)
        if self.disabled:
            shutil.rmtree(folder, ignore_errors=True)
            return
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            self._keep_file(path, path.relative_to(folder).as_posix())


def logged(path: Any) -> Artifact:
    """The artifact of this process that the last part of its path names; of any other one an empty artifact."""
    name = str(path).rpartition("/")[2]
    found = _logged.get(name) or _logged.get(name.partition(":")[0])
    if found is None:
        warn_once("use_artifact", f"the artifact {name} is not of this process: it has no files here")
    return found or Artifact(name)
