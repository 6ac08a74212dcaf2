"""The x-axes on which a curve can be drawn and fitted."""

from dataclasses import dataclass

from webapp.science.curves import words


@dataclass(frozen=True)
class Axis:
    """One measure of training compute; `key` is also the column of `webapp.record.runs.models.Point`."""

    key: str
    label: str
    short: str  # unit after a number
    unit: str  # the same in a sentence
    counted: bool = False  # comes in whole numbers

    def amount(self, value: float | None) -> str:
        """A number on this axis: "58" steps, "58.0" device-hours."""
        return words.amount(value, counted=self.counted)

    def short_text(self, value: float | None) -> str:
        """An amount with its short unit: "58.0 h", "1 step"."""
        return self._with(self.amount(value), self.short)

    def text(self, value: float | None) -> str:
        """An amount with its unit as a sentence has it: "58.0 device-hours", "58 steps"."""
        return self._with(self.amount(value), self.unit)

    def _with(self, number: str, unit: str) -> str:
        one = self.counted and number == "1"
        return f"{number} {unit.removesuffix('s') if one else unit}"


AXES = {
    axis.key: axis
    for axis in (
        Axis("device_hours", "Device-hours", "h", "device-hours"),
        Axis("flops", "FLOPs", "FLOPs", "FLOPs"),
        Axis("tokens", "Tokens", "tokens", "tokens", counted=True),
        Axis("step", "Steps", "steps", "steps", counted=True),
    )
}
DEFAULT_AXIS = "device_hours"
DEFAULT_METRIC = "eval/pass_rate"
DEFAULT_LEVEL = 0.9
