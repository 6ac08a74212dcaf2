"""The form of a new study, with a preview of every run and of the cost before anything is stored."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from training.models import available_models, default_home
from training.tasks import task_names
from webapp.base.errors import Conflict, InvalidInput, ServiceError
from webapp.identity.accounts.models import Project
from webapp.interfaces.pages.access import current_project, signed_in
from webapp.interfaces.pages.answers import not_here, page_or_fragment
from webapp.interfaces.pages.forms import new_key
from webapp.interfaces.pages.launching.fields import asked_revision, newest_revisions
from webapp.interfaces.pages.study_forms import StudyForm, choices_for, preview_rows
from webapp.record.recipes.models import Revision
from webapp.record.recipes.services import parse_config
from webapp.science.studies import services
from webapp.science.studies.axes import NAMED_AXES, base_value, setting_paths
from webapp.science.studies.models import Study, StudyKind
from webapp.science.studies.planning import estimate, plan


def new_study(request: HttpRequest) -> HttpResponse:
    """The form; asked by htmx (another base was chosen), the form alone with its defaults."""
    if not (revisions := _revisions(current_project(request))):
        return render(request, "studies/new.html", {"no_recipes": True})
    base = asked_revision(request, revisions)
    form = _form(request, revisions, base)
    if request.method == "POST" and form.is_valid() and (made := _try_create(request, form)):
        return redirect("study", made.pk)
    context = _form_context(request, form, base) | {"not_here": not_here(request, base)}
    status = 422 if form.errors else 200
    return page_or_fragment(request, "studies/new.html", "studies/_form.html", context, status)


def preview(request: HttpRequest) -> HttpResponse:
    """Each run with its one difference, and what all of them cost; a mistake is said instead. Nothing is stored."""
    project = current_project(request)
    if not (revisions := _revisions(project)):
        raise Http404("no recipes")
    form = _form(request, revisions, asked_revision(request, revisions))
    form.fields["name"].required = False
    form.fields["idempotency_key"].required = False
    context: dict[str, Any] = {}
    if not form.is_valid():
        field, errors = next(iter(form.errors.items()))
        label = (
            ""
            if field == "__all__"
            else f"{form.fields[field].label or field.replace('_', ' ').capitalize()}: "
        )
        context["problem"] = f"{label}{errors[0]}"
    elif not form.changes():  # nobody has typed anything wrong yet
        context["awaits"] = "the values of the axis" if form.is_axis else "at least one choice to take back"
    else:
        try:
            planned = plan(project, form.request())
            context |= {"rows": preview_rows(planned), "estimate": estimate(project, planned)}
        except ServiceError as error:
            context["problem"] = error.message
    return render(request, "studies/_preview.html", context)


def _revisions(project: Project) -> list[Revision]:
    """The newest revision of each recipe; ScaleRL at the local default's size first, then by slug."""
    order = lambda slug: (not slug.endswith("scalerl"), not slug.startswith("tiny-"), slug)
    return sorted(newest_revisions(project), key=lambda revision: order(revision.recipe.slug))


def _form(request: HttpRequest, revisions: list[Revision], base: Revision) -> StudyForm:
    numbers = list(base.recipe.revisions.order_by("-number").values_list("number", "message"))
    choices: dict[str, list[tuple[Any, str]]] = {
        "recipe": [(r.recipe.slug, r.recipe.name) for r in revisions],
        "revision": [(n, f"rev {n}{f': {message}' if message else ''}") for n, message in numbers],
        "task": [(name, name) for name in task_names()],
    }
    config, query = base.config, request.GET
    kind = query.get("kind", "")
    defaults = {
        "kind": kind if kind in StudyKind.values else StudyKind.LEAVE_ONE_OUT,
        "name": query.get("name", ""),
        "recipe": base.recipe.slug,
        "revision": base.number,
        "task": config["task"]["name"],
        "model": config["model"],
        "seeds": query.get("seeds") or "0, 1, 2",
        "budget_hours": config["budget"]["device_hours"],
        "axis": query.get("axis", ""),
        "path": query.get("path", ""),
        "values": query.get("values", ""),
        "settings": query.get("settings", ""),
        "idempotency_key": new_key(),
    }
    recipe = parse_config(config)
    base_of = ", ".join(
        f"{axis.title.lower()} {value}"
        for axis in NAMED_AXES.values()
        if (value := base_value(axis.key, recipe))
    )
    form = StudyForm(request.POST if request.method == "POST" else None, choices=choices, initial=defaults)
    form.fields["axis"].help_text = f"The base has {base_of}."
    return form


def _form_context(request: HttpRequest, form: StudyForm, base: Revision) -> dict[str, Any]:
    recipe = parse_config(base.config)
    ticked = set(form.data.getlist("change")) if form.is_bound else None
    return {
        "form": form,
        "base": base,
        "choices": [] if form.is_axis else choices_for(recipe, ticked),
        "paths": setting_paths(recipe),
        "models": list(available_models(default_home())),
        "kinds": StudyKind,
    }


def _try_create(request: HttpRequest, form: StudyForm) -> Study | None:
    """The study, or None with the service's objection put into the form."""
    try:
        return services.create_study(
            form.request(),
            user=signed_in(request),
            project=current_project(request),
            idempotency_key=form.cleaned_data["idempotency_key"],
        ).study
    except InvalidInput as error:
        form.refuse(error)
    except Conflict:
        form.renew_key()
        form.add_error(
            None, "This form was sent before with other values. Send it again to make another study."
        )
    return None
