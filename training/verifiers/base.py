"""What a verifier is. Light: importing this package imports no torch, sympy or Math-Verify."""

from dataclasses import dataclass
from typing import Literal, Protocol

Isolation = Literal["inline", "process", "thread"]


@dataclass(frozen=True)
class Verdict:
    """A judgement.

    failure: why the verifier could not judge (timed out, crashed ...); such a sample is not correct. What comes before
    its first colon is its kind. reason: why the response is not correct, where the verifier knows more than that.
    """

    correct: bool
    failure: str = ""
    reason: str = ""


class Verifier(Protocol):
    """Judges responses to a task's prompts. Immutable, hashable and picklable.

    isolation: "inline" runs in the event loop (microseconds, cannot hang); "process" in a worker process that is
    killed when it is late (Math-Verify); "thread" in a thread, for verifiers that only wait for a child process of
    their own with a timeout of their own (code in the sandbox). timeout_seconds bounds one judgement from outside.
    """

    @property
    def isolation(self) -> Isolation:
        """Where it runs."""

    @property
    def timeout_seconds(self) -> float:
        """Longest judgement, seconds."""

    def verify(self, answer: str, response: str) -> Verdict:
        """Judge a response against `Prompt.answer`: what came from its first `</think>` on, all of one without it."""


@dataclass(frozen=True)
class Inline:
    """A verifier that answers at once, in microseconds."""

    isolation: Isolation = "inline"
    timeout_seconds: float = 1.0
