"""Why nobody is signed in by the provider."""


class ProviderFailed(Exception):
    """The provider cannot be reached or its words cannot be used. The text may be shown."""


class NotAccepted(Exception):
    """The answer is not one to a question of this session, or it does not say who this is. The text may be shown."""
