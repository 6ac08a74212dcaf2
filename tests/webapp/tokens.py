"""What the API asks of a token, without a request."""

from webapp.identity.accounts.models import ApiToken
from webapp.record.runs.tokens import find_token, note_use, why_dead


def authenticate(raw: str) -> ApiToken | None:
    """The token of this text, used now; None where it is unknown or dead."""
    token = find_token(raw)
    if token is None or why_dead(token):
        return None
    note_use(token)
    return token
