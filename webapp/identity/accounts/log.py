"""Events of accounts, which belong to no project: into the log of each organisation that hears of the person.

Who is made with `createsuperuser` owns the default organisation and is an admin of its first project.

Every other account opens nothing until somebody makes it a member.

Sign-ins, as Django and django-axes tell of them: into the log of each organisation that the person belongs to.

Of a name that is no account nothing is kept but the fact: people type passwords into the wrong field.
"""

from typing import Any

from axes.signals import user_locked_out
from django.contrib.auth.signals import user_logged_in, user_login_failed
from django.db.models.signals import post_save
from django.dispatch import receiver
from django.http import HttpRequest

from webapp.identity.accounts.models import Role, User
from webapp.identity.accounts.selectors import organisations_that_hear_of
from webapp.identity.accounts.services import default_project, set_role
from webapp.identity.audit.services import address_of_request, client_address, record


def record_account(verb: str, user: User | None, *, actor: User | None, **detail: Any) -> None:
    """Once for each of these organisations. `user` None: the account is not known; `actor` None: nobody signed in."""
    for organisation in organisations_that_hear_of(user):
        record(
            verb, actor=actor, organisation=organisation, kind="account", key=user.pk if user else "",
            name=user.get_username() if user else "", **detail,
        )  # fmt: skip


def record_refusal(user: User | None, *, how: str, why: str) -> None:
    """A sign-in that came to nothing; `user` is whose account it would have opened, where that is known."""
    record_account("sign_in.failed", user, actor=None, how=how, why=why)


@receiver(post_save, sender=User)
def own_the_installation(instance: User, created: bool, raw: bool, **_: Any) -> None:
    if created and not raw and instance.is_superuser:
        project = default_project()
        set_role(project, instance, Role.ADMIN)
        project.organisation.owners.add(instance)


@receiver(user_logged_in)
def signed_in(user: User, request: HttpRequest | None = None, **_: Any) -> None:
    _record("sign_in.succeeded", user, request, actor=user)


@receiver(user_login_failed)
def failed(credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    if getattr(request, "axes_locked_out", False):  # told by django-axes as such
        return
    _record("sign_in.failed", _account(credentials.get("username")), request)


@receiver(user_locked_out)
def locked_out(username: str | None = None, request: HttpRequest | None = None, **_: Any) -> None:
    _record("sign_in.locked_out", _account(username), request)


def _account(username: Any) -> User | None:
    text = str(username or "")
    return User.objects.filter(username=text).first() if text else None


def _record(verb: str, user: User | None, request: HttpRequest | None, actor: User | None = None) -> None:
    """With the address that the request came from."""
    before = address_of_request.set(client_address(request) if request is not None else None)
    try:
        record_account(verb, user, actor=actor)
    finally:
        address_of_request.reset(before)
