"""The current project, API tokens.

A trainer's first record: a token with the lines to paste, and word of what arrives.
"""

from functools import partial

from django.contrib import messages
from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache

from webapp.base.errors import InvalidInput
from webapp.base.formats import whole_in
from webapp.identity.accounts.models import ApiToken, Project, Role, Scope
from webapp.identity.accounts.permissions import Permission
from webapp.identity.accounts.selectors import others_tokens_of, tokens_of
from webapp.identity.accounts.services import create_token, digest
from webapp.identity.accounts.services import revoke_token as revoke
from webapp.interfaces.pages.access import (
    SESSION_KEY,
    allow,
    current_project,
    granted_here,
    projects_of,
    role_of,
    signed_in,
)
from webapp.interfaces.pages.answers import wants_fragment
from webapp.interfaces.pages.forms import TokenForm
from webapp.record.runs.models import Record, Run

DAYS = 30
LINES = """\
export HEADROOM_URL={url} HEADROOM_TOKEN={token}
PATH="$PWD/.venv/bin:$PATH" python - <<'END'
import headroom
run = headroom.init(name="first steps", task="my task", model="my model")
for step in range(1, 25):
    run.log_evaluation(0.7 - 0.6 * 0.9**step, n_prompts=1000, step=step, compute={{"device_hours": step / 100}})
run.finish()
END
"""


def choose_project(request: HttpRequest) -> HttpResponse:
    """Work in another of the user's projects from now on."""
    wanted = request.POST.get("project")
    chosen = next((project for project in projects_of(request) if project.slug == wanted), None)
    if chosen is None:
        raise Http404("no such project")
    allow(request, chosen)
    request.session[SESSION_KEY] = chosen.slug
    return redirect("overview")


@never_cache
def tokens(request: HttpRequest) -> HttpResponse:
    """The user's tokens; to an admin those of the project's other members too, by name.

    A new one is shown once, in the answer to its creation, and nowhere else.
    """
    current, user = current_project(request), signed_in(request)
    asked = partial(TokenForm, projects=_projects_with_role(request), current=current.slug)
    form = asked(request.POST if request.method == "POST" else None)
    raw = _try_create(request, form, current) if form.is_valid() else None
    if raw:
        form = asked()
    projects, is_admin = projects_of(request), Permission.ADMIN in granted_here(request)
    now = timezone.now()
    context = {
        "form": form,
        "raw": raw,
        "own": tokens_of(user, projects, now),
        "others": others_tokens_of(current, user, now) if is_admin else [],
        "is_admin": is_admin,
        "several": len(projects) > 1,
        "base_url": _base(request),
    }
    return render(request, "tokens.html", context, status=422 if form.errors else 200)


def _projects_with_role(request: HttpRequest) -> dict[str, tuple[str, Role]]:
    roles = ((project, role_of(request, project)) for project in projects_of(request))
    return {project.slug: (project.name, role) for project, role in roles if role is not None}


def _try_create(request: HttpRequest, form: TokenForm, current: Project) -> str | None:
    """The raw token, or None with the service's objection beside the field."""
    wanted, projects = form.cleaned_data["project"], projects_of(request)
    project = next((one for one in projects if one.slug == wanted), current)
    allow(request, project)
    with form.refusing(InvalidInput):
        return create_token(user=signed_in(request), **(form.cleaned_data | {"project": project}))
    return None


def _base(request: HttpRequest) -> str:
    return request.build_absolute_uri("/").rstrip("/")


def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    """Revoke a token of one's own, or as an admin of its project; revoking it again changes nothing."""
    tokens = ApiToken.objects.select_related("project", "user").filter(run=None)
    token = get_object_or_404(tokens, pk=token_id, project__in=projects_of(request))
    user = signed_in(request)
    allow(request, token.project, None if token.user_id == user.pk else Permission.ADMIN)
    revoke(token, user=user)
    messages.info(request, "The token is revoked: requests with it are refused from now on.")
    return redirect("tokens")


@never_cache
def connect(request: HttpRequest) -> HttpResponse:
    """The page; sent, it has a new token with the lines, once; asked by htmx, what came with the token `token`."""
    project, user = current_project(request), signed_in(request)
    if wants_fragment(request):
        number = whole_in(request.GET.get("token", ""))
        token = get_object_or_404(ApiToken, pk=number, user=user, project=project, run=None)
        return render(request, "connect/_arrived.html", {"token": token, "run": _first_run(token)})
    if request.method != "POST":
        return render(request, "connect/page.html", {})
    raw = create_token(user=user, project=project, scope=Scope.WRITE, name="first steps", days=DAYS)
    lines = LINES.format(url=_base(request), token=raw)
    context = {"lines": lines, "days": DAYS, "token": ApiToken.objects.get(digest=digest(raw))}
    return render(request, "connect/page.html", context)


def _first_run(token: ApiToken) -> Run | None:
    """The first tracked run with a record that the token's owner made since the token is there."""
    made = Run.objects.filter(
        project=token.project_id,
        created_by=token.user_id,
        origin=Run.Origin.TRACKED,
        created_at__gte=token.created_at,
    )
    return made.filter(Exists(Record.objects.filter(run=OuterRef("pk")))).order_by("created_at").first()
