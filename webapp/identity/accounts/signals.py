"""Who is made with `createsuperuser` owns the default organisation and is an admin of its first project.

Every other account opens nothing until somebody makes it a member.
"""

from typing import Any

from django.db.models.signals import post_save
from django.dispatch import receiver

from webapp.identity.accounts.models import Role, User
from webapp.identity.accounts.services import default_project, set_role


@receiver(post_save, sender=User)
def own_the_installation(instance: User, created: bool, raw: bool, **_: Any) -> None:
    if created and not raw and instance.is_superuser:
        project = default_project()
        set_role(project, instance, Role.ADMIN)
        project.organisation.owners.add(instance)
