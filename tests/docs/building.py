"""The docs' site, built as `make docs` builds it, into a folder of the tests."""

import os
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT

SECONDS = 280


def build(folder: Path) -> Path:
    """The folder with the site in it. A warning is an error."""
    program = Path(sys.executable).parent / "mkdocs"
    done = subprocess.run(
        [str(program), "build", "--quiet", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    return folder
