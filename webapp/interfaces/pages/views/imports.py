"""Imports: the list, a new one, what the columns of a table are, and how far one is.

The example project that came with Headroom: opening it, and removing it for good.

Forms of imports. What is right or wrong is decided by `webapp.interfaces.imports`; a refusal is shown beside its
field.
"""

from typing import Any

from django import forms
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
from webapp.interfaces.imports.readers.kinds import KINDS
from webapp.interfaces.imports.readers.rows import Options, Preview
from webapp.interfaces.imports.services import preview_of
from webapp.interfaces.imports.uploads import MAX_NAME, ImportRequest, Server, asked_of
from webapp.interfaces.pages.access import SESSION_KEY, current_project, example_project, signed_in
from webapp.interfaces.pages.answers import page_or_fragment, telling
from webapp.interfaces.pages.forms import NamingForm
from webapp.record.runs.bounds import MAX_MODEL, MAX_TASK

PER_ROW, PERCENT = "/row", "/percent"  # after a role: how its numbers are meant
IGNORE = "ignore"
AMOUNTS = {"device_hours": "device-hours", "flops": "FLOPs", "tokens": "tokens"}
ROLE_WORDS: tuple[tuple[str, str], ...] = (
    ("", "a metric"),
    (IGNORE, "leave out"),
    ("run", "run name"),
    ("step", "step"),
    ("time", "time"),
    ("elapsed", "seconds since the run began"),
    *((name, f"{words}, total so far") for name, words in AMOUNTS.items()),
    *((f"{name}{PER_ROW}", f"{words} of each row") for name, words in AMOUNTS.items()),
    ("pass_rate", "pass rate"),
    (f"pass_rate{PERCENT}", "pass rate, in percent"),
    ("pass_rate_stderr", "standard error of the pass rate"),
    ("metric", "names of metrics (a long table)"),
    ("value", "values of metrics (a long table)"),
)
KIND_WORDS = {name: kind.label for name, kind in KINDS.items()}
FILE, SERVER = "file", "address"


def _text(label: str, most: int, help_text: str = "", **attrs: Any) -> forms.CharField:
    widget = forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"} | attrs)
    return forms.CharField(label=label, max_length=most, required=False, help_text=help_text, widget=widget)


class SaidForm(NamingForm):
    """What the source may not say itself."""

    devices = _text(
        "Devices",
        20,
        "GPUs that trained, or cores. Empty: device-hours are unknown.",
        inputmode="decimal",
    )
    timezone = _text("Time zone", 60, "Such as Europe/Berlin, of times without an offset.")
    task = _text("Task", MAX_TASK, "Where the source names none.")
    model = _text("Model", MAX_MODEL, "Where the source names none.")
    source = _text(
        "Name of the source",
        MAX_NAME,
        "The same name again adds to the same runs. Empty: the file’s.",
    )

    def options(self) -> dict[str, Any]:
        """As `asked_of` takes them. A number that is none is left as it was typed, so that its refusal names it."""
        data = self.cleaned_data
        said = {name: data[name] for name in ("timezone", "task", "model", "source")}
        return said | {"devices": _number(data["devices"])}


def _number(text: str) -> Any:
    try:
        return float(text) if text else None
    except ValueError:
        return text


class NewImportForm(SaidForm):
    """A file or a server of another tracker."""

    # For their errors: `webapp.interfaces.imports.uploads` takes the files themselves.
    files = forms.CharField(required=False)  # type: ignore[assignment]
    kind = forms.ChoiceField(required=False)
    pass_rate = _text(
        "Pass rate",
        MAX_NAME,
        "The metric, as the source calls it; from 0 to 1.",
    )
    percent = forms.BooleanField(label="It is in percent, from 0 to 100", required=False)
    experiments = _text("Experiments", 2000, "Names with commas between; empty: all.")
    address = _text(
        "Address", 500, "Where the server answers, such as https://mlflow.example.", inputmode="url"
    )
    user = _text("User", 200, "Empty, where a token opens it.")
    token = forms.CharField(
        label="Token or password",
        max_length=4000,
        required=False,
        help_text="Stored encrypted, and forgotten when the import has ended.",
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
    )

    def __init__(self, data: Any = None, *, takes: str, **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        self.takes = takes
        found = [
            (name, kind.label) for name, kind in KINDS.items() if (kind.takes == SERVER) == (takes == SERVER)
        ]
        self.fields["kind"].choices = found if takes == SERVER else [("", "find out from the file"), *found]  # type: ignore[attr-defined]
        for name in ("files",) if takes == SERVER else ("address", "user", "token", "experiments"):
            del self.fields[name]

    def asked(self) -> ImportRequest:
        """Raises InvalidInput."""
        data = self.cleaned_data
        columns = {"pass_rate": data["pass_rate"]} if data["pass_rate"] else {}
        names = [name.strip() for name in data.get("experiments", "").split(",") if name.strip()]
        said = {"columns": columns, "percent": data["percent"], "experiments": names}
        return asked_of(data["kind"], self.options() | said)


class ColumnsForm(SaidForm):
    """What each column of a table is. `shown` has the guess that stands there first."""

    def __init__(self, data: Any = None, *, shown: Preview, one: Import, **kwargs: Any) -> None:
        said = {"task": one.task, "model": one.model, "source": one.source}
        stored = Options(**one.options)
        said |= {"timezone": stored.timezone, "devices": f"{stored.devices:g}" if stored.devices else ""}
        super().__init__(data, initial=said, **kwargs)
        self.shown = shown
        self.pass_rate = stored.columns.get("pass_rate", "")  # as it was named before the columns were seen
        self.in_percent = stored.percent
        self.column_errors: dict[str, str] = {}

    def roles(self) -> dict[str, str]:
        """Column -> what it is said to be."""
        if not self.is_bound:
            return _guessed(self.shown.guess)
        names = self.shown.columns
        return {name: str(self.data.get(f"column-{i}", "")) for i, name in enumerate(names)}

    def columns(self) -> list[dict[str, Any]]:
        """Each column of the table with its first values, and what it is said to be."""
        roles, rows = self.roles(), self.shown.rows[:3]
        return [
            {
                "name": name,
                "field_name": f"column-{i}",
                "values": [row[i] for row in rows],
                "role": roles.get(name, ""),
                "error": self.column_errors.get(name, ""),
            }
            for i, name in enumerate(self.shown.columns)
        ]

    def asked(self, kind: str) -> ImportRequest:
        """Raises InvalidInput."""
        roles = self.roles()
        columns = {_bare(role): name for name, role in roles.items() if role not in ("", IGNORE)}
        percent = any(role.endswith(PERCENT) for role in roles.values())
        if "metric" in columns and self.pass_rate:
            columns.setdefault("pass_rate", self.pass_rate)
            percent |= self.in_percent
        per_row = [_bare(role) for role in roles.values() if role.endswith(PER_ROW)]
        ignored = [name for name, role in roles.items() if role == IGNORE]
        said = {"columns": columns, "per_row": per_row, "percent": percent, "ignore": ignored}
        return asked_of(kind, self.options() | said)

    def check_roles(self) -> bool:
        """Whether each role is one, and has one column; what is wrong stands beside the column."""
        words = dict(ROLE_WORDS)
        taken: dict[str, str] = {}
        for name, role in self.roles().items():
            bare = _bare(role)
            if role not in words:
                self.column_errors[name] = "Choose what this column is."
            elif role in ("", IGNORE):
                continue
            elif bare in taken:
                self.column_errors[name] = f"The column {taken[bare]} is this already."
            else:
                taken[bare] = name
        return not self.column_errors

    def refuse(self, error: ServiceError) -> None:
        role = (error.field or "").removeprefix("options.columns.").replace("options.percent", "pass_rate")
        named = [name for name, has in self.roles().items() if _bare(has) == role]
        if role != error.field and named:
            self.column_errors[named[0]] = error.message.removeprefix(f"{error.field}: ")
        else:
            super().refuse(error)


def _bare(role: str) -> str:
    return role.partition("/")[0]


def _guessed(guess: Options) -> dict[str, str]:
    meant = dict.fromkeys(guess.per_row, PER_ROW) | ({"pass_rate": PERCENT} if guess.percent else {})
    return {name: f"{role}{meant.get(role, '')}" for role, name in guess.columns.items()}


PAGE_SIZE = 30
MOST_RUNS = 200  # on an import's page
UNPROCESSABLE = 422


@never_cache
def imports(request: HttpRequest) -> HttpResponse:
    """All of the project, newest first; asked again while one is being read."""
    project = current_project(request)
    page = Paginator(claims.imports_of(project), PAGE_SIZE).get_page(request.GET.get("page"))
    context = {"page": page, "any_open": claims.any_open(project), "kinds": KIND_WORDS}
    return page_or_fragment(request, "imports/list.html", "imports/_rows.html", context)


@never_cache
def new_import(request: HttpRequest) -> HttpResponse:
    """The form, for files or (`from=server`) for a server."""
    project, user = current_project(request), signed_in(request)
    takes = SERVER if request.GET.get("from") == "server" else FILE
    form = NewImportForm(request.POST if request.method == "POST" else None, takes=takes)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        with form.refusing():
            made = services.begin_import(
                user=user,
                project=project,
                asked=form.asked(),
                files=uploads.files_of(request),
                server=Server(data.get("address", ""), data.get("token", ""), data.get("user", "")),
                may_ask=True,
            )
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
    rows = list(claims.runs_in(found)[: MOST_RUNS + 1])
    context = {
        "one": found,
        "kind": KIND_WORDS.get(found.kind, ""),
        "rows": rows[:MOST_RUNS],
        "more": len(rows) > MOST_RUNS,
        "server": bool(found.address),
    }
    return page_or_fragment(request, "imports/import.html", "imports/_state.html", context)


def _get(request: HttpRequest, import_id: str) -> Import:
    return claims.import_by_id(current_project(request), import_id)


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
        with form.refusing():
            services.start_import(found, user=signed_in(request), asked=form.asked(found.kind))
            return redirect("import", found.pk)
    is_refused = bool(form.errors or form.column_errors)
    context = {
        "one": found,
        "form": form,
        "shown": shown,
        "columns": form.columns(),
        "roles": ROLE_WORDS,
        "is_refused": is_refused,
    }
    return render(request, "imports/columns.html", context, status=UNPROCESSABLE if is_refused else 200)


def resume(request: HttpRequest, import_id: str) -> HttpResponse:
    """Read it again, with a mended file where one is sent."""
    found = _get(request, import_id)
    with telling(request):
        services.resume_import(
            found,
            user=signed_in(request),
            files=uploads.files_of(request),
            token=request.POST.get("token", ""),
            account=request.POST.get("user", ""),
        )
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
