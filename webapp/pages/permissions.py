"""What each URL of the pages asks of the reader: the table that access.py enforces and a test walks, role by role.

A URL that is missing here is refused to everybody. What an address names is looked up in the projects that the reader
is a member of: anything else answers 404, and too low a role 403.
"""

from dataclasses import dataclass

from webapp.accounts.permissions import Permission

VIEW, CONTRIBUTE, LAUNCH, REVIEW, ADMIN = (
    Permission.VIEW, Permission.CONTRIBUTE, Permission.LAUNCH, Permission.REVIEW, Permission.ADMIN,
)  # fmt: skip


@dataclass(frozen=True)
class Need:
    """The permission for reading (GET, HEAD) and for writing (POST); None: this method does not exist there."""

    read: Permission | None = None
    write: Permission | None = None


# Nobody need be signed in: the sign-in itself, and what a link opens to whoever has it.
PUBLIC = {"sign-in", "shared", "shared-picture", "embed"}
PUBLIC |= {"shared-report"}
# Signed in is enough: nothing of a project is read or changed.
ACCOUNT = {"sign-out", "alive", "components", "choose-project"}
# In a project.
NEEDS: dict[str, Need] = {
    "overview": Need(VIEW),
    "runs": Need(VIEW),
    "runs-complete": Need(VIEW),
    "runs-bulk": Need(VIEW, CONTRIBUTE),  # stopping and archiving ask for more: `webapp.runs.bulk`
    "runs-save-view": Need(write=VIEW),
    "runs-change-view": Need(write=VIEW),
    "launch": Need(LAUNCH, LAUNCH),
    "launch-check": Need(LAUNCH, LAUNCH),
    "run": Need(VIEW),
    "run-figure": Need(VIEW),
    "run-log": Need(VIEW),
    "run-stop": Need(write=LAUNCH),
    "run-resume": Need(write=LAUNCH),
    "compare": Need(VIEW),
    "compare-search": Need(VIEW),
    "compare-odds": Need(VIEW),
    "compare-crossings": Need(VIEW),
    "leaderboard": Need(VIEW),
    "leaderboard-csv": Need(VIEW),
    "leaderboard-efficiency": Need(VIEW),
    "studies": Need(VIEW),
    "new-study": Need(LAUNCH, LAUNCH),
    "study-preview": Need(LAUNCH, LAUNCH),
    "study": Need(VIEW),
    "study-state": Need(VIEW),
    "study-csv": Need(VIEW),
    "study-add-run": Need(write=CONTRIBUTE),
    "study-remove-run": Need(write=CONTRIBUTE),
    "study-seeds": Need(write=LAUNCH),
    "study-stop": Need(write=LAUNCH),
    "planner": Need(VIEW),
    "recipes": Need(VIEW),
    "recipe": Need(VIEW),
    "new-revision": Need(CONTRIBUTE, CONTRIBUTE),
    "revision-hints": Need(CONTRIBUTE, CONTRIBUTE),
    "shares": Need(VIEW),
    "new-share": Need(CONTRIBUTE, CONTRIBUTE),
    "revoke-share": Need(write=CONTRIBUTE),
    "decisions": Need(VIEW),
    "decisions-csv": Need(VIEW),
    "new-decision": Need(CONTRIBUTE, CONTRIBUTE),
    "decision": Need(VIEW),
    "decision-note": Need(write=CONTRIBUTE),
    "reports": Need(VIEW),
    "new-report": Need(write=CONTRIBUTE),
    "report-block": Need(CONTRIBUTE),
    "report": Need(VIEW),  # what was never published is read by those who may write
    "edit-report": Need(CONTRIBUTE),
    "save-report": Need(write=CONTRIBUTE),
    "preview-report": Need(write=CONTRIBUTE),
    "publish-report": Need(write=CONTRIBUTE),
    "unpublish-report": Need(write=CONTRIBUTE),  # its authors and admins only
    "archive-report": Need(write=CONTRIBUTE),  # its authors and admins only
    "report-history": Need(CONTRIBUTE),
    "report-html": Need(VIEW),
    "report-pdf": Need(VIEW),
    "report-links": Need(CONTRIBUTE, CONTRIBUTE),
    "revoke-report-link": Need(write=CONTRIBUTE),
    "palette": Need(VIEW),
    "tokens": Need(VIEW, VIEW),
    "revoke-token": Need(write=VIEW),
}


def needed(url_name: str, method: str) -> Permission | None:
    """The permission that a request needs in the project it touches; None: nothing grants it."""
    need = NEEDS.get(url_name, Need())
    return need.read if method in ("GET", "HEAD") else need.write
