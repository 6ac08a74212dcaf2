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


# Nobody need be signed in: the sign-in itself, what a link opens to whoever has it, and the server's own health.
PUBLIC = {"sign-in", "shared", "shared-picture", "embed", "healthz"}
PUBLIC |= {"invitation"}  # its link is the key, and makes a member once
# Signed in is enough: nothing of a project is read or changed.
ACCOUNT = {"sign-out", "alive", "components"}
# In a project.
NEEDS: dict[str, Need] = {
    "choose-project": Need(write=VIEW),
    "overview": Need(VIEW),
    "runs": Need(VIEW),
    "runs-complete": Need(VIEW),
    "runs-bulk": Need(VIEW, CONTRIBUTE),  # stopping and archiving ask for more: `webapp.runs.bulk`
    "runs-save-view": Need(write=VIEW),  # one's own; sharing it asks for more: `webapp.savedviews.services`
    "runs-change-view": Need(write=VIEW),
    "launch": Need(LAUNCH, LAUNCH),
    "launch-check": Need(write=LAUNCH),
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
    "study-preview": Need(LAUNCH),
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
    "revision-hints": Need(write=CONTRIBUTE),
    "shares": Need(VIEW),
    "new-share": Need(CONTRIBUTE, CONTRIBUTE),
    "revoke-share": Need(write=CONTRIBUTE),
    "palette": Need(VIEW),
    "members": Need(VIEW, ADMIN),
    "member-role": Need(write=ADMIN),
    "remove-member": Need(write=ADMIN),
    "leave-project": Need(write=VIEW),
    "revoke-invitation": Need(write=ADMIN),
    "project-settings": Need(ADMIN, ADMIN),
    "set-secret": Need(write=ADMIN),
    "delete-secret": Need(write=ADMIN),
    "organisation": Need(VIEW),
    "new-project": Need(write=ADMIN),  # and owner of the organisation: OWNERS
    "rename-organisation": Need(write=ADMIN),
    "add-owner": Need(write=ADMIN),
    "remove-owner": Need(write=ADMIN),
    "audit": Need(ADMIN),
    "audit-csv": Need(ADMIN),
    "audit-jsonl": Need(ADMIN),
    "tokens": Need(VIEW, VIEW),
    "revoke-token": Need(write=VIEW),  # one's own; that of another member asks for ADMIN
}

# Beyond the permission in a project: only owners of the organisation (`webapp.accounts.organisations.require_owner`).
OWNERS = {"new-project", "rename-organisation", "add-owner", "remove-owner"}


def needed(url_name: str, method: str) -> Permission | None:
    """The permission that a request needs in the project it touches; None: nothing grants it."""
    need = NEEDS.get(url_name, Need())
    return {"GET": need.read, "HEAD": need.read, "POST": need.write}.get(method)


def methods_of(url_name: str) -> list[str]:
    """The methods that an address of NEEDS takes."""
    return [method for method in ("GET", "HEAD", "POST") if needed(url_name, method) is not None]
