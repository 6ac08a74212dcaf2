"""Whether the machine that will train has the kind of device that a recipe asks for. No Ray needed."""

import os
from pathlib import Path

from training.schema import Resources

ACCELERATOR_FILES = ("nvidia[0-9]*", "dxg", "kfd")  # in /dev: NVIDIA, NVIDIA under WSL, AMD


class NoDevice(ValueError):
    """A device that is asked for where there is none. `field` of the recipe asks for it."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}")
        self.field, self.reason = field, reason


def check_devices(resources: Resources, devices: Path = Path("/dev")) -> None:
    """Raises NoDevice where GPUs are asked for, this machine will train, and it has none.

    With RAY_ADDRESS another cluster trains, and what it has is known when the run asks for its place.
    """
    if os.environ.get("RAY_ADDRESS") or any(any(devices.glob(name)) for name in ACCELERATOR_FILES):
        return
    for name in ("generator_gpus", "trainer_gpus"):
        if count := getattr(resources, name):
            some = f"{count} GPU{'s' if count > 1 else ''}"
            raise NoDevice(
                f"resources.{name}",
                f"asks for {some}; this machine has none, and RAY_ADDRESS names no other cluster",
            )
