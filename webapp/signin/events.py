"""What people do to their own accounts, in the audit log of each organisation that they belong to."""

from typing import Any

from webapp.accounts.models import User
from webapp.accounts.selectors import organisations_that_hear_of
from webapp.audit.services import record


def record_account(verb: str, user: User, *, actor: User | None, **detail: Any) -> None:
    """Once for each organisation that hears of them. `actor` None: at the console."""
    _record(verb, user, actor, detail)


def record_refusal(user: User | None, *, how: str, why: str) -> None:
    """A sign-in that came to nothing; `user` is whose account it would have opened, where that is known."""
    _record("sign_in.failed", user, None, {"how": how, "why": why})


def _record(verb: str, user: User | None, actor: User | None, detail: dict[str, Any]) -> None:
    for organisation in organisations_that_hear_of(user):
        record(
            verb, actor=actor, organisation=organisation, kind="account", key=user.pk if user else "",
            name=user.get_username() if user else "", **detail,
        )  # fmt: skip
