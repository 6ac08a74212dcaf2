"""Warnings of which each kind is logged once."""

import logging

log = logging.getLogger("headroom")
MOST_WARNINGS = 100  # of a run; what is dropped after them is counted


class Warnings:
    """Called with a kind and a sentence."""

    def __init__(self) -> None:
        self.said: set[str] = set()

    def __call__(self, kind: str, message: str) -> None:
        if kind in self.said or len(self.said) >= MOST_WARNINGS:
            return
        self.said.add(kind)
        last = "" if len(self.said) < MOST_WARNINGS else " (this run warns no more)"
        log.warning("headroom: %s%s", message, last)
