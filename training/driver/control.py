"""What a running driver is told from outside: RUN_DIR/control.json, replaced as a whole by whoever writes it."""

import json
import logging
import math
from pathlib import Path

log = logging.getLogger("training")

CONTROL = "control.json"  # {"device_hours": the budget as it is now}


class Budget:
    """The device-hours that the run may use: the recipe's, or more where somebody has extended them meanwhile.

    What cannot be read is no extension, and said once.
    """

    def __init__(self, run_dir: Path, device_hours: float) -> None:
        self._path, self._hours = run_dir / CONTROL, device_hours
        self._seen: tuple[int, int] | None = None

    def hours(self) -> float:
        """One look at the file's times, and a read where it is new."""
        try:
            found = self._path.stat()
        except OSError:
            return self._hours
        if (found.st_mtime_ns, found.st_ino) != self._seen:
            self._seen = (found.st_mtime_ns, found.st_ino)
            self._read()
        return self._hours

    def _read(self) -> None:
        try:
            hours = float(json.loads(self._path.read_text())["device_hours"])
        except (OSError, ValueError, TypeError, KeyError) as error:
            log.warning("%s cannot be read: %r", self._path, error)
            return
        if math.isfinite(hours) and hours > self._hours:
            log.info("the budget is %g device-hours now; it was %g", hours, self._hours)
            self._hours = hours
