"""Training compute, cumulative: device-hours, FLOPs, tokens.

Evaluation, loading and waiting for a place do not count.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from training.flops import ModelShape, Work


@dataclass(frozen=True)
class Usage:
    """Compute used so far."""

    device_hours: float = 0.0
    flops: float = 0.0
    tokens: int = 0

    def as_dict(self) -> dict[str, float]:
        """As a record carries it."""
        return {"device_hours": self.device_hours, "flops": self.flops, "tokens": self.tokens}


class ComputeMeter:
    """A clock that runs while training does, and counters of tokens and of FLOPs by the model's shape."""

    def __init__(
        self,
        *,
        devices: int,
        shape: ModelShape,
        start: Usage = Usage(),  # noqa: B008 - frozen
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._devices, self._shape, self._clock = devices, shape, clock
        self._usage = start
        self._running_since: float | None = None

    def run(self) -> None:
        """The clock runs from now on."""
        if self._running_since is None:
            self._running_since = self._clock()

    def pause(self) -> None:
        """The clock stands still until `run`: evaluation."""
        self._usage = self.usage()
        self._running_since = None

    def generated(self, response_tokens: int, work: Work) -> None:
        """Tokens sampled, and the sequences (prompts included) that went through the network for them."""
        self._count(response_tokens, self._shape.forward_flops(work))

    def trained(self, response_tokens: int, work: Work, forward: Work = Work()) -> None:  # noqa: B008 - frozen
        """Tokens in the loss, sequences that went forward and backward for them, and those that went forward alone
        (reference model, old values)."""
        self._count(response_tokens, self._shape.training_flops(work) + self._shape.forward_flops(forward))

    def usage(self) -> Usage:
        """Compute used until now."""
        seconds = 0.0 if self._running_since is None else self._clock() - self._running_since
        return Usage(
            self._usage.device_hours + self._devices * seconds / 3600, self._usage.flops, self._usage.tokens
        )

    def _count(self, tokens: int, flops: float) -> None:
        self._usage = Usage(self._usage.device_hours, self._usage.flops + flops, self._usage.tokens + tokens)
