"""Uploads: streamed to disk, bounded, from nobody but people who are signed in and tokens; and where they then lie.

What somebody asks of an import, checked: each refusal names its field.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files.uploadedfile import TemporaryUploadedFile, UploadedFile
from django.core.files.uploadhandler import (
    FileUploadHandler,
    SkipFile,
    StopUpload,
    TemporaryFileUploadHandler,
)
from django.http import HttpRequest
from pydantic import Field, ValidationError
from pydantic_core import from_json

from webapp.base.disk import bytes_in_words, check_room
from webapp.base.errors import InvalidInput
from webapp.interfaces.imports.readers import archives
from webapp.interfaces.imports.readers.kinds import KINDS
from webapp.interfaces.imports.readers.rows import Options
from webapp.record.runs.bounds import MAX_MODEL, MAX_TASK, clean_text

MOST_FILES = 100  # at once; more of them come as one archive
MAX_FILE_NAME = 200
OF_RUNS = "/api/upload"  # files that runs keep
API = ("/api/v1/imports", OF_RUNS)  # their token is checked before anything of the body is read
UPLOADED = "uploaded"
INCOMING = ".incoming"


class TooLarge(InvalidInput):
    code = "too_large"

    def __init__(self) -> None:
        most = bytes_in_words(settings.IMPORT_MAX_BYTES)
        super().__init__("files", f"files must have at most {most} together.", status=413)


class Incoming(TemporaryUploadedFile):
    """A file that is being received: on the disk of HEADROOM_HOME, gone when it is closed."""

    def __init__(self, name: str | None, content_type: str | None, charset: str | None, extra: Any) -> None:
        file = tempfile.NamedTemporaryFile(suffix=".upload", dir=incoming_folder())  # noqa: SIM115 - closed with the request
        UploadedFile.__init__(self, file, name, content_type, 0, charset, extra)


class Bounded(TemporaryFileUploadHandler):
    """Django's upload handler for every form: files go to disk, and of more bytes than an import or a file of a run may
    have none is kept."""

    received = most = 0

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        if self.request is None or not _may_upload(self.request):
            raise StopUpload(connection_reset=True)
        FileUploadHandler.new_file(self, *args, **kwargs)
        of_runs = self.request.path.startswith(OF_RUNS)
        self.most = settings.ARTIFACT_MAX_BYTES if of_runs else settings.IMPORT_MAX_BYTES
        self.file = Incoming(self.file_name, self.content_type, self.charset, self.content_type_extra)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        self.received += len(raw_data)
        if self.received > self.most:
            self.request.upload_too_large = self.file_name  # type: ignore[union-attr]
            raise SkipFile
        super().receive_data_chunk(raw_data, start)


def _may_upload(request: HttpRequest) -> bool:
    """The API has asked for the token by now; for pages `webapp.interfaces.pages.middleware` says it."""
    return request.path.startswith(API) or bool(getattr(request, "may_upload", lambda: False)())


def files_of(request: HttpRequest) -> list[UploadedFile]:
    """The files of a form. Raises InvalidInput: 413 where they are too large."""
    files = request.FILES.getlist("files")
    if too_large_of(request):
        raise TooLarge
    return files


def too_large_of(request: HttpRequest) -> str:
    """The name of the file that went beyond the limit, once `request.FILES` was read."""
    return getattr(request, "upload_too_large", None) or ""


def imports_folder() -> Path:
    """Where each import has a folder of its id."""
    return Path(settings.HEADROOM_HOME) / "imports"


def incoming_folder() -> Path:
    """Where uploads lie until they are an import's."""
    folder = imports_folder() / INCOMING
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def folder_of(import_id: str) -> Path:
    return imports_folder() / import_id


def check(files: Sequence[UploadedFile]) -> None:
    """Raises InvalidInput (files): none, too many, too large, or names that cannot be told apart."""
    if not files:
        raise InvalidInput("files", "files is required: the file to import, or an archive of its folder.")
    if len(files) > MOST_FILES:
        raise InvalidInput(
            "files", f"files must be at most {MOST_FILES}; send a folder as one archive (.zip or .tar.gz)."
        )
    names = [clean_text("files", file.name or "", MAX_FILE_NAME) for file in files]
    if any(not name or name in (".", "..") or "/" in name or "\\" in name for name in names):
        raise InvalidInput("files", "files must have names.")
    if len(set(names)) < len(names):
        raise InvalidInput("files", "Two of the files have the same name.")
    if not sum(file.size or 0 for file in files):
        raise InvalidInput("files", f"{names[0]} is empty.")
    if sum(file.size or 0 for file in files) > settings.IMPORT_MAX_BYTES:
        raise TooLarge
    check_room(sum(file.size or 0 for file in files), "files")


def store(files: Sequence[UploadedFile], folder: Path) -> dict[str, Any]:
    """Write the files of `check` into a new `folder`; all of them, or it is not there. What an import says of them.
    Raises OSError."""
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    (partial / UPLOADED).mkdir(parents=True)
    try:
        digests = {file.name or "": _write(file, partial / UPLOADED / (file.name or "")) for file in files}
        remove(folder)
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    first, *more = digests
    listed = "\n".join(f"{name}\n{each}" for name, each in sorted(digests.items()))
    return {
        "file_name": f"{first} and {len(more)} more" if more else first,
        "size": sum(file.size or 0 for file in files),
        "digest": hashlib.sha256(listed.encode()).hexdigest() if more else digests[first],
        "has_files": True,
    }


def _write(file: UploadedFile, path: Path) -> str:
    """The SHA-256 of what was written."""
    digest = hashlib.sha256()
    with path.open("xb") as out:
        for chunk in file.chunks():
            digest.update(chunk)
            out.write(chunk)
    return digest.hexdigest()


def uploaded(import_id: str) -> Path | None:
    """The only file of an import, or the folder of several; None where they are gone."""
    folder = folder_of(import_id) / UPLOADED
    try:
        files = sorted(folder.iterdir())
    except FileNotFoundError:
        return None
    return files[0] if len(files) == 1 else folder


def is_archive(name: str) -> bool:
    return name.lower().endswith(archives.ENDINGS)


def remove(folder: Path) -> None:
    """Delete the folder; one that is not there is no matter. It is renamed first, so that none is half there."""
    gone = folder.with_name(f".{folder.name}.gone")
    shutil.rmtree(gone, ignore_errors=True)
    with suppress(FileNotFoundError):
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


MAX_NAME = 200


class OptionsBody(Options):
    """The options of an import as they are sent: JSON."""

    source: str = Field(
        "",
        max_length=MAX_NAME,
        description="Names the source. What is imported again under the same name adds to the same runs. Without it "
        "the name of the file.",
    )
    task: str = Field("", max_length=MAX_TASK, description="Of runs whose source does not name theirs.")
    model: str = Field("", max_length=MAX_MODEL, description="Of runs whose source does not name theirs.")


@dataclass(frozen=True)
class ImportRequest:
    """`kind` empty: to be found out from the file."""

    kind: str
    options: Options
    source: str = ""
    task: str = ""
    model: str = ""


@dataclass(frozen=True)
class Server:
    """Where an import is read from in place of files, and what opens it. `account`: the user of a password."""

    address: str = ""
    token: str = field(default="", repr=False)
    account: str = ""


NO_SERVER = Server()


def asked_of(kind: str, options: Mapping[str, Any]) -> ImportRequest:
    """Check what was sent. Raises InvalidInput (kind, options.*)."""
    if kind and kind not in KINDS:
        raise InvalidInput("kind", f"kind must be one of {', '.join(sorted(KINDS))}.")
    try:
        body = OptionsBody.model_validate(options)
    except ValidationError as error:
        first, *_ = problems = error.errors(include_url=False)
        if first["type"] == "value_error":  # of `Options`, which says it in a sentence of its own
            field = f"options.{first['loc'][0]}"
            raise InvalidInput(field, f"{field}: {first['ctx']['error']}.") from error
        raise InvalidInput.from_problems(problems, under="options") from error
    texts = {
        name: clean_text(f"options.{name}", getattr(body, name), MAX_NAME)
        for name in ("name", "source", "task", "model")
    }
    said = body.model_dump(exclude={"source", "task", "model"}) | {"name": texts.pop("name")}
    return ImportRequest(kind, Options(**said), **texts)


def asked_of_text(kind: str, text: str) -> ImportRequest:
    """As `asked_of`, of options that are JSON. Raises InvalidInput."""
    try:
        options = from_json(text or "{}", allow_inf_nan=False)
    except ValueError as error:
        raise InvalidInput("options", f"options is not valid JSON: {error}.") from error
    if not isinstance(options, dict):
        raise InvalidInput("options", "options must be an object.")
    if "\\u0000" in text:
        raise InvalidInput("options", "options holds a NUL character, which cannot be stored.")
    return asked_of(kind, options)
