"""Verifiers that behave, and that do not."""

import os
from dataclasses import dataclass

from training.verifiers.base import Isolation, Verdict


@dataclass(frozen=True)
class Judge:
    """Does what the response says."""

    isolation: Isolation = "process"
    timeout_seconds: float = 30.0

    def verify(self, answer: str, response: str) -> Verdict:
        if response == "hang":
            while True:
                pass
        if response == "exit":
            os._exit(3)
        if response == "segfault":
            import ctypes

            ctypes.string_at(0)
        if response == "memory":
            return Verdict(bool(bytearray(64 * 2**30)))
        if response == "raise":
            raise ValueError("no idea")
        if response == "print":
            print("noise" * 10_000)
        return Verdict(response == answer, reason=str(os.getpid()))


@dataclass(frozen=True)
class Crashing(Judge):
    """Takes its process with it."""

    def verify(self, answer: str, response: str) -> Verdict:
        os._exit(3)


@dataclass(frozen=True)
class Unready(Judge):
    """Cannot be used."""

    def warm(self) -> None:
        raise ImportError("no module named sympy")


@dataclass(frozen=True)
class Asleep(Judge):
    """Never comes up."""

    def warm(self) -> None:
        while True:
            pass
