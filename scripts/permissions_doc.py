"""Writes the tables of docs/permissions.md from the code: `python scripts/permissions_doc.py [--check]`."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

import django  # noqa: E402
from doc_tables import main, table  # noqa: E402

django.setup()

from webapp.base.requests import Limit  # noqa: E402
from webapp.identity.accounts.models import Role  # noqa: E402
from webapp.identity.accounts.permissions import GRANTS, Permission  # noqa: E402
from webapp.interfaces.api.api import OPENED_BY, api  # noqa: E402
from webapp.interfaces.pages.urls import urlpatterns  # noqa: E402
from webapp.interfaces.routes import Need, needs_of  # noqa: E402

WHAT = {
    Permission.VIEW: "read everything of the project, keep filters as views of one's own",
    Permission.CONTRIBUTE: "report runs, write recipes, share views and charts, predict, comment, tag and edit runs",
    Permission.LAUNCH: "spend compute: launch, stop, resume, archive and delete runs, studies",
    Permission.REVIEW: "judge the predictions of others",
    Permission.ADMIN: "members, invitations, secrets, alerts of the project, its audit log, the tokens of others",
}


def role_table() -> str:
    """Each permission with the roles that have it."""
    rows = (
        [f"`{permission}`", what, *("yes" if permission in GRANTS[role] else "" for role in Role)]
        for permission, what in WHAT.items()
    )
    return table(["permission", "may", *(role.value for role in Role)], rows)


def address_table() -> str:
    """Each URL of the pages with who may read and write, and how often."""
    rows = (
        [f"`{name}`", need.read or "–", _writers(need), _often(need.limit or need.limit_of_writes)]
        for name, need in needs_of(urlpatterns).items()
    )
    return table(["URL name", "to read", "to write", "at most"], rows)


def _writers(need: Need) -> str:
    return f"{need.write or '–'}{', owners' if need.owners else ''}"


def _often(limit: Limit | None) -> str:
    return f"{limit.count} in {limit.seconds} s" if limit else ""


def endpoint_table() -> str:
    """Each endpoint of the API with the token that opens it."""
    rows = []
    for path, operations in api.get_openapi_schema(path_prefix="")["paths"].items():
        for method, operation in operations.items():
            token = OPENED_BY[operation["operationId"].removeprefix("webapp_api_")]
            own = "yes" if token.run_token else ""
            rows.append(
                [f"`{method.upper()} {path}`", token.scope, token.permission, own, _often(token.limit)]
            )
    return table(["endpoint", "scope", "permission", "a run's own token", "at most"], rows)


TABLES = {"roles": role_table, "addresses": address_table, "endpoints": endpoint_table}
if __name__ == "__main__":
    sys.exit(main(ROOT / "docs" / "permissions.md", TABLES))
