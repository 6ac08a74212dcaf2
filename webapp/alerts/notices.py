"""Telling a person something: every other part calls `notify`, and knows nothing of mail, hooks and quiet hours."""

from webapp.accounts.models import Project, User
from webapp.alerts.models import Notice


def notify(user: User, *, project: Project, kind: str, text: str, url: str) -> Notice:
    """A notice on the person's pages; `url` is a path of this server."""
    return Notice.objects.create(user=user, project=project, kind=kind, text=text[:300], url=url)
