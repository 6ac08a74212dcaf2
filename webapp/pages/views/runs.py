"""The list of runs, and the launch of one."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from training.models import available_models, default_home
from training.tasks import task_names
from webapp.errors import Conflict, InvalidInput
from webapp.pages import facts
from webapp.pages.access import current_project, signed_in
from webapp.pages.forms import LaunchForm, add_service_error, new_key
from webapp.pages.fragments import page_or_fragment
from webapp.pages.list_page import list_page
from webapp.recipes.hints import hints_for
from webapp.recipes.models import Revision
from webapp.runs import launch as launching
from webapp.runs.models import Run


@login_required
@require_GET
def runs(request: HttpRequest) -> HttpResponse:
    """The list; asked by htmx, what it swaps; with the header X-Cursor, what changed since."""
    return list_page(request)


@login_required
@require_http_methods(["GET", "POST"])
def launch(request: HttpRequest) -> HttpResponse:
    """The launch form; asked by htmx (another recipe or revision was chosen), the form alone with its defaults."""
    revisions = _newest_revisions(current_project(request))
    if not revisions:
        return render(request, "runs/launch.html", {"no_recipes": True})
    revision = _chosen(request, revisions)
    form = _launch_form(request, revisions, revision)
    if request.method == "POST" and form.is_valid():
        run = _try_launch(request, form)
        if run:
            return redirect("run", run.pk)
    context = {
        "form": form,
        "revision": revision,
        "facts": facts.key_settings(revision.config),
        "models": list(available_models(default_home())),
        "hints": hints_for(revision.config, str(form["model"].value() or "")),
    }
    status = 422 if form.errors else 200
    return page_or_fragment(request, "runs/launch.html", "runs/_launch_form.html", context, status)


@login_required
@require_GET
def launch_hints(request: HttpRequest) -> HttpResponse:
    """Hints on the chosen revision for the model that is being typed."""
    revisions = _newest_revisions(current_project(request))
    config = _chosen(request, revisions).config if revisions else {}
    hints = hints_for(config, request.GET.get("model", ""))
    return render(request, "recipes/_hints.html", {"hints": hints})


def _chosen(request: HttpRequest, revisions: list[Revision]) -> Revision:
    """The revision that the request names, else the newest of its recipe, else of the first recipe."""
    asked = request.POST or request.GET
    newest = next((r for r in revisions if r.recipe.slug == asked.get("recipe")), revisions[0])
    number = asked.get("revision", "")
    same_recipe = request.headers.get("HX-Trigger-Name") != "recipe"
    if same_recipe and number.isdigit() and int(number) < newest.number:
        return newest.recipe.revisions.select_related("recipe").filter(number=number).first() or newest
    return newest


def _newest_revisions(project: Any) -> list[Revision]:
    """The newest revision of each recipe of the project; those for the local default (tiny) first."""
    newest = (
        Revision.objects.filter(recipe__project=project)
        .select_related("recipe")
        .order_by("recipe_id", "-number")
        .distinct("recipe_id")
    )
    return sorted(newest, key=_order)


def _order(revision: Revision) -> tuple[bool, bool, str]:
    slug = revision.recipe.slug
    return not slug.startswith("tiny-"), not slug.endswith("scalerl"), slug


def _launch_form(request: HttpRequest, revisions: list[Revision], chosen: Revision) -> LaunchForm:
    numbers = list(chosen.recipe.revisions.order_by("-number").values_list("number", "message"))
    choices: dict[str, list[tuple[Any, str]]] = {
        "recipe": [(r.recipe.slug, r.recipe.name) for r in revisions],
        "revision": [(n, f"rev {n}{f': {message}' if message else ''}") for n, message in numbers],
        "task": [(name, name) for name in task_names()],
    }
    config = chosen.config
    defaults = {
        "recipe": chosen.recipe.slug,
        "revision": chosen.number,
        "task": config["task"]["name"],
        "model": config["model"],
        "seed": request.GET.get("seed") or config["seed"],
        "name": request.GET.get("name", ""),
        "budget_hours": config["budget"]["device_hours"],
        "idempotency_key": new_key(),
    }
    data = request.POST if request.method == "POST" else None
    return LaunchForm(data, choices=choices, devices=facts.devices(config), initial=defaults)


def _try_launch(request: HttpRequest, form: LaunchForm) -> Run | None:
    """The run, or None with the service's objection put into the form."""
    try:
        return launching.launch_run(
            user=signed_in(request), project=current_project(request), **form.cleaned_data
        )
    except InvalidInput as error:
        add_service_error(form, error.field, error.message)
    except Conflict:
        form.renew_key()
        form.add_error(
            None, "This form was sent before with other values. Send it again to launch another run."
        )
    return None
