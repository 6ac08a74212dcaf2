"""Events of accounts, which belong to no project: into the log of each organisation that hears of the person."""

from typing import Any

from webapp.identity.accounts.models import User
from webapp.identity.accounts.selectors import organisations_that_hear_of
from webapp.identity.audit.services import record


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
