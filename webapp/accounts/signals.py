"""Every new account, however it was made, belongs to the default project."""

from typing import Any

from django.db.models.signals import post_save
from django.dispatch import receiver

from webapp.accounts.models import User
from webapp.accounts.services import default_project


@receiver(post_save, sender=User)
def join_default_project(instance: User, created: bool, raw: bool, **_: Any) -> None:
    if created and not raw:
        default_project().members.add(instance)
