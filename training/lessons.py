"""Which tiny base models there are, how large each is, and what it is taught. No torch needed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Course:
    """Problems of one family of `training.teaching`. Of `sizes`, one that stands twice comes twice as often."""

    family: str = "arithmetic"
    sizes: tuple[int, ...] = (2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 5, 5, 6, 7, 8)


@dataclass(frozen=True)
class Lessons:
    """Size of the network and of its schooling."""

    courses: tuple[Course, ...] = (Course(),)  # in turn, at random
    guesses: float = 0.3  # share of lessons that guess an answer without thinking
    mistakes: float = 0.15  # chance that a step of thinking is wrong
    hidden: int = 128
    layers: int = 2
    heads: int = 8  # of 16 numbers each: wider ones seldom learn to copy the answer from the trace
    mlp: int = 256
    context: int = 192
    steps: int = 1200
    batch: int = 64
    lr: float = 3e-3
    seed: int = 0


_SEARCH = Course("countdown", (3, 3, 4, 4, 5))
_EXPRESSIONS = Course("expressions", (2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7))

# Parameters: 0.11M, 0.34M, 1.2M, 3.2M; the other families have the second size.
LESSONS = {
    "tiny-arithmetic": Lessons(),
    "tiny-arithmetic-0.1m": Lessons(hidden=64, heads=4, mlp=192),
    "tiny-arithmetic-1m": Lessons(hidden=192, layers=3, heads=12, mlp=448, lr=2e-3),
    "tiny-arithmetic-3m": Lessons(hidden=256, layers=4, heads=16, mlp=704, lr=1e-3, steps=500),
    "tiny-countdown": Lessons(courses=(_SEARCH,)),
    "tiny-expressions": Lessons(courses=(_EXPRESSIONS,)),
    "tiny-mixture": Lessons(courses=(Course(), _SEARCH)),
}
