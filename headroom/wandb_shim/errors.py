"""Errors by wandb's names."""


class Error(RuntimeError):
    """What any of these is."""


class CommError(Error):
    """The server is away, or refuses."""


class AuthenticationError(CommError):
    """It does not know the token."""


class UsageError(Error):
    """Arguments that cannot be used."""


class UnsupportedError(UsageError):
    """What is not done here."""


class ConfigError(Error):
    """A configuration that cannot be read."""
