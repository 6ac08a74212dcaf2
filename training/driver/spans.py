"""When the groups of a batch were generated and judged, for the trace of the step that trains on them."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from observability import tracing


@dataclass
class Moments:
    """Of one group, seconds since 1970. None: not yet."""

    began: float
    generated: float | None = None
    judged: float | None = None


class GroupTimes:
    """Keeps nothing where no traces are sent.

    Groups are generated beside each other and beside the steps, so a step gets one span for the time in which any of
    its groups was generated, and one for the time in which any was judged.
    """

    def __init__(self, clock: Callable[[], float] = time.time, *, is_on: bool | None = None) -> None:
        self._clock = clock
        self._is_on = tracing.is_on() if is_on is None else is_on
        self._moments: dict[int, Moments] = {}

    def begins(self, number: int) -> None:
        """The generator gets this group, perhaps once more, with another prompt."""
        if self._is_on:
            self._moments.setdefault(number, Moments(self._clock()))

    def generated(self, number: int) -> None:
        """Its responses are complete; the verifiers get them."""
        if number in self._moments:
            self._moments[number].generated = self._clock()

    def judged(self, number: int) -> None:
        """It has its rewards."""
        if number in self._moments:
            self._moments[number].judged = self._clock()

    def tell(self, numbers: Iterable[int]) -> None:
        """The open step trains on these groups. Those that an earlier attempt has made are not known, and left out."""
        found = [self._moments.pop(number) for number in numbers if number in self._moments]
        whole = [(m.began, m.generated, m.judged) for m in found if m.generated and m.judged]
        if whole:
            began, generated, judged = zip(*whole, strict=True)
            tracing.past("generate", min(began), max(generated), groups=len(whole))
            tracing.past("reward", min(generated), max(judged), groups=len(whole))
