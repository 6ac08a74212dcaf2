"""What a project's jobs need and nobody may read: tokens of model hubs. Stored encrypted, with keys
that are not in the database.

HEADROOM_SECRETS_KEY holds them, separated by commas: the first encrypts, each of them decrypts, so a key is changed
by putting the new one in front, `manage.py encrypt_secrets_anew`, and taking the old one away. Without it, the key of
the installation (SECRET_KEY and its fallbacks) serves (`webapp.base.sealing`).
"""

import json

from cryptography.fernet import InvalidToken, MultiFernet
from django.conf import settings
from django.db import models

from webapp.base.sealing import box
from webapp.identity.accounts.models import Project

PURPOSE = b"headroom: secrets of projects, version 1"


class ProjectSecret(models.Model):
    """A variable of the project's jobs. One that was replaced or deleted is kept, retired, only while a job that was
    given it may still run, so that its log can be cleaned of it."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="secrets")
    name = models.CharField(max_length=64)
    ciphertext = models.TextField()
    set_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True)
    set_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True)
    retired_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project", "name"],
                condition=models.Q(retired_at=None),
                name="one_secret_of_a_name",
                violation_error_message="There is a secret of this name.",
            )
        ]

    def __str__(self) -> str:
        return self.name


class Undecipherable(Exception):
    """None of the keys opens it, or it was written for another project or name."""


def encrypt(project_id: int, name: str, value: str) -> str:
    """What is stored. It says for which project and name, so that rows cannot be exchanged in the database."""
    content = json.dumps([project_id, name, value])
    return _cipher().encrypt(content.encode()).decode()


def decrypt(project_id: int, name: str, ciphertext: str) -> str:
    """The value. Raises Undecipherable."""
    try:
        content = json.loads(_cipher().decrypt(ciphertext.encode()))
    except InvalidToken:
        raise Undecipherable(name) from None
    if content[:2] != [project_id, name]:
        raise Undecipherable(name)
    return content[2]


def _cipher() -> MultiFernet:
    texts = [text.strip() for text in settings.SECRETS_KEY.split(",") if text.strip()]
    return box(PURPOSE, texts)
