"""Files of runs: received as they come, kept whole or not at all, and found again by their path within the run.

HEADROOM_HOME/artifacts/RUN/KEY          a file; which path it has, the database says
                       /.incoming/KEY    one that is being received, or that no run has yet
HEADROOM_CHECKPOINTS_URL/RUN/artifacts/KEY   where the worker moves it to, if such a store is set up

A path comes from a client and never reaches the disk. A file enters its run's folder once its row is committed; until
that is done, also after a crash, it is read from where it was received.
"""

import hashlib
import logging
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet, Sum

from training.checkpoint_store import open_store
from training.checkpoints import CheckpointError
from webapp.base.disk import bytes_in_words, check_room, sha256
from webapp.base.errors import Conflict, InvalidInput, NotFound, first_of
from webapp.identity.accounts.models import Project, User
from webapp.record.artifacts.models import Artifact
from webapp.record.runs.models import Run
from webapp.record.runs.states import record_run

log = logging.getLogger(__name__)

MAX_PATH = 500  # characters
PIECE = 1 << 20  # bytes read at a time
LEFT_OVER_SECONDS = 24 * 3600.0  # after which what no run has is removed
MOVE_SECONDS = 30.0  # a step of the clean-up copies so long to the store
INCOMING, STORED = ".incoming", "artifacts"
KEY = re.compile(r"\d{1,18}-[0-9a-f]{32,64}")
Read = Callable[[int], bytes]  # at most so many bytes; none at the end


class TooLarge(InvalidInput):
    """More than a limit allows; the message names it."""

    code = "too_large"

    def __init__(self, message: str, field: str = "path") -> None:
        super().__init__(field, message, status=413)


@dataclass(frozen=True)
class Received:
    """A whole file that no run has yet. `size` in bytes."""

    key: str
    size: int
    sha256: str

    @property
    def file(self) -> Path:
        return _incoming() / self.key


def check_path(path: str) -> str:
    """The path, which stays below its run wherever it is written to. Raises InvalidInput (path)."""
    parts = path.split("/")
    if not path or len(path) > MAX_PATH or not path.isprintable():
        raise InvalidInput("path", f"path must have 1 to {MAX_PATH} characters, all of them printable.")
    if "\\" in path or any(part.strip() in ("", ".", "..") for part in parts):
        raise InvalidInput(
            "path",
            'path must be names with "/" between them, none of them empty, "." or "..", without backslashes.',
        )
    return path


def receive(project: Project, name: str, read: Read, size: int | None = None) -> Received:
    """Write what `read` gives to the disk. `name`: of the file, for messages; `size`: bytes that it said it has.

    Raises TooLarge above the limit of a file or of the project, InvalidInput where the disk has no room (507) or less
    came than was said (400), and what `read` raises; nothing stays then.
    """
    _check_limits(project, name, size or 0)
    key = _new_key(project)
    path, digest, total = _incoming() / key, hashlib.sha256(), 0
    try:
        with path.open("xb") as file:
            while piece := read(PIECE):
                total += len(piece)
                if total > settings.ARTIFACT_MAX_BYTES:
                    raise too_large(name)
                digest.update(piece)
                file.write(piece)
            if size is not None and total != size:
                raise InvalidInput(
                    "path", f"{name} has not arrived whole: {total:,} of {size:,} bytes.", status=400
                )
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return Received(key, total, digest.hexdigest())


def received(project: Project, key: str) -> Received | None:
    """What was received before for this project; None where it is not there any more."""
    file = _incoming() / key
    if not KEY.fullmatch(key) or not key.startswith(f"{project.pk}-") or not file.is_file():
        return None
    return Received(key, file.stat().st_size, sha256(file))


def set_aside(project: Project, file: Received) -> None:
    """Until a run wants this content, which is then known by its digest alone."""
    file.file.rename(_incoming() / f"{project.pk}-{file.sha256}")


def is_set_aside(project: Project, digest: str) -> bool:
    return (_incoming() / f"{project.pk}-{digest}").is_file()


def take_aside(project: Project, digest: str) -> Received | None:
    """What was set aside of this content, for whoever asks first."""
    key = _new_key(project)
    try:
        (_incoming() / f"{project.pk}-{digest}").rename(_incoming() / key)
    except FileNotFoundError:
        return None
    return Received(key, _size_of(_incoming() / key), digest)


def store(run: Run, path: str, read: Read, size: int | None = None) -> Artifact:
    """Keep a file of a run. Raises what `check_path`, `receive` and `keep` raise."""
    check_path(path)
    return keep(run, path, receive(run.project, path, read, size))


def keep(run: Run, path: str, file: Received) -> Artifact:
    """Give a file that was received to a run; one of the same path before is replaced. Safe to repeat.

    Raises InvalidInput (path), TooLarge, NotFound (the run is gone), and Conflict where a folder has that name, or a
    file that of its folder. The file is gone then.
    """
    try:
        check_path(path)
        with transaction.atomic():
            if not Run.objects.select_for_update(no_key=True).filter(pk=run.pk).exists():
                raise NotFound(f"There is no run {run.pk}.")
            _check_name_is_free(run, path)
            before = run.artifacts.filter(path=path).first()
            _check_limits(run.project, path, file.size, apart_from=file, freed=before.size if before else 0)
            here = before or Artifact(run=run, path=path)
            old, here.key, here.size, here.sha256 = here.key, file.key, file.size, file.sha256
            here.save()
            transaction.on_commit(partial(_settle, run.pk, file.key))
            if old:
                transaction.on_commit(partial(remove_file, run.pk, old))
    except BaseException:
        file.file.unlink(missing_ok=True)
        raise
    return here


def _check_name_is_free(run: Run, path: str) -> None:
    parts = path.split("/")
    folders = ["/".join(parts[:end]) for end in range(1, len(parts))]
    other = run.artifacts.filter(Q(path__in=folders) | Q(path__startswith=f"{path}/")).first()
    if other is not None:
        raise Conflict(
            f"{path} cannot be kept beside {other.path}: a name is a file or a folder.", field="path"
        )


def _check_limits(
    project: Project, name: str, size: int, *, apart_from: Received | None = None, freed: int = 0
) -> None:
    """Raises TooLarge, and InvalidInput (507) where the disk would be low.

    What is being received counts, so that uploads at the same time need no lock.
    """
    if size > settings.ARTIFACT_MAX_BYTES:
        raise too_large(name)
    waiting = {each.name: _size_of(each) for each in _incoming().glob(f"{project.pk}-*")}
    if apart_from is not None:
        waiting.pop(apart_from.key, None)
    if waiting:
        for key in Artifact.objects.filter(key__in=list(waiting)).values_list("key", flat=True):
            waiting.pop(key)
    used = sum(waiting.values()) + used_by(project) - freed
    if used + size > settings.ARTIFACT_PROJECT_BYTES:
        most = bytes_in_words(settings.ARTIFACT_PROJECT_BYTES)
        raise TooLarge(
            f"{name} has no room: the files of a project's runs have at most {most} together "
            f"(HEADROOM_ARTIFACT_PROJECT_BYTES), and {bytes_in_words(used)} are taken."
        )
    if apart_from is None:
        check_room(size, "path")


def too_large(name: str) -> TooLarge:
    most = bytes_in_words(settings.ARTIFACT_MAX_BYTES)
    return TooLarge(f"{name} is too large: a file of a run has at most {most} (HEADROOM_ARTIFACT_MAX_BYTES).")


def used_by(project: Project) -> int:
    """Bytes of all files of the project's runs."""
    return Artifact.objects.filter(run__project=project).aggregate(total=Sum("size"))["total"] or 0


def find(run: Run, path: str) -> Artifact:
    """Raises NotFound."""
    return first_of(run.artifacts.filter(path=path), f"Run {run.pk} has no file {path}.")


def below(run: Run, folder: str) -> QuerySet[Artifact]:
    """The run's files in a folder and in those below it, or that one file; all of them for an empty name."""
    if not folder:
        return run.artifacts.all()
    return run.artifacts.filter(Q(path=folder) | Q(path__startswith=f"{folder}/"))


@transaction.atomic
def delete(run: Run, path: str, *, user: User | None) -> int:
    """A file, or a folder with all that is in it; how many files. Raises NotFound."""
    count, _ = below(run, path).delete() if path else (0, {})
    if not count:
        raise NotFound(f"Run {run.pk} has no file {path}.")
    record_run("run.files_deleted", run, user, path=path, files=count)
    return count


def open_file(artifact: Artifact) -> BinaryIO:
    """Raises NotFound where it is not there, e.g. after a restore without files, and where the store is away."""
    for place in (_folder(artifact.run_id) / artifact.key, _incoming() / artifact.key):
        try:
            return place.open("rb")
        except FileNotFoundError:
            continue
    try:
        far = open_store(artifact.run_id)
        if far and (content := far.open(STORED, artifact.key)):
            return content
    except CheckpointError as error:
        raise NotFound(f"The content of {artifact.path} cannot be read now: {error}.") from error
    where = "on the disk of this server" + (" or in the checkpoint store" if far else "")
    raise NotFound(f"The content of {artifact.path} is not {where}.")


def copy_of(artifact: Artifact) -> Received:
    """The same content once more, to be kept elsewhere. Raises NotFound."""
    key = _new_key(artifact.run.project)
    with open_file(artifact) as source, (_incoming() / key).open("xb") as target:
        shutil.copyfileobj(source, target, PIECE)
    return Received(key, artifact.size, artifact.sha256)


def remove_file(run_id: str, key: str) -> None:
    """From the disk and the store; one that is not there is no matter."""
    for place in (_folder(run_id) / key, _incoming() / key):
        place.unlink(missing_ok=True)
    with suppress(OSError):  # there are others
        _folder(run_id).rmdir()
    try:
        if far := open_store(run_id):
            far.remove(f"{STORED}/{key}")
    except CheckpointError as error:
        log.warning("file %s of run %s stays: %s", key, run_id, error)


def _settle(run_id: str, key: str) -> None:
    """Into the folder of its run."""
    _folder(run_id).mkdir(parents=True, exist_ok=True)
    try:
        (_incoming() / key).rename(_folder(run_id) / key)
    except OSError as error:  # it is read from where it is
        log.warning("artifact %s of run %s stays where it was received: %s", key, run_id, error)


def move_to_store(seconds: float = MOVE_SECONDS) -> int:
    """Move files of runs from the disk to the store of checkpoints, where one is set up, for about so long; how many.
    What it does not take stays on the disk. Safe to repeat, and to kill anywhere."""
    until, count = time.monotonic() + seconds, 0
    for file in _root().glob("[!.]*/*"):
        run_id, key = file.parent.name, file.name
        try:
            far = open_store(run_id)
            if far is None or time.monotonic() > until:
                break
            far.keep(file, STORED, key)
        except CheckpointError as error:
            log.warning("files of runs stay on the disk: %s", error)
            break
        except FileNotFoundError:  # it was deleted meanwhile
            continue
        file.unlink(missing_ok=True)
        with suppress(OSError):  # there are others
            file.parent.rmdir()
        if not Artifact.objects.filter(run=run_id, key=key).exists():
            remove_file(run_id, key)
        count += 1
    return count


def clean_up() -> None:
    """Delete what was received and belongs to no run after a day, and folders of runs that are gone. Safe to repeat."""
    before = time.time() - LEFT_OVER_SECONDS
    old = {each.name: each for each in _incoming().iterdir() if _changed(each) < before}
    kept = set(Artifact.objects.filter(key__in=list(old)).values_list("key", flat=True)) if old else set()
    for name in old.keys() - kept:
        old[name].unlink(missing_ok=True)
    folders = {
        each.name: each for each in _root().iterdir() if each.name != INCOMING and _changed(each) < before
    }
    known = (
        set(Run.with_deleted.filter(pk__in=list(folders)).values_list("pk", flat=True)) if folders else set()
    )
    for name in folders.keys() - known:
        shutil.rmtree(folders[name], ignore_errors=True)


def _new_key(project: Project) -> str:
    return f"{project.pk}-{uuid.uuid4().hex}"


def _root() -> Path:
    return Path(settings.HEADROOM_HOME) / "artifacts"


def _folder(run_id: str) -> Path:
    """Raises InvalidInput for what is no id of a run: a project that is imported brings its own."""
    if not run_id.isalnum():
        raise InvalidInput("run", f"{run_id!r} is no id of a run.")
    return _root() / run_id


def _incoming() -> Path:
    folder = _root() / INCOMING
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _size_of(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # it has found its place meanwhile
        return 0


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()
