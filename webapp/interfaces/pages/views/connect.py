"""A trainer's first record: a token with the lines to paste, and word of what arrives."""

from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache

from webapp.identity.accounts.models import ApiToken, Scope
from webapp.identity.accounts.services import create_token, digest
from webapp.interfaces.pages.access import current_project, signed_in
from webapp.interfaces.pages.fragments import wants_fragment
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


@never_cache
def connect(request: HttpRequest) -> HttpResponse:
    """The page; sent, it has a new token with the lines, once; asked by htmx, what came with the token `token`."""
    project, user = current_project(request), signed_in(request)
    if wants_fragment(request):
        token = get_object_or_404(ApiToken, pk=_number(request), user=user, project=project, run=None)
        return render(request, "connect/_arrived.html", {"token": token, "run": _first_run(token)})
    if request.method != "POST":
        return render(request, "connect/page.html", {})
    raw = create_token(user=user, project=project, scope=Scope.WRITE, name="first steps", days=DAYS)
    lines = LINES.format(url=request.build_absolute_uri("/").rstrip("/"), token=raw)
    context = {"lines": lines, "days": DAYS, "token": ApiToken.objects.get(digest=digest(raw))}
    return render(request, "connect/page.html", context)


def _number(request: HttpRequest) -> int:
    text = request.GET.get("token", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _first_run(token: ApiToken) -> Run | None:
    """The first tracked run with a record that the token's owner made since the token is there."""
    made = Run.objects.filter(
        project=token.project_id,
        created_by=token.user_id,
        origin=Run.Origin.TRACKED,
        created_at__gte=token.created_at,
    )
    return made.filter(Exists(Record.objects.filter(run=OuterRef("pk")))).order_by("created_at").first()
