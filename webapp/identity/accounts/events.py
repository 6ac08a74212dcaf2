"""What other parts of the server do when something happens here: they connect to these signals."""

from django.dispatch import Signal

from webapp.identity.accounts.models import Project, User

project_created = Signal()  # project: the new one; inside the transaction that makes it
noticed = Signal()  # user, project, kind, text, url: somebody is to be told


def notify(user: User, *, project: Project, kind: str, text: str, url: str) -> None:
    """Tell a person something. `kind` is what a rule of theirs may turn off; `url` is a path of this server."""
    noticed.send(type(user), user=user, project=project, kind=kind, text=text, url=url)
