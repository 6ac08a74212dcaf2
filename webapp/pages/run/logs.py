"""The stored end of a job's log: its lines, filtered. Pure functions."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LogLines:
    """Lines that hold `wanted` (all for an empty one), of how many; case does not matter."""

    text: str
    shown: int
    total: int
    wanted: str


def filtered(log: str, wanted: str) -> LogLines:
    """The lines of `log` that hold `wanted`."""
    lines = log.splitlines()
    needle = wanted.casefold()
    kept = [line for line in lines if needle in line.casefold()] if needle else lines
    return LogLines("\n".join(kept), len(kept), len(lines), wanted)
