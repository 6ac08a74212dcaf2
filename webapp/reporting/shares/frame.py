"""The frame of a chart on a picture: from values to pixels."""

import math
from collections.abc import Sequence

from webapp.reporting.shares.drawing import Drawing
from webapp.reporting.shares.ticks import Tick, linear_ticks, log_ticks


class Frame:
    """Axes of a drawing within the pixels left, top, right, bottom. Values outside fall outside."""

    def __init__(self, left: float, top: float, right: float, bottom: float, drawing: Drawing) -> None:
        self.left, self.top, self.right, self.bottom = left, top, right, bottom
        self.is_log = drawing.scale == "log"
        self.x_range, self.y_range = drawing.x_range, drawing.y_range

    def x(self, value: float) -> float:
        """Pixels from the left edge of the picture; on a log axis what is not positive lies at the frame's left."""
        lo, hi = self.x_range
        if self.is_log:
            value = max(value, lo / 10)
            lo, hi, value = math.log10(lo), math.log10(hi), math.log10(value)
        return self.left + (value - lo) / (hi - lo) * (self.right - self.left)

    def y(self, value: float) -> float:
        """Pixels from the top edge of the picture; far outside the frame it stays one frame away from it."""
        lo, hi = self.y_range
        share = min(2.0, max(-1.0, (value - lo) / (hi - lo)))
        return self.bottom - share * (self.bottom - self.top)

    def path(self, xs: Sequence[float], ys: Sequence[float]) -> list[tuple[float, float]]:
        """Pixels of the points that can be drawn: both coordinates finite, and positive on a log axis."""
        pairs = zip(xs, ys, strict=True)
        return [
            (self.x(x), self.y(y))
            for x, y in pairs
            if y is not None and math.isfinite(y) and math.isfinite(x) and (x > 0 or not self.is_log)
        ]

    def x_ticks(self) -> list[Tick]:
        return log_ticks(*self.x_range) if self.is_log else linear_ticks(*self.x_range, most=8)

    def y_ticks(self) -> list[Tick]:
        return linear_ticks(*self.y_range)
