"""Why nobody is signed in by the provider."""

from webapp.identity.accounts.models import User


class ProviderFailed(Exception):
    """The provider cannot be reached or its words cannot be used. The text may be shown."""


class NotAccepted(Exception):
    """The answer is not one to a question of this session, or it does not say who this is. The text may be shown.

    `account` is the one that would have been opened, where it is known: for the audit log, not for the page.
    """

    def __init__(self, text: str, account: User | None = None) -> None:
        super().__init__(text)
        self.account = account
