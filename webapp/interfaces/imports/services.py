"""What people do with imports: begin one, name its columns, resume it. `reading` is the worker's part.

Tables: what their columns are, as somebody says or as their names suggest.
"""

import json
import logging
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.utils import timezone

from webapp.base import outbound, task_queue
from webapp.base.errors import Conflict, InvalidInput
from webapp.base.sealing import seal
from webapp.identity.accounts.models import Project, User
from webapp.identity.audit.services import record
from webapp.interfaces.imports import uploads
from webapp.interfaces.imports.apart import guess_kind, preview
from webapp.interfaces.imports.models import OPEN, RESUMABLE, Import, State
from webapp.interfaces.imports.readers.guessing import in_percent
from webapp.interfaces.imports.readers.kinds import KINDS
from webapp.interfaces.imports.readers.rows import BadSource, Options, Preview
from webapp.interfaces.imports.readers.table import METRIC_ROLES
from worker import names

PASS_RATES = {"pass_rate", "pass_rate_stderr"}  # may be named alone, also before anybody has seen the columns
log = logging.getLogger(__name__)
OURS = "headroom"  # of `readers.kinds.KINDS`
MOST_WAITING = 100  # of a project
ORPHANED = timedelta(days=1)  # a folder that no import knows, or an upload that was broken off


def kind_of(path: Path) -> str | None:
    """What kind of source a file is; None where it cannot be told. Raises InvalidInput (files)."""
    try:
        return guess_kind(path)
    except BadSource as error:
        raise InvalidInput("files", str(error)) from error


def preview_of(kind: str, path: Path, options: Options) -> Preview:
    """The beginning of a table. Raises InvalidInput (kind, files)."""
    try:
        return preview(kind, path, options)
    except BadSource as error:
        raise InvalidInput("files", str(error)) from error
    except ValueError as error:
        raise InvalidInput("kind", f"kind: {error}.") from error


def mapping_of(kind: str, path: Path, options: Options) -> Options:
    """The options with every column checked against the table; without columns those that their names say.

    Raises InvalidInput (options.columns, options.columns.ROLE, options.percent, files).
    """
    shown = preview_of(kind, path, options)
    if not options.columns.keys() - PASS_RATES:
        guess = {role: name for role, name in shown.guess.columns.items() if role not in shown.asked}
        if "step" not in guess:
            raise InvalidInput("options.columns", f"options.columns is required. {' '.join(shown.unclear)}")
        options = options.model_copy(update={"columns": {**guess, **options.columns}})
    for role, name in options.columns.items():
        is_metric = "metric" in options.columns and role in METRIC_ROLES  # there it is the name of a metric
        if name not in shown.columns and not is_metric:
            raise InvalidInput(
                f"options.columns.{role}", f"options.columns.{role}: there is no column {name[:80]}."
            )
    _check_percent(shown, options)
    return options


def _check_percent(shown: Preview, options: Options) -> None:
    """Raises InvalidInput where the pass rate seems to be in percent and nobody has said so, or the other way round."""
    name = options.columns.get("pass_rate")
    if options.percent and name is None:
        raise InvalidInput(
            "options.percent", "options.percent: say which column is the pass rate that is in percent."
        )
    if options.percent or name not in shown.columns:
        return
    position = shown.columns.index(name)
    if in_percent([row[position] for row in shown.rows]):
        raise InvalidInput(
            "options.percent",
            f"options.percent: {name[:80]} is to be the pass rate, and goes beyond 1: where it is in percent, say so.",
        )


MAX_ADDRESS, MAX_CREDENTIAL = 500, 4000


def begin_import(
    *,
    user: User | None,
    project: Project,
    asked: uploads.ImportRequest,
    files: Sequence[UploadedFile] = (),
    server: uploads.Server = uploads.NO_SERVER,
    may_ask: bool = False,
) -> Import:
    """Store what was uploaded and have a worker read it. With `may_ask` a table waits for its columns to be named;
    without, they are as `asked` or their names say.

    What opens a server is stored sealed and forgotten when the import has ended. Raises InvalidInput (kind, files,
    address, token, options.*).
    """
    if Import.objects.filter(project=project, state__in=(State.DRAFT, *OPEN)).count() >= MOST_WAITING:
        raise Conflict(f"{MOST_WAITING} imports of this project have not ended; wait until some have.")
    made = Import(
        project=project, user=user, task=asked.task, model=asked.model, kind=asked.kind, source=asked.source,
        options=asked.options.model_dump(mode="json"),
    )  # fmt: skip
    if _is_server(asked.kind):
        _point_at(made, files, server)
    elif server.address:
        raise InvalidInput("address", "address is for kinds that are read from a server.")
    else:
        _keep(made, files)
    try:
        with transaction.atomic():
            _begin(made, asked, may_ask)
    except BaseException:
        uploads.remove(uploads.folder_of(made.pk))
        raise
    return made


def _is_server(kind: str) -> bool:
    return bool(kind) and KINDS[kind].takes == "address"


def _point_at(made: Import, files: Sequence[UploadedFile], server: uploads.Server) -> None:
    address, token, account = server.address, server.token, server.account
    if files:
        raise InvalidInput("files", "files are not for this kind: it is read from a server.")
    if not address or len(address) > MAX_ADDRESS or not address.isprintable():
        raise InvalidInput(
            "address", "address is required: where the server answers, such as https://mlflow.example."
        )
    try:
        outbound.check_url(address)
    except outbound.Refused as error:
        raise InvalidInput("address", str(error)) from error
    for field, text in (("token", token), ("user", account)):
        if len(text) > MAX_CREDENTIAL or not text.isprintable():
            raise InvalidInput(
                field, f"{field} must have at most {MAX_CREDENTIAL:,} characters, all of them printable."
            )
    made.address = address
    made.source = made.source or address[: uploads.MAX_NAME]
    made.sealed_credentials = seal(json.dumps([token, account])) if token or account else ""


def _keep(made: Import, files: Sequence[UploadedFile]) -> None:
    uploads.check(files)
    for name, value in uploads.store(files, uploads.folder_of(made.pk)).items():
        setattr(made, name, value)
    made.source = made.source or made.file_name[: uploads.MAX_NAME]


def _begin(made: Import, asked: uploads.ImportRequest, may_ask: bool) -> None:
    path = uploads.uploaded(made.pk)
    if path is not None and not uploads.is_archive(path.name):
        is_plain = KINDS[made.kind].preview is not None if made.kind else False
        if is_plain and not asked.options.columns and kind_of(path) == OURS:
            made.kind = OURS  # a table of ours says what its columns are
        made.kind = made.kind or kind_of(path) or ""
        if not made.kind:
            raise InvalidInput("kind", f"kind is required: this is no file that Headroom knows by itself. It is one of "
                                       f"{', '.join(sorted(KINDS))}.")  # fmt: skip
        if KINDS[made.kind].preview is not None and path.is_file():
            if may_ask:
                made.state = State.DRAFT
            else:
                made.options = mapping_of(made.kind, path, asked.options).model_dump(mode="json")
    made.save(force_insert=True)
    if made.state == State.WAITING:
        _start("import.started", made, made.user)


def _start(verb: str, one: Import, user: User | None) -> None:
    record(
        verb, actor=user, project=one.project, kind="import", key=one.pk, name=str(one),
        format=one.kind or "unknown", bytes=one.size,
    )  # fmt: skip
    task_queue.send(names.IMPORT)


@transaction.atomic
def start_import(one: Import, *, user: User | None, asked: uploads.ImportRequest) -> None:
    """A draft with its columns named: have it read. Safe to repeat.

    Raises Conflict where its file is gone, and InvalidInput (options.*) for a mapping that cannot be read.
    """
    path = uploads.uploaded(one.pk)
    if path is None:
        raise Conflict("The uploaded file is gone; upload it again.")
    options = mapping_of(one.kind, path, asked.options)
    if Import.objects.filter(pk=one.pk, state=State.DRAFT).update(
        state=State.WAITING, options=options.model_dump(mode="json"), task=asked.task,
        model=asked.model, source=asked.source or one.source,
    ):  # fmt: skip
        _start("import.started", one, user)


@transaction.atomic
def resume_import(
    one: Import, *, user: User | None, files: Sequence[UploadedFile] = (), token: str = "", account: str = ""
) -> None:
    """Read a partial or failed import again, with mended `files` where they are given. What is stored stays; rows that
    come again are compared with it.

    Raises Conflict where it is neither partial nor failed or its file is gone, and InvalidInput (files, token, user).
    """
    held = Import.objects.select_for_update().get(pk=one.pk)
    if held.state == State.FINISHED:
        raise Conflict(
            "This import has finished. A file that has grown since is imported anew: nothing is stored twice."
        )
    if held.state not in RESUMABLE:
        raise Conflict(f"This import is {held.state}; only one that is partial or failed is resumed.")
    if _is_server(held.kind):
        _point_at(held, files, uploads.Server(held.address, token, account))
    elif files:
        _keep(held, files)
    elif uploads.uploaded(held.pk) is None:
        raise Conflict("The uploaded file was deleted meanwhile; send it again.", field="files")
    held.imported.update(rows_done=0, is_done=False, is_broken=False)
    held.state, held.reason, held.broken_file, held.broken_line = State.WAITING, "", "", None
    held.notes, held.rows_read, held.tries, held.turn_at, held.ended_at = [], 0, 0, None, None
    held.claim, held.claimed_until = "", None
    held.save()
    _start("import.resumed", held, user)


def clean_up() -> int:
    """Delete files of imports that ended, or were begun, IMPORT_KEEP_DAYS ago, and what broken uploads left; how many
    imports it were. Safe to repeat, and to interrupt anywhere."""
    now = timezone.now()
    old = Import.objects.filter(
        has_files=True, created_at__lt=now - timedelta(days=settings.IMPORT_KEEP_DAYS)
    )
    old = old.exclude(state__in=OPEN).exclude(ended_at__gt=now - timedelta(days=settings.IMPORT_KEEP_DAYS))
    count = 0
    for one in old[:100]:
        uploads.remove(uploads.folder_of(one.pk))
        count += Import.objects.filter(pk=one.pk).exclude(state__in=OPEN).update(has_files=False)
    Import.objects.filter(state=State.DRAFT, has_files=False).delete()
    _remove_orphans(now.timestamp() - ORPHANED.total_seconds())
    return count


def _remove_orphans(before: float) -> None:
    """Folders of no import, and uploads that never became one."""
    incoming = uploads.incoming_folder()
    folders = list(uploads.imports_folder().iterdir())
    known = {incoming.name, *Import.objects.filter(has_files=True).values_list("pk", flat=True)}
    for path in [*incoming.iterdir(), *(folder for folder in folders if folder.name not in known)]:
        try:
            if path.stat().st_mtime < before:
                path.unlink() if path.is_file() else uploads.remove(path)
        except OSError as error:
            log.warning("clean-up of %s: %s", path.name, error)
