"""What people do to their own accounts, in the audit log of each organisation that they belong to."""

from typing import Any

from django.db.models import Q

from webapp.accounts.models import Organisation, User
from webapp.audit.services import record


def record_account(verb: str, user: User, *, actor: User | None, **detail: Any) -> None:
    """Once for each organisation; once without any for who belongs to none. `actor` None: at the console."""
    belongs = Q(owners=user) | Q(projects__members=user)
    found: list[Organisation | None] = list(Organisation.objects.filter(belongs).distinct())
    for organisation in found or [None]:
        record(
            verb, actor=actor, organisation=organisation, kind="account", key=user.pk,
            name=user.get_username(), **detail,
        )  # fmt: skip
