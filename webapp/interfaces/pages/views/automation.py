"""What happens by itself in a project: what its runs are stopped for, and what is cleaned up after them."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache

from webapp.base.errors import ServiceError
from webapp.interfaces.pages.access import current_project, signed_in
from webapp.interfaces.pages.forms import add_service_error
from webapp.interfaces.pages.team.automation import PolicyForm, RetentionForm
from webapp.record.retention import services as retention
from webapp.record.retention.selectors import policy_of, preview
from webapp.reporting.policies import services as policies
from webapp.reporting.policies.selectors import project_policy

UNPROCESSABLE = 422


@never_cache
def automation(request: HttpRequest) -> HttpResponse:
    """Every member sees what is in force; admins change it."""
    return _page(request)


def set_policies(request: HttpRequest) -> HttpResponse:
    """What the project's runs are stopped for from now on."""
    project = current_project(request)
    form = PolicyForm(request.POST, policy=project_policy(project))
    if form.is_valid():
        try:
            policies.set_project_policy(
                project, actions=form.actions, advice_delta=form.cleaned_data["advice_delta"], user=signed_in(request)
            )  # fmt: skip
        except ServiceError as error:
            add_service_error(form, error.field, error.message)
        else:
            messages.info(request, "The policies are saved: they hold for what is found from now on.")
            return redirect("automation")
    return _page(request, policy_form=form)


def set_retention(request: HttpRequest) -> HttpResponse:
    """What is cleaned up from now on."""
    project = current_project(request)
    form = RetentionForm(request.POST, policy=policy_of(project))
    if form.is_valid():
        try:
            retention.set_policy(project, user=signed_in(request), **form.cleaned_data)
        except ServiceError as error:
            add_service_error(form, error.field, error.message)
        else:
            messages.info(request, "The clean-up is saved: it holds from the next step on, within a minute.")
            return redirect("automation")
    return _page(request, retention_form=form)


@never_cache
def retention_preview(request: HttpRequest) -> HttpResponse:
    """The dry run: what the stored policy would take away now."""
    project = current_project(request)
    policy = policy_of(project)
    return render(request, "teams/_preview.html", {"retention": policy, "preview": preview(project, policy)})


def _page(
    request: HttpRequest, policy_form: PolicyForm | None = None, retention_form: RetentionForm | None = None
) -> HttpResponse:
    project = current_project(request)
    policy, kept = project_policy(project), policy_of(project)
    context = {
        "policy": policy,
        "policy_form": policy_form or PolicyForm(policy=policy),
        "retention": kept,
        "retention_form": retention_form or RetentionForm(policy=kept),
    }
    failed = any(form is not None and form.errors for form in (policy_form, retention_form))
    return render(request, "teams/automation.html", context, status=UNPROCESSABLE if failed else 200)
