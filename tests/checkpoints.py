"""Checkpoints as far as the server looks at them."""

from pathlib import Path

from django.conf import settings


def whole_checkpoint(run_id: str, step: int) -> Path:
    """A folder with the marker of a whole one."""
    folder = Path(settings.HEADROOM_HOME) / "runs" / run_id / "checkpoints" / f"step-{step:08d}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "COMPLETE").write_text("{}")
    return folder
