"""Imports that wait, of people and of the example project: a turn is wished for them again where a hint was lost."""

from webapp.base import nudge
from webapp.interfaces.imports import claims, example
from worker import names


def wish_turns() -> int:
    """Ask for a turn where an import waits for one; returns how many wait."""
    waiting = claims.waiting()
    if waiting:
        nudge.send(names.IMPORT)
    return waiting


def wish_example() -> int:
    """Ask for the example project where it is still to come; 1 where it is."""
    wanted = example.is_wanted()
    if wanted:
        nudge.send(names.EXAMPLE)
    return int(wanted)
