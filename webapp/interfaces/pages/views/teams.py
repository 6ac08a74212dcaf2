"""Who is in a project, what it is called, its secrets, and the organisation that it belongs to.

What happens by itself in a project: what its runs are stopped for, and what is cleaned up after them.
"""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache

from webapp.base.errors import REFUSED, NotFound
from webapp.identity.accounts import invitations, selectors, services
from webapp.identity.accounts.invitations import send_invitation
from webapp.identity.accounts.models import Invitation, Organisation, Project, Role, User
from webapp.identity.accounts.permissions import Permission
from webapp.identity.secrets import services as secrets
from webapp.identity.secrets.services import COMMON
from webapp.interfaces.pages.access import SESSION_KEY, current_project, granted, projects_of, signed_in
from webapp.interfaces.pages.answers import telling
from webapp.interfaces.pages.team_forms import (
    InviteForm,
    NewProjectForm,
    OrganisationForm,
    OwnerForm,
    PolicyForm,
    ProjectForm,
    QueueForm,
    RetentionForm,
    SecretForm,
)
from webapp.record.retention import services as retention
from webapp.record.retention.selectors import policy_of, preview
from webapp.record.runs import places
from webapp.record.runs.models import ProjectQueue
from webapp.reporting.policies import services as policies
from webapp.reporting.policies.selectors import project_policy

UNPROCESSABLE = 422


def _status(*forms: Form) -> int:
    return UNPROCESSABLE if any(form.errors for form in forms) else 200


# --- members --------------------------------------------------------------------------------------------------


@never_cache
def members_page(request: HttpRequest) -> HttpResponse:
    """Everybody in the project; for admins also the invitations, and the form that makes one (POST)."""
    project = current_project(request)
    form = InviteForm(request.POST if request.method == "POST" else None)
    made = _try_invite(request, form) if request.method == "POST" else None
    is_admin = Permission.ADMIN in granted(request)
    rows = list(selectors.members_of(project))
    context = {
        "rows": rows,
        "owners": list(selectors.owners_of(project.organisation)),
        "roles": Role.choices,
        "form": InviteForm() if made else form,
        "made": made,
        "invitations": list(invitations.open_invitations(project)) if is_admin else [],
        "is_member": any(row.user_id == signed_in(request).pk for row in rows),
    }
    return render(request, "teams/members.html", context, status=_status(form))


def _try_invite(request: HttpRequest, form: InviteForm) -> dict[str, Any] | None:
    """The link of a new invitation and whether it was mailed; None with the reason in the form."""
    if not form.is_valid():
        return None
    with form.refusing():
        invitation, token = invitations.invite(
            current_project(request), actor=signed_in(request), **form.cleaned_data
        )
        url = request.build_absolute_uri(reverse("invitation", args=[token]))
        return {"url": url, "invitation": invitation, "mailed": send_invitation(invitation, url)}
    return None


def change_role(request: HttpRequest, user_id: int) -> HttpResponse:
    """Give a member another role."""
    project, user = current_project(request), get_object_or_404(User, pk=user_id)
    role = request.POST.get("role", "")
    with telling(request, REFUSED):
        services.change_role(project, user, role, actor=signed_in(request))
        messages.info(request, f"{user} is {role} now.")
    return redirect("members")


def remove_member(request: HttpRequest, user_id: int) -> HttpResponse:
    """Take somebody out of the project."""
    project, user = current_project(request), get_object_or_404(User, pk=user_id)
    with telling(request, REFUSED):
        services.remove_member(project, user, actor=signed_in(request))
        messages.info(request, f"{user} is no member any more.")
    return redirect("members")


def leave_project(request: HttpRequest) -> HttpResponse:
    """The reader leaves the project. An owner who is no member has nothing to leave, and is told so."""
    project, user = current_project(request), signed_in(request)
    with telling(request):
        services.remove_member(project, user, actor=user)
        messages.info(request, f"You have left {project}.")
        return redirect("overview")
    return redirect("members")


def revoke_invitation(request: HttpRequest, invitation_id: int) -> HttpResponse:
    """Take an invitation back; doing so again changes nothing."""
    found = get_object_or_404(Invitation, pk=invitation_id, project=current_project(request))
    with telling(request):
        invitations.revoke_invitation(found, actor=signed_in(request))
        messages.info(request, "The invitation is taken back: its link opens nothing from now on.")
    return redirect("members")


# --- the project ----------------------------------------------------------------------------------------------


@never_cache
def project_settings(request: HttpRequest) -> HttpResponse:
    """Name and switches of the project, and its secrets by name."""
    project = current_project(request)
    form = ProjectForm.of(project, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        with form.refusing():
            services.change_project(project, actor=signed_in(request), **form.cleaned_data)
            messages.info(request, "The settings are saved.")
            return redirect("project-settings")
    return _settings(request, form, SecretForm())


@never_cache
def set_secret(request: HttpRequest) -> HttpResponse:
    """Store a secret, new or in the place of the one of this name. Its value is in no answer."""
    project, form = current_project(request), SecretForm(request.POST)
    if form.is_valid():
        with form.refusing():
            is_new = secrets.set_secret(project, user=signed_in(request), **form.cleaned_data)
            name = form.cleaned_data["name"].strip()
            words = "is set" if is_new else "has another value"
            messages.info(request, f"{name} {words}: jobs that start from now on have it.")
            return redirect("project-settings")
    return _settings(request, ProjectForm.of(project), form)


def delete_secret(request: HttpRequest, name: str) -> HttpResponse:
    """Jobs that start from now on do without it."""
    try:
        secrets.delete_secret(current_project(request), name=name, user=signed_in(request))
    except NotFound:
        messages.info(request, f"There is no secret {name} any more.")
    else:
        messages.info(request, f"{name} is deleted: jobs that start from now on do without it.")
    return redirect("project-settings")


def set_queue(request: HttpRequest) -> HttpResponse:
    """How many runs may be at work, and the quota."""
    project, form = current_project(request), QueueForm(request.POST)
    if form.is_valid():
        with form.refusing():
            places.set_queue(project, user=signed_in(request), **form.cleaned_data)
            messages.info(request, "Places and quota are saved.")
            return redirect("project-settings")
    return _settings(request, ProjectForm.of(project), SecretForm(), form)


def _queue_form(project: Project) -> QueueForm:
    known = ProjectQueue.objects.filter(project=project).first() or ProjectQueue()
    return QueueForm(initial={name: getattr(known, name) for name in QueueForm.base_fields})


def _settings(
    request: HttpRequest, form: ProjectForm, secret_form: SecretForm, queue_form: QueueForm | None = None
) -> HttpResponse:
    project = current_project(request)
    queue_form = queue_form or _queue_form(project)
    context = {
        "form": form,
        "queue_form": queue_form,
        "quota": places.quota_of(project),
        "secret_form": secret_form,
        "secrets": secrets.live_secrets(project),
        "common": COMMON,
    }
    return render(request, "teams/settings.html", context, status=_status(form, secret_form, queue_form))


# --- the organisation -----------------------------------------------------------------------------------------


@never_cache
def organisation(request: HttpRequest, new_project_form: NewProjectForm | None = None) -> HttpResponse:
    """The organisation of the current project: everybody sees the projects that they are in, owners all, and forms."""
    found: Organisation = current_project(request).organisation
    owners = list(selectors.owners_of(found))
    is_owner = signed_in(request) in owners
    form = new_project_form or NewProjectForm()
    mine = [project.pk for project in projects_of(request)]
    people = [user.username for user in selectors.people_of(found)] if is_owner else []
    context = {
        "organisation": found,
        "owners": owners,
        "is_owner": is_owner,
        "rows": selectors.projects_of_organisation(found, shown=None if is_owner else mine),
        "form": form,
        "name_form": OrganisationForm(initial={"name": found.name}),
        "owner_form": OwnerForm(people=people) if people else None,
        "now": timezone.now(),
    }
    return render(request, "teams/organisation.html", context, status=_status(form))


def new_project(request: HttpRequest) -> HttpResponse:
    """Make a project and go there."""
    found, form = current_project(request).organisation, NewProjectForm(request.POST)
    if form.is_valid():
        with form.refusing():
            project = services.found_project(found, actor=signed_in(request), **form.cleaned_data)
            request.session[SESSION_KEY] = project.slug
            messages.info(request, f"{project} is there. Invite whoever works in it.")
            return redirect("members")
    return organisation(request, new_project_form=form)


def rename_organisation(request: HttpRequest) -> HttpResponse:
    """Give the organisation another name."""
    return _change(request, services.rename_organisation, name=request.POST.get("name", ""))


def add_owner(request: HttpRequest) -> HttpResponse:
    """Make somebody of its projects an owner."""
    return _change(request, services.add_owner, username=request.POST.get("username", ""))


def remove_owner(request: HttpRequest, user_id: int) -> HttpResponse:
    """End somebody's ownership."""
    remove = lambda found, actor: services.remove_owner(
        found, user=services.person_of(found, user_id), actor=actor
    )
    return _change(request, remove)


def _change(request: HttpRequest, service: Callable[..., Any], **asked: Any) -> HttpResponse:
    with telling(request):
        service(current_project(request).organisation, actor=signed_in(request), **asked)
        messages.info(request, "It is changed.")
    return redirect("organisation")


@never_cache
def automation(
    request: HttpRequest, policy_form: PolicyForm | None = None, retention_form: RetentionForm | None = None
) -> HttpResponse:
    """Every member sees what is in force; admins change it."""
    project = current_project(request)
    policy, kept = project_policy(project), policy_of(project)
    policy_form = policy_form or PolicyForm(policy=policy)
    retention_form = retention_form or RetentionForm(policy=kept)
    context = {
        "policy": policy,
        "policy_form": policy_form,
        "retention": kept,
        "retention_form": retention_form,
    }
    return render(request, "teams/automation.html", context, status=_status(policy_form, retention_form))


def set_policies(request: HttpRequest) -> HttpResponse:
    """What the project's runs are stopped for from now on."""
    project = current_project(request)
    form = PolicyForm(request.POST, policy=project_policy(project))
    if form.is_valid():
        with form.refusing():
            policies.set_project_policy(
                project, actions=form.actions, advice_delta=form.cleaned_data["advice_delta"], user=signed_in(request)
            )  # fmt: skip
            messages.info(request, "The policies are saved: they hold for what is found from now on.")
            return redirect("automation")
    return automation(request, policy_form=form)


def set_retention(request: HttpRequest) -> HttpResponse:
    """What is cleaned up from now on."""
    project = current_project(request)
    form = RetentionForm(request.POST, policy=policy_of(project))
    if form.is_valid():
        with form.refusing():
            retention.set_policy(project, user=signed_in(request), **form.cleaned_data)
            messages.info(request, "The clean-up is saved: it holds from the next step on, within a minute.")
            return redirect("automation")
    return automation(request, retention_form=form)


@never_cache
def retention_preview(request: HttpRequest) -> HttpResponse:
    """The dry run: what the stored policy would take away now."""
    project = current_project(request)
    policy = policy_of(project)
    return render(request, "teams/_preview.html", {"retention": policy, "preview": preview(project, policy)})
