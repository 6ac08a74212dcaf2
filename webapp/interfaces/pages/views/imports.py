"""Imports: the list, a new one, what the columns of a table are, and how far one is.

The example project that came with Headroom: opening it, and removing it for good.
"""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache

from webapp.base.disk import bytes_in_words
from webapp.base.errors import InvalidInput, ServiceError
from webapp.interfaces.imports import claims, services, uploads
from webapp.interfaces.imports.example import remove_example
from webapp.interfaces.imports.models import Import, State
from webapp.interfaces.imports.readers.rows import Options
from webapp.interfaces.imports.services import preview_of
from webapp.interfaces.imports.uploads import Server
from webapp.interfaces.pages.access import SESSION_KEY, current_project, example_project, signed_in
from webapp.interfaces.pages.answers import page_or_fragment
from webapp.interfaces.pages.import_forms import FILE, SERVER, ColumnsForm, NewImportForm, kinds_in_words

PAGE_SIZE = 30
MOST_RUNS = 200  # on an import's page
UNPROCESSABLE = 422


@never_cache
def imports(request: HttpRequest) -> HttpResponse:
    """All of the project, newest first; asked again while one is being read."""
    project = current_project(request)
    page = Paginator(claims.imports_of(project), PAGE_SIZE).get_page(request.GET.get("page"))
    context = {"page": page, "any_open": claims.any_open(project), "kinds": kinds_in_words()}
    return page_or_fragment(request, "imports/list.html", "imports/_rows.html", context)


@never_cache
def new_import(request: HttpRequest) -> HttpResponse:
    """The form, for files or (`from=server`) for a server."""
    project, user = current_project(request), signed_in(request)
    takes = SERVER if request.GET.get("from") == "server" else FILE
    form = NewImportForm(request.POST if request.method == "POST" else None, takes=takes)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            made = services.begin_import(
                user=user,
                project=project,
                asked=form.asked(),
                files=uploads.files_of(request),
                server=Server(data.get("address", ""), data.get("token", ""), data.get("user", "")),
                may_ask=True,
            )
        except ServiceError as error:
            form.refuse(error)
        else:
            return redirect("import", made.pk)
    most = bytes_in_words(settings.IMPORT_MAX_BYTES)
    context = {"form": form, "server": takes == SERVER, "most": most}
    return render(request, "imports/new.html", context, status=UNPROCESSABLE if form.errors else 200)


@never_cache
def one_import(request: HttpRequest, import_id: str) -> HttpResponse:
    """How far it is; of a draft what its columns are, and (POST) that it begins."""
    found = _get(request, import_id)
    if found.state == State.DRAFT:
        return _draft(request, found)
    if request.method == "POST":  # sent twice, or begun in another tab
        return redirect("import", found.pk)
    return page_or_fragment(request, "imports/import.html", "imports/_state.html", _detail(found))


def _get(request: HttpRequest, import_id: str) -> Import:
    return claims.import_by_id(current_project(request), import_id)


def _detail(found: Import) -> dict[str, Any]:
    rows = list(claims.runs_in(found)[: MOST_RUNS + 1])
    return {
        "one": found,
        "kind": kinds_in_words().get(found.kind, ""),
        "rows": rows[:MOST_RUNS],
        "more": len(rows) > MOST_RUNS,
        "server": bool(found.address),
    }


def _draft(request: HttpRequest, found: Import) -> HttpResponse:
    path = uploads.uploaded(found.pk)
    try:
        if path is None:
            raise InvalidInput("files", "The uploaded file is gone; upload it again.")
        shown = preview_of(found.kind, path, Options(**found.options))
    except InvalidInput as error:
        return render(
            request, "imports/columns.html", {"one": found, "problem": error.message}, status=UNPROCESSABLE
        )
    form = ColumnsForm(request.POST if request.method == "POST" else None, shown=shown, one=found)
    if request.method == "POST" and form.is_valid() and form.check_roles():
        try:
            services.start_import(found, user=signed_in(request), asked=form.asked(found.kind))
        except ServiceError as error:
            form.refuse(error)
        else:
            return redirect("import", found.pk)
    is_refused = bool(form.errors or form.column_errors)
    context = {
        "one": found,
        "form": form,
        "shown": shown,
        "columns": form.columns(),
        "is_refused": is_refused,
    }
    return render(request, "imports/columns.html", context, status=UNPROCESSABLE if is_refused else 200)


def resume(request: HttpRequest, import_id: str) -> HttpResponse:
    """Read it again, with a mended file where one is sent."""
    found = _get(request, import_id)
    try:
        services.resume_import(
            found,
            user=signed_in(request),
            files=uploads.files_of(request),
            token=request.POST.get("token", ""),
            account=request.POST.get("user", ""),
        )
    except ServiceError as error:
        messages.warning(request, error.message)
    return redirect("import", found.pk)


@never_cache
def open_example(request: HttpRequest) -> HttpResponse:
    """From now on the pages show it: its studies first."""
    request.session[SESSION_KEY] = example_project(request).slug
    return redirect("studies")


def remove(request: HttpRequest) -> HttpResponse:
    """For owners of its organisation."""
    example_project(request)
    remove_example(actor=signed_in(request))
    request.session.pop(SESSION_KEY, None)
    messages.success(request, "The example project is removed.")
    return redirect("overview")
