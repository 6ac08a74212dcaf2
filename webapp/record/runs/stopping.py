"""The words for a run that is asked to stop, and for one that has: who wanted it, and why."""

WAITS = "; waits for its job to stop."


def while_waiting(by: str) -> str:
    """`by`: who or what stopped it, without a full stop or a semicolon."""
    return by + WAITS


def once_stopped(reason: str) -> str:
    """The same from the reason of the run that was stopping; empty where it had none."""
    by = reason.removesuffix(WAITS).rstrip(".")
    return f"{by}." if by else ""
