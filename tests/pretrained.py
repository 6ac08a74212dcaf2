"""The model of the tests that really train: it can add two digits, but mostly guesses; so there is something to learn.

Half as wide as the default task's; heads of 32, since vLLM has no narrower ones on CPUs. `python -m tests.pretrained
FOLDER` makes it anew.
"""

import shutil
import sys
from pathlib import Path

from stack.environment import ROOT

MODEL = "tiny-sums"


def have_model(home: Path) -> None:
    """Have it among the models of an installation."""
    shutil.copytree(ROOT / "tests" / "models" / MODEL, home / "models" / MODEL, dirs_exist_ok=True)


if __name__ == "__main__":
    from training.lessons import Course, Lessons
    from training.pretrain import pretrain

    size = {"hidden": 64, "heads": 2, "mlp": 128, "steps": 200, "lr": 6e-3}
    one_digit = (Course("arithmetic", (1,)),)
    pretrain(Path(sys.argv[1]), Lessons(courses=one_digit, guesses=0.7, mistakes=0.0, **size))
