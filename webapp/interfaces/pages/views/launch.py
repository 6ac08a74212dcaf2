"""Launching a run: the form out of the recipe's schema, checked while it is filled in; clones and single changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.html import format_html, format_html_join

from training.models import available_models, default_home
from training.schema import Resources
from training.tasks import task_names
from webapp.base.errors import Conflict, InvalidInput
from webapp.identity.accounts.models import Project
from webapp.interfaces.pages import configuration
from webapp.interfaces.pages.access import current_project, get_run, signed_in
from webapp.interfaces.pages.answers import not_here, page_or_fragment
from webapp.interfaces.pages.forms import LaunchForm, new_key
from webapp.interfaces.pages.launching import draft, fields, preview
from webapp.interfaces.pages.launching.draft import ESSENTIALS, Draft
from webapp.interfaces.pages.launching.preview import cluster_now, setting_of
from webapp.interfaces.pages.launching.specs import by_path
from webapp.interfaces.pages.team_forms import RunPolicyForm
from webapp.record.recipes.models import Revision
from webapp.record.recipes.selectors import newest_shipped
from webapp.record.runs.launch import Launched, LaunchRequest, objections
from webapp.record.runs.launch_set import launch_seeds
from webapp.record.runs.models import Run, State
from webapp.record.runs.pace import pace_of
from webapp.record.runs.places import prospect
from webapp.reporting.policies.selectors import own_actions, project_policy
from webapp.reporting.policies.services import set_run_policy

FIRST = ("recipe", "task", "model", "seed", "budget_hours")
SHOWN = (*FIRST, "name", "revision", "priority", "retries", "task_options")
KEPT = ("seed", "name", "priority", "retries")  # where another recipe is chosen
WIDE = frozenset({"name", "task_options"})


@dataclass
class Choice:
    """What a request has chosen to launch. `cloned`: the run that it starts from."""

    project: Project
    newest: list[Revision]
    revision: Revision
    cloned: Run | None = None
    change: str = ""  # the path of the one setting that changes
    focus: bool = False  # only one setting is to change
    refusal: str = ""  # why the run or the recipe could not be taken as a start


def launch(request: HttpRequest) -> HttpResponse:
    """The form; asked by htmx (another recipe or revision was chosen), the form alone with its defaults."""
    if (choice := _choice(request)) is None:
        return render(request, "runs/launch.html", {"no_recipes": True})
    if request.method == "POST":
        data = draft.with_essentials_of_text(request.POST)
        form, asked = _filled(choice, data, live=False)
        own = RunPolicyForm(data, policy=project_policy(choice.project))
        is_right = own.is_valid() and form.is_valid() and asked.is_valid
        launched = _try_launch(request, choice, form, asked, own.actions) if is_right else None
        if launched:
            return _after(request, launched)
    else:
        asked = draft.of_revision(choice.revision, _wanted(choice))
        form = _empty_form(request, choice, asked)
        choice.refusal = choice.refusal or not_here(request, choice.revision)
    context = _context(request, choice, form, asked) | {
        "problems": _problems(form, asked) if form.is_bound else [],
        "hints": asked.checked.hints,
    }
    status = 422 if form.is_bound else 200
    return page_or_fragment(request, "runs/launch.html", "runs/_launch_form.html", context, status)


def launch_check(request: HttpRequest) -> HttpResponse:
    """What is wrong, what differs, what it costs and how long it waits; nothing is stored."""
    if (choice := _choice(request)) is None:
        return HttpResponse(status=204)
    data = draft.with_essentials_of_text(request.POST)
    form, asked = _filled(choice, data, live=True)
    _object(choice, form, asked)
    context = _context(request, choice, form, asked) | {
        "problems": _problems(form, asked),
        "resent": [fields.field_of(asked, path) for path in asked.resent if path not in ESSENTIALS.values()],
        "new_options": asked.from_yaml or "task.options" in asked.resent or data.get("changed") == "task",
        "checked": True,
    }
    return render(request, "launch/_check.html", context | _prospects(choice, form, asked))


def _choice(request: HttpRequest) -> Choice | None:
    """The project, recipe revision and run that the request names; None where the project has no recipe."""
    sent = request.POST if request.method == "POST" else request.GET
    cloned = get_run(request, sent["clone"]) if sent.get("clone") else None
    project = cloned.project if cloned else current_project(request)
    if not (newest := fields.usual_first(fields.newest_revisions(project), fields.slug_of)):
        return None
    choice = Choice(project, newest, _chosen(request, sent, newest), cloned)
    if cloned is None:
        return choice
    path = sent.get("change", "")
    choice.focus, choice.change = "change" in sent, path if path in by_path() else ""
    if cloned.revision is None:
        choice.cloned, choice.focus, choice.change = None, False, ""
        choice.refusal = (
            f"{cloned.name} was tracked without a recipe, so there is nothing here to launch again."
        )
    elif not sent.get("recipe"):
        choice.revision = cloned.revision
    return choice


def _chosen(request: HttpRequest, sent: QueryDict, newest: Sequence[Revision]) -> Revision:
    """The revision that was sent; where no recipe was, the usual one as it was shipped."""
    if sent.get("recipe") or sent.get("clone"):
        return fields.asked_revision(request, newest)
    first = newest[0]
    shipped = newest_shipped(first.recipe.project)
    return fields.asked_revision(request, newest, shipped.get(first.recipe.slug, first.number))


def _wanted(choice: Choice) -> dict[str, object]:
    """What a clone takes over from its run: everything that its revision does not say."""
    if (run := choice.cloned) is None:
        return {}
    task = run.config.get("task") or {}
    return {
        "task.name": run.task,
        "task.options": task.get("options") or {},
        "model": run.model,
        "budget.device_hours": run.budget_hours,
        "seed": run.seed if choice.focus else next_seed(run),
    }


def next_seed(run: Run) -> int:
    """The least seed above the run's that no run of the same revision, task and model has."""
    alike = Run.objects.filter(
        project=run.project_id, revision=run.revision_id, task=run.task, model=run.model, seed__gt=run.seed
    )
    taken = set(alike.values_list("seed", flat=True))
    return next(seed for seed in range(run.seed + 1, run.seed + len(taken) + 2) if seed not in taken)


def _empty_form(request: HttpRequest, choice: Choice, asked: Draft) -> LaunchForm:
    texts = {name: asked.text(by_path()[path]) for name, path in ESSENTIALS.items()}
    initial: dict[str, Any] = texts | {"name": "", "priority": Run.Priority.NORMAL}
    if (run := choice.cloned) is not None:  # what is no part of a recipe
        name = "" if run.name == choice.revision.recipe.name else run.name
        initial |= {"name": name, "priority": run.priority, "retries": run.retry_limit}
    initial |= {key: request.GET[key] for key in KEPT if request.GET.get(key)}
    initial |= {
        "recipe": choice.revision.recipe.slug,
        "revision": choice.revision.number,
        "idempotency_key": new_key(),
    }
    return LaunchForm(initial=initial, **_form_arguments(choice))


def _filled(choice: Choice, data: QueryDict, *, live: bool) -> tuple[LaunchForm, Draft]:
    """Form and draft of what was sent, the draft's problems beside the form's fields."""
    form, asked = LaunchForm(data, **_form_arguments(choice)), draft.of_form(choice.revision, data, live=live)
    form.full_clean()
    for name, path in ESSENTIALS.items():
        if name not in form.errors:
            for message in asked.checked.problems.get(path, ()):
                form.add_error(name, message)
    if choice.focus and not _difference(choice, asked):
        form.add_error(None, "Nothing differs from the run yet: choose a setting and give it another value.")
    return form, asked


def _difference(choice: Choice, asked: Draft) -> list[configuration.Change]:
    """What differs from the run that it starts from, but for the seed."""
    if choice.cloned is None:
        return []
    found = draft.differences(choice.cloned.config, asked.config)
    return [change for change in found if change.path != "seed"]


def _form_arguments(choice: Choice) -> dict[str, Any]:
    numbers = choice.revision.recipe.revisions.order_by("-number").values_list("number", "message")
    return {
        "choices": {
            "recipe": fields.options(choice.newest, choice.revision),
            "revision": [(n, f"rev {n}{f': {message[:80]}' if message else ''}") for n, message in numbers],
            "task": [(name, name) for name in task_names()],
        },
        "devices": Resources.model_validate(choice.revision.config["resources"]).devices,
    }


def _try_launch(
    request: HttpRequest, choice: Choice, form: LaunchForm, asked: Draft, policies: dict[str, str]
) -> list[Launched]:
    """The runs, or none with the service's objection put into form or draft."""
    sent, config = form.cleaned_data, asked.config
    changed = draft.changes(asked)
    wanted = LaunchRequest(
        recipe=choice.revision.recipe.slug, revision=choice.revision.number, task=config["task"]["name"],
        model=config["model"], seed=sent["seed"][0], budget_hours=config["budget"]["device_hours"], name=sent["name"],
        priority=sent["priority"], retries=sent["retries"], draft=request.POST.get("draft") == "1",
    )  # fmt: skip
    try:
        with transaction.atomic():
            launched = launch_seeds(
                wanted, sent["seed"], user=signed_in(request), project=choice.project,
                config=draft.of_the_recipe(asked), message=sent["message"] or draft.message_of(changed),
                idempotency_key=sent["idempotency_key"],
            )  # fmt: skip
            set_run_policy([made.run for made in launched if made.created], policies)
        return launched
    except InvalidInput as error:
        _blame(form, asked, error)
    except Conflict:
        form.renew_key()
        form.add_error(
            None, "This form was sent before with other values. Send it again to launch another run."
        )
    return []


def _object(choice: Choice, form: LaunchForm, asked: Draft) -> None:
    """Put beside settings that fit what would refuse their launch all the same."""
    if asked.checked.recipe is not None:
        seeds = form.cleaned_data.get("seed") or [0]
        hours = len(seeds) * asked.checked.recipe.budget.device_hours
        for error in objections(choice.project, hours):
            _blame(form, asked, error)


def _blame(form: LaunchForm, asked: Draft, error: InvalidInput) -> None:
    """Put a service's objection beside its field, its setting, or on top."""
    field_name = {"seeds": "seed"}.get(error.field or "", error.field or "")
    if field_name in form.fields:
        form.add_error(field_name, error.message)
        return
    path = setting_of(field_name, error.message)
    if essential := next((name for name, of in ESSENTIALS.items() if of == path), None):
        form.add_error(essential, error.message)
    else:
        asked.checked.add(path, error.message)


def _after(request: HttpRequest, launched: Sequence[Launched]) -> HttpResponse:
    """To the run, or with several to the list, which has them on top."""
    if len(launched) == 1:
        return redirect("run", launched[0].run.pk)
    links = ((reverse("run", args=[made.run.pk]), made.run.seed) for made in launched)
    linked = format_html_join(", ", '<a class="link" href="{}">seed {}</a>', links)
    done = "Saved as drafts" if launched[0].run.state == State.DRAFT else "Launched"
    messages.info(request, format_html("{} {} runs: {}.", done, len(launched), linked))
    return redirect("runs")


def _context(request: HttpRequest, choice: Choice, form: LaunchForm, asked: Draft) -> dict[str, Any]:
    in_text = asked.from_yaml or (not form.is_bound and request.GET.get("view") == "yaml")
    changed, base, sections = draft.changes(asked), choice.revision, fields.sections_of(asked)
    return {
        "form": form,
        "draft": asked,
        "choice": choice,
        "revision": choice.revision,
        "essentials": [_essential(form, asked, name) for name in SHOWN],
        "num_first": f":{len(FIRST)}",
        "rest": f"{len(FIRST)}:",
        "sections": sections,
        "num_settings": sum(len(section["fields"]) for section in sections),
        "sizes": []
        if choice.cloned
        else fields.sizes(choice.newest, choice.revision, newest_shipped(choice.project)),
        "one": _one(choice, form, asked),
        "changes": changed,
        "generated": draft.message_of(changed),
        "next_number": 1
        + max([base.number, *(r.number for r in choice.newest if r.recipe_id == base.recipe_id)]),
        "in_text": in_text,
        "task_options": fields.options_of(str(form["task"].value() or "")),
        "facts": configuration.key_settings(choice.revision.config),
        "models": list(available_models(default_home())),
        "settings_choices": fields.choices() if choice.focus else [],
        "policy_form": _policy_form(request, choice),
        "policy_own": bool(choice.cloned and own_actions(choice.cloned)),
        "one_line": draft.message_of(_difference(choice, asked)) if choice.focus else "",
    }


def _policy_form(request: HttpRequest, choice: Choice) -> RunPolicyForm:
    own = own_actions(choice.cloned) if choice.cloned else {}
    data = request.POST if request.method == "POST" else None
    return RunPolicyForm(data, policy=project_policy(choice.project), own=own)


def _essential(form: LaunchForm, asked: Draft, name: str) -> dict[str, Any]:
    """A field that stands on top, with what stands under it."""
    bound, path = form[name], ESSENTIALS.get(name)
    field = fields.field_of(asked, path) if path and name != "seed" else None
    problems = bound.errors if form.is_bound else asked.checked.problems.get(path or "", ())
    status = (field.status if field else {}) | {
        "id": f"st-e-{name}",
        "widget": bound.auto_id,
        "name": name,
        "problems": problems,
        "note": "",
    }
    return {"name": name, "field": bound, "status": status, "wide": name in WIDE}


def _one(choice: Choice, form: LaunchForm, asked: Draft) -> dict[str, Any] | None:
    """The one setting that changes: an essential field, or a setting."""
    if not choice.change:
        return None
    name = next((name for name, path in ESSENTIALS.items() if path == choice.change), None)
    shown = _essential(form, asked, name) if name else None
    return {"essential": shown, "setting": None if name else fields.field_of(asked, choice.change)}


def _problems(form: LaunchForm, asked: Draft) -> list[dict[str, str]]:
    """Everything that is wrong, each with where: what belongs to no field first."""
    on_top = [{"where": "", "message": str(message), "id": ""} for message in form.non_field_errors()]
    on_top += [{"where": "", "message": message, "id": ""} for message in asked.checked.on_top]
    essential = [
        {"where": str(form[name].label), "message": str(message), "id": form[name].auto_id}
        for name in form.fields
        for message in form.errors.get(name, ())
    ]
    others = [
        {"where": path, "message": message, "id": f"i-{by_path()[path].id}"}
        for path, said in asked.checked.problems.items()
        for message in said
        if path in by_path() and path not in ESSENTIALS.values()
    ]
    return on_top + essential + others


def _prospects(choice: Choice, form: LaunchForm, asked: Draft) -> dict[str, Any]:
    """Costs, waits and hints; nothing of them where the settings are no recipe."""
    recipe = asked.checked.recipe
    seeds = form.cleaned_data.get("seed") or [0]
    if recipe is None:
        return {}
    name, slug = choice.revision.recipe.name, choice.revision.recipe.slug
    pace = pace_of(choice.project, recipe=slug, task=recipe.task.name, model=recipe.model)
    priority = form.cleaned_data.get("priority", Run.Priority.NORMAL)
    ahead = prospect(choice.project, recipe, runs=len(seeds), priority=priority)
    return {
        "cost": preview.cost(recipe, len(seeds), pace, name),
        "wait": preview.wait(len(seeds), ahead, cluster_now()),
        "hints": asked.checked.hints,
        "parameters": f"{asked.checked.parameters:,}" if asked.checked.parameters else "",
    }
