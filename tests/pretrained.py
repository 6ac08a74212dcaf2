"""Models that a command makes in a minute, kept for later sessions.

One is made for the code of `training` and the libraries that there are; a machine that has none makes it.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from stack.environment import ROOT

KEPT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headroom-tests"
SECONDS = 300
COMPLETE = "COMPLETE.json"  # the last file that is written


def pretrained(model: Path, *command: str) -> None:
    """Have the model in a folder, unless it is there already. `command`: arguments of Python that make it in the folder
    that is named after them.
    """
    if (model / COMPLETE).exists():
        return
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / f"{model.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may make it just now
        kept = KEPT / f"{model.name}-{_digest(command)}"
        if not (kept / COMPLETE).exists():
            for older in KEPT.glob(f"{model.name}-*"):
                shutil.rmtree(older)
            subprocess.run([sys.executable, *command, str(kept)], cwd=ROOT, check=True, timeout=SECONDS)
        shutil.copytree(kept, model)


def _digest(command: tuple[str, ...]) -> str:
    """Of all that the model may depend on."""
    files = [ROOT / "requirements.lock", *sorted((ROOT / "training").rglob("*.py"))]
    made_of = [" ".join(command).encode(), *(file.read_bytes() for file in files)]
    return hashlib.sha256(b"".join(made_of)).hexdigest()[:16]
