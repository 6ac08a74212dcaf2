"""The model of the tests that really train, made in some seconds and kept for later.

It is made for the code of `training` and the libraries that there are; a machine that has none makes it.
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
MODEL = "tiny-sums"
# It can add two digits, but mostly guesses, so that there is something to learn. Half as wide as the default task's;
# heads of 32, since vLLM has no narrower ones on CPUs.
LESSONS = """import sys
from pathlib import Path
from training.lessons import Course, Lessons
from training.pretrain import pretrain
small = {"hidden": 64, "heads": 2, "mlp": 128, "steps": 200, "lr": 6e-3}
one_digit = Lessons(courses=(Course("arithmetic", (1,)),), guesses=0.7, mistakes=0.0, **small)
pretrain(Path(sys.argv[1]), one_digit)"""
COMPLETE = "COMPLETE.json"  # the last file that is written


def have_model(home: Path) -> None:
    """Have it among the models of an installation."""
    model = home / "models" / MODEL
    if (model / COMPLETE).exists():
        return
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / f"{MODEL}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may make it just now
        kept = KEPT / f"{MODEL}-{_digest()}"
        if not (kept / COMPLETE).exists():
            for older in KEPT.glob(f"{MODEL}-*"):
                shutil.rmtree(older)
            subprocess.run([sys.executable, "-c", LESSONS, str(kept)], cwd=ROOT, check=True, timeout=SECONDS)
        shutil.copytree(kept, model)


def _digest() -> str:
    """Of all that the model may depend on."""
    files = [ROOT / "requirements.lock", *sorted((ROOT / "training").rglob("*.py"))]
    made_of = [LESSONS.encode(), *(file.read_bytes() for file in files)]
    return hashlib.sha256(b"".join(made_of)).hexdigest()[:16]
