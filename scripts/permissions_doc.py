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

from webapp.identity.accounts.models import Role  # noqa: E402
from webapp.identity.accounts.permissions import GRANTS, Permission  # noqa: E402
from webapp.interfaces.pages.permissions import NEEDS  # noqa: E402

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
    """Each URL of a project's pages with the permissions for reading and writing."""
    rows = ([f"`{name}`", need.read or "–", need.write or "–"] for name, need in NEEDS.items())
    return table(["URL name", "to read", "to write"], rows)


if __name__ == "__main__":
    sys.exit(main(ROOT / "docs" / "permissions.md", {"roles": role_table, "addresses": address_table}))
