"""/api/v1/imports: files and servers of other trackers, read into runs."""

import tempfile
from pathlib import Path

from django.http import HttpRequest
from ninja import Field, File, Form, Query, Router, Schema, Status
from ninja.files import UploadedFile

from webapp.base.errors import InvalidInput
from webapp.interfaces.api.auth import READ, READ_HEAVY, WRITE, WRITE_HEAVY, project_of, user_of
from webapp.interfaces.api.derived import fields_of
from webapp.interfaces.api.openapi import answers
from webapp.interfaces.api.paging import PageQuery, Payload, page, page_of
from webapp.interfaces.imports import claims, services, uploads
from webapp.interfaces.imports.models import Import

router = Router(tags=["imports"])
OPTIONS_SCHEMA = uploads.OptionsBody.model_json_schema()


class BrokenOut(Schema):
    file: str
    line: int | None = Field(description="From 1; null where there is none to name.")
    reason: str


class ImportedRunOut(Schema):
    run: str
    name: str
    state: str = Field(description="Of the run.")
    rows_read: int
    rows_stored: int = Field(description="The others were stored before.")
    is_broken: bool = Field(description="Its rows end where the source is broken.")


@fields_of(
    Import,
    "id kind state source file_name size digest address task model options created_by created_at "
    "ended_at rows_read rows_stored runs_found runs_made broken notes can_resume",
)
class ImportOut(Schema):
    kind: str = Field(description="Empty as long as it has not been found out.")
    state: str = Field(description="draft, waiting, reading, finished, partial or failed.")
    source: str = Field(description="What is imported again under the same name adds to the same runs.")
    size: int = Field(description="Bytes that were uploaded.")
    digest: str = Field(description="SHA-256 of what was uploaded.")
    address: str = Field(description="Of the server it is read from.")
    created_by: str | None
    runs_found: int | None = Field(description="null: nobody has looked yet.")
    runs_made: int = Field(description="Runs that it has filled so far.")
    broken: BrokenOut | None = Field(description="Why it is partial or failed.")
    notes: list[str] = Field(description="What was left out or is unsure.")
    can_resume: bool


class ImportDetail(ImportOut):
    runs: list[ImportedRunOut]


class PreviewOut(Schema):
    kind: str
    columns: list[str]
    rows: list[list[str]] = Field(description="The first ones, as text.")
    guess: Payload = Field(description="Options that the names of the columns suggest.")
    unclear: list[str] = Field(description="What a person has to decide or should look at.")


Kind = Form("", max_length=40, description="csv, parquet, ...; empty: to be found out from the file.")
Options = Form("{}", max_length=500_000, description="JSON: `OptionsBody` says what it may hold.")
Address = Form("", max_length=600, description="Of a server, in place of files.")
Token = Form("", max_length=5000, description="Bearer token of the server, or with `user` its password.")
User = Form("", max_length=5000, description="Of the server.")
Files = File(None, description="One file, several, or one archive (.zip, .tar.gz) of a folder.")
IN_FORM = {"x-options-schema": OPTIONS_SCHEMA}


@router.get("", auth=READ_HEAVY, response=page_of(ImportOut), summary="List imports, newest first")
def list_imports(request: HttpRequest, query: Query[PageQuery]) -> Payload:
    """Each with how much was read and stored, and why it broke off where it did."""
    rows = claims.imports_of(project_of(request))
    return page(rows, query, order=["-created_at", "id"], payload=import_payload)


@router.post(
    "",
    auth=WRITE_HEAVY,
    response={201: ImportDetail},
    summary="Import files or a server of another tracker",
    description="A form (multipart/form-data). A worker reads it; ask for the import until it has ended. The same "
    "source again, also one that has grown, stores only what is new; a row that has changed is refused.",
    openapi_extra=IN_FORM | answers(409, 507),
)
def create_import(
    request: HttpRequest,
    kind: str = Kind,
    options: str = Options,
    address: str = Address,
    token: str = Token,
    user: str = User,
    files: list[UploadedFile] | None = Files,
) -> Status:
    made = services.begin_import(
        user=user_of(request),
        project=project_of(request),
        asked=uploads.asked_of_text(kind, options),
        files=uploads.files_of(request),
        server=uploads.Server(address, token, user),
    )
    return Status(201, _detail(request, made.pk))


@router.post(
    "/preview",
    auth=WRITE_HEAVY,
    response=PreviewOut,
    summary="How a table begins, and what its columns may be",
    description="A form (multipart/form-data) with one file of a table. Nothing of it is kept.",
    openapi_extra=IN_FORM | answers(507),
)
def preview_import(
    request: HttpRequest, kind: str = Kind, options: str = Options, files: list[UploadedFile] | None = Files
) -> Payload:
    asked = uploads.asked_of_text(kind, options)
    found = uploads.files_of(request)
    uploads.check(found)
    if len(found) > 1:
        raise InvalidInput("files", "files must be one file: a table.")
    with tempfile.TemporaryDirectory(dir=uploads.incoming_folder()) as folder:
        uploads.store(found, Path(folder) / "one")
        path = Path(folder) / "one" / uploads.UPLOADED / (found[0].name or "")
        known = asked.kind or services.kind_of(path)
        if not known:
            raise InvalidInput("kind", "kind is required: this is no file that Headroom knows by itself.")
        shown = services.preview_of(known, path, asked.options)
    return {"kind": known} | shown.model_dump(mode="json", exclude={"asked"})


@router.get(
    "/{import_id}", auth=READ, response=ImportDetail, summary="One import, and the runs that it fills"
)
def get_import(request: HttpRequest, import_id: str) -> Payload:
    """Ask for it until `state` is finished, partial or failed."""
    return _detail(request, import_id)


@router.post(
    "/{import_id}/resume",
    auth=WRITE,
    response=ImportDetail,
    summary="Read a partial or failed import again",
    description="A form (multipart/form-data), with the mended file where there is one. What is stored stays, and "
    "nothing is stored twice.",
    openapi_extra=answers(409, 507),
)
def resume_import(
    request: HttpRequest,
    import_id: str,
    token: str = Token,
    user: str = User,
    files: list[UploadedFile] | None = Files,
) -> Payload:
    found = claims.import_by_id(project_of(request), import_id)
    asking = user_of(request)
    services.resume_import(found, user=asking, files=uploads.files_of(request), token=token, account=user)
    return _detail(request, import_id)


def _detail(request: HttpRequest, import_id: str) -> Payload:
    found = claims.import_by_id(project_of(request), import_id)
    runs = [
        {
            "run": row.run_id,
            "name": row.run.name,
            "state": row.run.state,
            "rows_read": row.rows_done,
            "rows_stored": row.rows_stored,
            "is_broken": row.is_broken,
        }
        for row in claims.runs_in(found)
    ]
    return import_payload(found) | {"runs": runs}


def import_payload(one: Import) -> Payload:
    broken = {"file": one.broken_file, "line": one.broken_line, "reason": one.reason} if one.reason else None
    same = {name: getattr(one, name) for name in ImportOut.model_fields if hasattr(one, name)}
    return same | {
        "created_by": one.user.get_username() if one.user else None,
        "broken": broken,
    }
