"""Errors by wandb's names."""


class Error(RuntimeError):
    pass


class CommError(Error):
    pass


class AuthenticationError(CommError):
    pass


class UsageError(Error):
    pass


class UnsupportedError(UsageError):
    pass


class ConfigError(Error):
    pass
