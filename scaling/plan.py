"""What more compute buys, by a run's forecast: the compute to a target, and what is left to gain."""

from scaling.course import Course
from scaling.curve import first_reaching
from scaling.intervals import Interval

Value = tuple[float, float, float]  # with its interval


def compute_to(course: Course, rate: float) -> tuple[float | None, Interval]:
    """Where the forecast first reaches the rate, and the interval of that; 0: at its start, None: not within what is
    forecast."""
    early, found, late = (
        first_reaching(course.compute, column, rate) for column in (course.hi, course.value, course.lo)
    )
    return found, (early, late)


def gain(course: Course, to: float) -> Value:
    """What is added from the compute seen to `to`; NaN beyond what is forecast."""
    here = _here(course)
    value, lo, hi = course.value_at(to)
    return value - here, lo - here, hi - here


def left(course: Course) -> Value:
    """What is left to gain from the compute seen to the ceiling. Raises ValueError where nothing is forecast."""
    if course.ceiling is None or course.interval is None:
        raise ValueError(f"nothing is forecast: {course.message}")
    here = _here(course)
    return course.ceiling - here, max(0.0, course.interval[0] - here), course.interval[1] - here


def may_stop(course: Course, delta: float) -> bool:
    """Whether less than `delta` of pass rate is left up to the upper end of the ceiling's interval, which at a level of
    90 % is the case with a probability of 95 %."""
    return course.interval is not None and left(course)[2] < delta


def near_ceiling(course: Course, delta: float) -> float | None:
    """The compute from which on less than `delta` is as likely as not to be left; None beyond what is forecast."""
    return (
        None
        if course.ceiling is None
        else first_reaching(course.compute, course.value, course.ceiling - delta)
    )


def _here(course: Course) -> float:
    assert course.seen is not None
    return course.value_at(course.seen)[0]
