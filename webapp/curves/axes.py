"""The x-axes on which a curve can be drawn and fitted."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """One measure of training compute; `key` is also the column of `webapp.runs.models.Point`."""

    key: str
    label: str
    short: str  # unit after a number


AXES = {
    axis.key: axis
    for axis in (
        Axis("device_hours", "Device-hours", "h"),
        Axis("flops", "FLOPs", "FLOPs"),
        Axis("tokens", "Tokens", "tokens"),
        Axis("step", "Steps", "steps"),
    )
}
DEFAULT_AXIS = "device_hours"
DEFAULT_METRIC = "eval/pass_rate"
DEFAULT_LEVEL = 0.9
