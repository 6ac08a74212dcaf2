"""What each URL of the pages asks of the reader: the table that access.py enforces and a test walks, role by role.

A URL that is missing here is refused to everybody. What an address names is looked up in the projects that the reader
is a member of: anything else answers 404, and too low a role 403.
"""

from dataclasses import dataclass

from webapp.identity.accounts.permissions import Permission

VIEW, CONTRIBUTE, LAUNCH, REVIEW, ADMIN = (
    Permission.VIEW, Permission.CONTRIBUTE, Permission.LAUNCH, Permission.REVIEW, Permission.ADMIN,
)  # fmt: skip


@dataclass(frozen=True)
class Need:
    """The permission for reading (GET, HEAD) and for writing (POST); None: this method does not exist there."""

    read: Permission | None = None
    write: Permission | None = None


# Nobody need be signed in: the sign-in itself, what a link opens to whoever has it, and the server's own health.
PUBLIC = {"sign-in", "shared", "shared-picture", "embed", "healthz", "healthz-of"}
PUBLIC |= {"shared-report"}
PUBLIC |= {"metrics"}  # has a door of its own: a token, or networks (webapp.operation.observing.exposition)
PUBLIC |= {
    "tracker-version",
    "tracker-health",
}  # what clients of MLflow and trackio ask before they send a token
PUBLIC |= {"tracker-blob"}  # asks for a token itself, as what stands below /api/
PUBLIC |= {"api-docs"}  # what /api/v1/openapi.json says, which is open too
PUBLIC |= {"invitation"}  # its link is the key, and makes a member once
PUBLIC |= {"openid-begin", "openid-callback", "forgot-password", "set-password"}
PUBLIC |= {"account_login", "mfa_authenticate", "mfa_login_webauthn"}
# Signed in is enough: nothing of a project is read or changed.
ACCOUNT = {"sign-out", "alive"}
ACCOUNT |= {"profile", "change-password", "mfa_index", "mfa_list_webauthn", "account_reauthenticate"}
ACCOUNT |= {
    "mfa_activate_totp",
    "mfa_deactivate_totp",
    "mfa_view_recovery_codes",
    "mfa_generate_recovery_codes",
}
ACCOUNT |= {"mfa_add_webauthn", "mfa_remove_webauthn", "mfa_reauthenticate", "mfa_reauthenticate_webauthn"}
ACCOUNT |= {"end-other-sessions", "end-session", "link-identity", "unlink-identity"}
ACCOUNT |= {"notices", "notices-bell", "notices-unread", "notices-read"}  # one's own, of whatever project
# Where forms with files are sent to; nowhere else anything of a file is taken.
TAKE_FILES = {"new-import", "import-resume"}
# In a project.
NEEDS: dict[str, Need] = {
    "choose-project": Need(write=VIEW),
    "example": Need(VIEW),
    "remove-example": Need(write=VIEW),  # and owner of the organisation: OWNERS
    "overview": Need(VIEW),
    "runs": Need(VIEW),
    "runs-complete": Need(VIEW),
    "runs-csv": Need(VIEW),
    "run-records-csv": Need(VIEW),
    "run-records-jsonl": Need(VIEW),
    "run-records-parquet": Need(VIEW),
    "runs-json": Need(VIEW),
    "runs-bulk": Need(VIEW, CONTRIBUTE),  # stopping and archiving ask for more: `webapp.record.runs.bulk`
    "runs-save-view": Need(
        write=VIEW
    ),  # one's own; sharing it asks for more: `webapp.record.savedviews.services`
    "runs-change-view": Need(write=VIEW),
    "launch": Need(LAUNCH, LAUNCH),
    "launch-check": Need(write=LAUNCH),
    "imports": Need(VIEW),
    "new-import": Need(CONTRIBUTE, CONTRIBUTE),
    "import": Need(VIEW, CONTRIBUTE),
    "import-resume": Need(write=CONTRIBUTE),
    "run": Need(VIEW),
    "run-figure": Need(VIEW),
    "run-log": Need(VIEW),
    "run-file": Need(VIEW),
    "run-log-lines": Need(VIEW),
    "run-stop": Need(write=LAUNCH),
    "run-resume": Need(write=LAUNCH),
    "run-extend": Need(write=LAUNCH),
    "run-priority": Need(write=LAUNCH),
    "run-change": Need(write=CONTRIBUTE),
    "run-meaning-preview": Need(write=CONTRIBUTE),
    "run-meaning": Need(write=CONTRIBUTE),
    "run-launch": Need(write=LAUNCH),
    "run-delete": Need(write=LAUNCH),
    "compare": Need(VIEW),
    "compare-search": Need(VIEW),
    "compare-odds": Need(VIEW),
    "compare-crossings": Need(VIEW),
    "leaderboard": Need(VIEW),
    "leaderboard-csv": Need(VIEW),
    "leaderboard-efficiency": Need(VIEW),
    "leaderboard-group": Need(VIEW),
    "leaderboard-evidence": Need(VIEW),
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
    "study-rename": Need(write=CONTRIBUTE),
    "study-archive": Need(write=LAUNCH),
    "planner": Need(VIEW),
    "predictions": Need(VIEW),
    "predictions-csv": Need(VIEW),
    "new-prediction": Need(CONTRIBUTE, CONTRIBUTE),
    "prediction-proposal": Need(CONTRIBUTE),
    "prediction": Need(VIEW),
    "prediction-figure": Need(VIEW),
    "prediction-review": Need(write=REVIEW),
    "prediction-ask-review": Need(write=CONTRIBUTE),
    "withdraw-prediction": Need(write=CONTRIBUTE),
    "prediction-comment": Need(write=CONTRIBUTE),
    "change-comment": Need(write=CONTRIBUTE),
    "calibration": Need(VIEW),
    "forecast-record": Need(VIEW),
    "forecast-recalibration": Need(write=ADMIN),
    "recipes": Need(VIEW),
    "recipe": Need(VIEW),
    "new-revision": Need(CONTRIBUTE, CONTRIBUTE),
    "revision-hints": Need(write=CONTRIBUTE),
    "shares": Need(VIEW),
    "new-share": Need(CONTRIBUTE, CONTRIBUTE),
    "revoke-share": Need(write=CONTRIBUTE),
    "alerts": Need(VIEW),
    "new-alert-rule": Need(
        VIEW, VIEW
    ),  # rules and channels of the project ask for ADMIN: `webapp.reporting.alerts`
    "alert-check": Need(VIEW),
    "alert-rule": Need(VIEW, VIEW),
    "alert-turn-rule": Need(write=VIEW),
    "alert-test-rule": Need(write=VIEW),
    "alert-delete-rule": Need(write=VIEW),
    "new-alert-channel": Need(VIEW, VIEW),  # hooks ask for CONTRIBUTE
    "alert-channel": Need(VIEW, VIEW),
    "alert-test-channel": Need(write=VIEW),
    "alert-resume-channel": Need(write=VIEW),
    "alert-delete-channel": Need(write=VIEW),
    "alert-preferences": Need(VIEW, VIEW),
    "decisions": Need(VIEW),
    "new-decision": Need(write=CONTRIBUTE),
    "decision": Need(VIEW),
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
    "report-links": Need(CONTRIBUTE, CONTRIBUTE),
    "revoke-report-link": Need(write=CONTRIBUTE),
    "status": Need(VIEW),  # names of machines are for admins: `webapp.reporting.status.payloads`
    "palette": Need(VIEW),
    "members": Need(VIEW, ADMIN),
    "member-role": Need(write=ADMIN),
    "remove-member": Need(write=ADMIN),
    "leave-project": Need(write=VIEW),
    "revoke-invitation": Need(write=ADMIN),
    "project-settings": Need(ADMIN, ADMIN),
    "project-queue": Need(write=ADMIN),
    "automation": Need(VIEW),
    "set-policies": Need(write=ADMIN),
    "set-retention": Need(write=ADMIN),
    "retention-preview": Need(VIEW),
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

# Beyond the permission in a project: only owners of the organisation
# (`webapp.identity.accounts.organisations.require_owner`).
OWNERS = {"new-project", "rename-organisation", "add-owner", "remove-owner", "remove-example"}


def needed(url_name: str, method: str) -> Permission | None:
    """The permission that a request needs in the project it touches; None: nothing grants it."""
    need = NEEDS.get(url_name, Need())
    return {"GET": need.read, "HEAD": need.read, "POST": need.write}.get(method)


def methods_of(url_name: str) -> list[str]:
    """The methods that an address of NEEDS takes."""
    return [method for method in ("GET", "HEAD", "POST") if needed(url_name, method) is not None]
