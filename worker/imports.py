"""Imports whose hint was lost, or whose worker died: a turn is wished for them again."""

from webapp import nudge
from webapp.imports import claims
from worker import names


def wish_turns() -> int:
    """Ask for a turn where an import waits for one; returns how many wait."""
    waiting = claims.waiting()
    if waiting:
        nudge.send(names.IMPORT)
    return waiting
