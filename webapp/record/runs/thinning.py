"""How charts leave out steps: every 2^k-th is kept, so that a point once drawn never moves."""

MAX_POINTS = 120


def stride_for(last_step: int, max_points: int = MAX_POINTS) -> int:
    """The least power of two that leaves at most `max_points` of the steps 0..last_step."""
    stride = 1
    while last_step // stride + 1 > max_points:
        stride *= 2
    return stride
