"""What verbs of the audit log mean in words, for its page. A verb that is not here is shown as it is."""

WORDS = {
    "account.changed": "changed the account",
    "account.made": "made the account",
    "alert_channel.changed": "changed the channel",
    "alert_channel.created": "made the channel",
    "alert_channel.deleted": "deleted the channel",
    "alert_channel.resumed": "ended the pause of the channel",
    "alert_channel.tested": "sent a test through the channel",
    "alert_rule.changed": "changed the alert rule",
    "alert_rule.created": "made the alert rule",
    "alert_rule.deleted": "deleted the alert rule",
    "alert_rule.turned_off": "turned off the alert rule",
    "alert_rule.turned_on": "turned on the alert rule",
    "audit.exported": "exported the audit log of",
    "decision.made": "decided:",
    "decision.noted": "added a note to the decision",
    "example.removed": "removed the example project",
    "identity.linked": "linked another way to sign in to",
    "identity.unlinked": "unlinked a way to sign in to",
    "import.finished": "finished the import of",
    "import.resumed": "resumed the import of",
    "import.started": "started the import of",
    "import.stopped": "could not import all of",
    "invitation.accepted": "accepted the invitation of",
    "invitation.made": "invited",
    "invitation.revoked": "took back the invitation of",
    "member.added": "added",
    "member.left": "left:",
    "member.removed": "removed",
    "member.role_changed": "changed the role of",
    "organisation.created": "made the organisation",
    "organisation.owner_added": "made an owner of",
    "organisation.owner_removed": "ended the ownership of",
    "organisation.renamed": "renamed the organisation",
    "passkey.added": "registered a passkey of",
    "passkey.removed": "removed a passkey of",
    "password.changed": "changed the password of",
    "password.link_made": "made a link for a new password of",
    "password.reset": "set by a link the password of",
    "prediction.comment_edited": "edited a comment on the prediction of",
    "prediction.comment_reopened": "reopened a thread on the prediction of",
    "prediction.comment_resolved": "resolved a thread on the prediction of",
    "prediction.commented": "commented on the prediction of",
    "prediction.frozen": "froze a prediction of",
    "prediction.resubmitted": "froze a changed prediction of",
    "prediction.review_asked": "asked for reviews of the prediction of",
    "prediction.reviewed": "reviewed the prediction of",
    "prediction.scored": "scored the prediction of",
    "prediction.withdrawn": "withdrew the prediction of",
    "project.changed": "changed the project",
    "project.created": "created the project",
    "project.exported": "exported the project",
    "project.imported": "imported the project",
    "project.queue_changed": "changed the places and the quota of the project",
    "recipe.created": "created the recipe",
    "recipe.revised": "revised the recipe",
    "report.archived": "archived the report",
    "report.created": "began the report",
    "report.published": "published the report",
    "report.unarchived": "took out of the archive the report",
    "report.unpublished": "withdrew the report",
    "run.archived": "archived the run",
    "run.changed": "changed what is said of the run",
    "run.deleted": "deleted the run",
    "run.draft_deleted": "deleted the draft",
    "run.drafted": "saved as a draft the run",
    "run.extended": "extended the budget of the run",
    "run.files_deleted": "deleted files of",
    "run.meaning_stated": "said what the metrics mean of the run",
    "run.launched": "launched the run",
    "run.priority_changed": "changed the priority of the run",
    "run.restored": "brought back the deleted run",
    "run.resumed": "resumed the run",
    "run.evaluated": "asked for a benchmark of the run",
    "run.evaluation_cancelled": "cancelled a benchmark of the run",
    "run.stopped": "stopped the run",
    "run.tagged": "tagged the run",
    "run.tracked": "began to track the run",
    "run.unarchived": "took out of the archive the run",
    "policy.changed": "changed what stops runs in",
    "retention.changed": "changed what is cleaned up in",
    "run.advised_by_policy": "advised by policy to stop the run",
    "run.checkpoints_removed": "removed checkpoints of the run",
    "run.stopped_by_policy": "stopped by policy the run",
    "run.untagged": "took a tag off the run",
    "run.warned_by_policy": "warned by policy about the run",
    "secret.deleted": "deleted the secret",
    "secret.replaced": "replaced the secret",
    "secret.set": "set the secret",
    "share.closed": "closed the link",
    "share.made": "made a link:",
    "sign_in.failed": "sign-in refused:",
    "sign_in.locked_out": "sign-in locked:",
    "sign_in.succeeded": "signed in:",
    "study.archived": "archived the study",
    "study.created": "created the study",
    "study.renamed": "renamed the study",
    "study.run_added": "added a run to the study",
    "study.run_removed": "took a run out of the study",
    "study.seeds_launched": "launched seeds of the study",
    "study.stopped": "stopped the runs of the study",
    "study.unarchived": "took out of the archive the study",
    "token.created": "made an API token:",
    "token.revoked": "revoked an API token:",
    "two_factor.codes_renewed": "renewed the recovery codes of",
    "two_factor.disabled": "turned off the two-factor sign-in of",
    "two_factor.enabled": "turned on the two-factor sign-in of",
    "view.shared": "showed everybody the view",
    "view.unshared": "kept to themselves the view",
}


def words_of(verb: str, kind: str) -> str:
    """ "launched the run"; of an unknown verb its own words ("prediction: frozen")."""
    known = WORDS.get(verb)
    if known is not None:
        return known
    _, _, rest = verb.rpartition(".")
    return f"{kind.replace('_', ' ')}: {rest.replace('_', ' ')}:"


def detail_words(detail: dict) -> str:
    """ "role: viewer → admin, days: 7": what is stored beside the event, in its order."""
    return ", ".join(f"{name.replace('_', ' ')}: {_value(value)}" for name, value in detail.items())


def _value(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return detail_words(value)
    if isinstance(value, list):
        return " → ".join(str(one) for one in value) if len(value) == 2 else ", ".join(map(str, value))
    return str(value)
