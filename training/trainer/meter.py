"""Adds up the metrics of micro-batches."""

from collections.abc import Iterable


class Meter:
    """Losses add up; extremes (names ending in _max or _min) are the extreme; the others are means over tokens."""

    def __init__(self) -> None:
        self._loss, self._tokens = 0.0, 0
        self._values: dict[str, float] = {}

    def add(self, loss: float, metrics: dict[str, float], tokens: int) -> None:
        """One micro-batch with so many counted tokens; one without any has no metrics worth counting."""
        if not tokens:
            return
        self._loss += loss
        self._tokens += tokens
        for name, value in metrics.items():
            self._take(name, value if _is_extreme(name) else value * tokens)

    def _take(self, name: str, value: float) -> None:
        """An extreme, or a sum over tokens."""
        if name not in self._values:
            self._values[name] = value
        elif _is_extreme(name):
            best = max if name.endswith("_max") else min
            self._values[name] = best(self._values[name], value)
        else:
            self._values[name] += value

    @classmethod
    def together(cls, meters: Iterable["Meter"]) -> "Meter":
        """Of the micro-batches of all of them: one meter a rank."""
        total = cls()
        for meter in meters:
            total._loss += meter._loss
            total._tokens += meter._tokens
            for name, value in meter._values.items():
                total._take(name, value)
        return total

    def result(self) -> dict[str, float]:
        """Metrics of the batch; none where no token counted."""
        if not self._tokens:
            return {}
        means = {
            name: value if _is_extreme(name) else value / self._tokens for name, value in self._values.items()
        }
        return {"loss": self._loss, **means}


def _is_extreme(name: str) -> bool:
    return name.endswith(("_max", "_min"))
