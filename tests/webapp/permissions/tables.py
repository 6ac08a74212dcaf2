"""What the walks over all addresses know besides what each route says it needs: how to build an address, what to send.

To add a page: register it with `webapp.interfaces.routes.route`. The walk then opens it as every role by itself. Only
if
- what it needs is another than its kind has (ADMINS, SPENDS, FOR_VIEWERS), say so there;
- its path has an argument of a new name, add to OBJECTS what stands there (a thing of `world.project`);
- it answers nothing without a query, add one to QUERIES;
- a POST without a form would be a 404, add a form to FORMS;
- it is about a thing that only its query or its form names, add it to FOREIGN: for others it does not exist either;
- it asks for more than its need (a thing belongs to one person), add to OTHERWISE what is expected of whom.

To add an endpoint of the API: add a body to API_BODIES where an empty one is not understood.
"""

from collections.abc import Callable
from typing import Any

from tests.webapp.permissions.world import BOTH, ELSEWHERE, OWNER, ROLES, World
from webapp.identity.accounts.permissions import Permission
from webapp.interfaces.api.api import OPENED_BY, api
from webapp.interfaces.api.auth import BearerToken
from webapp.interfaces.pages.urls import urlpatterns
from webapp.interfaces.routes import EVERYBODY, needs_of

Maker = Callable[[World], Any]

ROUTES = needs_of(urlpatterns)
IN_PROJECT = {name: need for name, need in ROUTES.items() if need.in_project}
PUBLIC = {name for name, need in ROUTES.items() if EVERYBODY in (need.read, need.write)}
ACCOUNT = set(ROUTES) - set(IN_PROJECT) - PUBLIC
# What a kind of page must need, whatever its route says: names of writes, as patterns. All others: `contribute`.
ADMINS = (
    r"members?|member-role|remove-member|revoke-invitation|project-settings|project-queue|set-\w+|delete-secret"
    r"|forecast-recalibration|new-project|rename-organisation|(add|remove)-owner"
)
SPENDS = (
    r"launch(-check)?|run-(stop|resume|extend|priority|launch|delete|evaluate|cancel-evaluation)"
    r"|new-study|study-(preview|seeds|stop|archive)"
)
# One's own things, and what asks for more itself where it is the project's.
FOR_VIEWERS = (
    r"choose-project|leave-project|remove-example|tokens|revoke-token|runs-(save|change)-view|compare-(save|delete)-layout"
    r"|(new-)?alert-(?!check).+"
)

# Name of a path's argument -> a thing of the project in it. ("url name:argument" is looked for first.)
OBJECTS: dict[str, Maker] = {
    "run_id": lambda world: world.run.pk,
    "slug": lambda world: "tiny-scalerl",
    "study_id": lambda world: world.study.pk,
    "share_id": lambda world: world.share.pk,
    "view_id": lambda world: world.view.pk,
    "token_id": lambda world: world.own_token.pk,
    "fit_id": lambda world: world.fit.pk,
    "attempt": lambda world: 1,
    "token": lambda world: world.share_token,
    "prediction_id": lambda world: world.prediction.pk,
    "comment_id": lambda world: world.comment.pk,
    "decision_id": lambda world: world.decision.pk,
    "evaluation_id": lambda world: world.evaluation.pk,
    "report_id": lambda world: world.report.pk,
    "link_id": lambda world: world.report_link.pk,
    "shared-report:token": lambda world: world.report_token,
    "rule_id": lambda world: world.rule.pk,
    "channel_id": lambda world: world.channel.pk,
    "user_id": lambda world: world.colleague.pk,
    "invitation_id": lambda world: world.invitation[0].pk,
    "invitation:token": lambda world: world.invitation[1],
    "name": lambda world: "HUB_TOKEN",
    "path": lambda world: world.artifact.path,
    "kind": lambda world: world.samples.kind,
    "step": lambda world: world.samples.step,
    "import_id": lambda world: world.source.pk,
    # Of an account, not of a project: these are looked up among one's own.
    "session_id": lambda world: 1,
    "identity_id": lambda world: 1,
    "uidb64": lambda world: "MQ",
    "pk": lambda world: 1,
    "set-password:token": lambda world: "set-password",
}
QUERIES: dict[str, Maker] = {
    "new-share": lambda world: f"?kind=run&run={world.run.pk}",
    "new-prediction": lambda world: f"?run={world.run.pk}",
    "prediction-proposal": lambda world: f"?run={world.run.pk}",
    "alert-check": lambda world: "?on=state",
    "leaderboard-group": lambda world: f"?task={world.run.task}&model={world.run.model}",
    "leaderboard-evidence": lambda world: (
        f"?task={world.run.task}&model={world.run.model}&run={world.run.pk}"
    ),
}
FORMS: dict[str, Callable[[World], dict[str, Any]]] = {
    "choose-project": lambda world: {"project": world.project.slug},
    "new-prediction": lambda world: {"run": world.run.pk},
    "new-decision": lambda world: {"about": "run", "object_id": world.run.pk},
    "runs-change-view": lambda world: {"do": "default"},
}
FOREIGN = {
    "new-share",
    "new-decision",
    "choose-project",
    "new-prediction",
    "prediction-proposal",
    "leaderboard-group",
    "leaderboard-evidence",
}
# Public, and not there unless the operator has named a provider: tests/webapp/identity/signin.
ABSENT = {"openid-begin", "openid-callback"}
# (url name, method) -> who -> what is expected, where it is not what the table of needs says.
OTHERWISE: dict[tuple[str, str], dict[str, str]] = {
    # There is no example project in this world: tests/webapp/interfaces/imports/test_example.py has one.
    ("example", "GET"): dict.fromkeys([*ROLES, OWNER, BOTH, ELSEWHERE], "404"),
    # Only owners of the organisation; whoever is no owner is refused, whichever project they stand in.
    **{
        (name, "POST"): {"admin": "403", BOTH: "403", ELSEWHERE: "403"}
        for name in {name for name, need in ROUTES.items() if need.owners} - {"remove-example"}
    },
    ("remove-example", "POST"): dict.fromkeys([*ROLES, OWNER, BOTH, ELSEWHERE], "404"),
    # That of the world is its author's: tests/webapp/interfaces/pages/test_compare.py deletes one's own.
    ("compare-delete-layout", "POST"): dict.fromkeys([*ROLES, OWNER, BOTH, ELSEWHERE], "404"),
    # Secrets have the same names in all projects: the address means that of the reader's own project.
    ("delete-secret", "POST"): {BOTH: "let in", ELSEWHERE: "let in"},
}

# (method, path) -> the token that opens an endpoint.
API_NEEDS: dict[tuple[str, str], BearerToken] = {
    (method.upper(), path): OPENED_BY[operation["operationId"].removeprefix("webapp_api_")]
    for path, operations in api.get_openapi_schema(path_prefix="")["paths"].items()
    for method, operation in operations.items()
}
# What an endpoint must need, whatever it says of itself, as patterns of "METHOD /path": who spends compute, and what a
# run's own token opens. All others: read to GET, write to change.
API_SPENDS = (
    r"POST /recipes.*|POST /studies|DELETE /runs/{run_id}"
    r"|POST /runs/{run_id}/(restore|cancel|resume|stop|extend|priority|launch|evaluations.*)"
)
API_REPORTS = (
    r"GET /runs/{run_id}(/(transitions|records|artifacts.*))?|PUT /runs/{run_id}/artifacts/{path}"
    r"|PUT /runs/{run_id}/samples/{kind}/{step}"
    r"|POST /runs/{run_id}/(start|describe|finish|records|refused)"
)
API_PERMISSIONS = {
    ("POST", "/predictions/{prediction_id}/reviews"): Permission.REVIEW,
    ("PUT", "/policies"): Permission.ADMIN,
    ("PUT", "/retention"): Permission.ADMIN,
}
# Endpoints that ask for more than their scope: the least role that is let in to a thing of somebody else.
API_ROLES: dict[tuple[str, str], str] = {
    ("POST", "/predictions/{prediction_id}/withdraw"): "admin",  # or its author
    ("POST", "/predictions/{prediction_id}/reviewers"): "admin",  # or its author
}
API_BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/runs"): {"tracked": True, "name": "elsewhere"},
    ("PATCH", "/runs/{run_id}"): {"notes": "odd"},
    ("POST", "/runs/bulk"): {"action": "tag", "runs": ["7k2m"], "tag": "paper"},
    ("POST", "/runs/{run_id}/finish"): {"state": "succeeded"},
    ("POST", "/runs/{run_id}/refused"): {"refused_records": 1, "refused_values": 0},
    ("POST", "/runs/{run_id}/extend"): {"budget_hours": 2.0},
    ("POST", "/runs/{run_id}/priority"): {"priority": "high"},
    ("POST", "/runs/{run_id}/evaluations"): {"task": "arithmetic", "limit": 100},
    ("POST", "/runs/{run_id}/records"): {"records": []},
    ("PUT", "/runs/{run_id}/artifacts/{path}"): "2 + 2 = 4",
    ("PUT", "/runs/{run_id}/samples/{kind}/{step}"): '{"prompt": "2 + 2 =", "response": "4", "reward": 1.0}',
    ("POST", "/recipes/{slug}/revisions"): {"config": {}, "message": ""},
    ("POST", "/predictions/{prediction_id}/withdraw"): {"reason": "It was a slip."},
    ("POST", "/predictions/{prediction_id}/reviews"): {"verdict": "approved"},
    ("POST", "/predictions/{prediction_id}/reviewers"): {"reviewers": ["colleague"]},
    ("POST", "/predictions/{prediction_id}/comments"): {"text": "Why so sure?"},
    ("POST", "/alerts/rules"): {"name": "spent", "on": "budget", "condition": {"percent": 80}},
    ("PUT", "/alerts/rules/{rule_id}"): {
        "name": "spent",
        "on": "metric",
        "version": 1,
        "condition": {"metric": "train/entropy", "comparison": "<", "threshold": 0.2},
    },
    ("PUT", "/policies"): {"policies": {"truncation": "stop"}},
    ("PUT", "/retention"): {
        "enabled": True,
        "keep_newest": 3,
        "checkpoint_days": 7,
        "log_days": 0,
        "under_pressure": False,
    },
}
API_QUERIES: dict[tuple[str, str], Maker] = {
    ("GET", "/runs/{run_id}/series"): lambda world: "?metric=eval/pass_rate",
    ("GET", "/runs/{run_id}/curve"): lambda world: "?metric=eval/pass_rate",
    ("GET", "/runs/{run_id}/samples/{kind}/history"): lambda world: "?prompt_id=sum-1",
}
# Endpoints about a thing of the project in their path that another project has too, by the same name.
EVERYWHERE = {"slug"}
