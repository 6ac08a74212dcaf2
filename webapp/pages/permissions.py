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
# Signed in is enough: nothing of a project is read or changed.
ACCOUNT = {"sign-out", "alive", "components", "choose-project"}
ACCOUNT |= {"notices", "notices-bell", "notices-unread", "notices-read"}  # a person's own, in whatever project
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
    "alerts": Need(VIEW),
    "new-alert-rule": Need(VIEW, VIEW),  # rules and channels of the project ask for ADMIN: `webapp.alerts`
    "alert-check": Need(VIEW),
    "alert-rule": Need(VIEW, VIEW),
    "alert-turn-rule": Need(write=VIEW),
    "alert-delete-rule": Need(write=VIEW),
    "new-alert-channel": Need(VIEW, VIEW),  # hooks ask for CONTRIBUTE
    "alert-channel": Need(VIEW, VIEW),
    "alert-test-channel": Need(write=VIEW),
    "alert-resume-channel": Need(write=VIEW),
    "alert-delete-channel": Need(write=VIEW),
    "alert-preferences": Need(VIEW, VIEW),
    "palette": Need(VIEW),
    "tokens": Need(VIEW, VIEW),
    "revoke-token": Need(write=VIEW),
}


def needed(url_name: str, method: str) -> Permission | None:
    """The permission that a request needs in the project it touches; None: nothing grants it."""
    need = NEEDS.get(url_name, Need())
    return need.read if method in ("GET", "HEAD") else need.write
