"""The commands of an installed wheel that run the server, the trainer and the fits.

Their packages are called `webapp`, `worker`, `stack`, `training`, `scaling`: names that somebody's own code may have
too. So the wheel keeps them in a folder inside this package, beside `manage.py`, as in a checkout; only these commands
and the processes that they start have that folder on their path. Nothing here is imported by the client.
"""

import importlib
import importlib.util
import os
import runpy
import sys
from pathlib import Path

# The first thing that each command cannot do without, and the extra that brings it.
NEEDED = {
    "headroom-server": ("django", "server"),
    "headroom-train": ("torch", "train"),
    "headroom-scaling": ("scipy", "scaling"),
}


def code_folder() -> Path:
    """Where `manage.py` and the packages of the server lie: in the wheel's own folder, or in a checkout."""
    package = Path(__file__).resolve().parent
    inside = package / "_server"
    return inside if inside.is_dir() else package.parent


def default_home() -> Path:
    """Where an installation keeps its state unless HEADROOM_HOME says otherwise: never beside the installed code."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "headroom"


def server() -> None:
    """`headroom-server COMMAND`: the commands of `manage.py`."""
    _enter("headroom-server")
    importlib.import_module("manage").main()


def train() -> None:
    """`headroom-train`: `python -m training`."""
    _enter("headroom-train")
    runpy.run_module("training", run_name="__main__", alter_sys=True)


def scaling() -> None:
    """`headroom-scaling`: `python -m scaling`."""
    _enter("headroom-scaling")
    runpy.run_module("scaling", run_name="__main__", alter_sys=True)


def _enter(command: str) -> None:
    """Put the folder on the path of this process and of those that it will start. Ends the process where the extra of
    this command is not installed."""
    module, extra = NEEDED[command]
    if importlib.util.find_spec(module) is None:
        sys.exit(f"error: {command} needs {module}, which comes with the extra headroom[{extra}]")
    folder = str(code_folder())
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    os.environ.setdefault("HEADROOM_HOME", str(default_home()))
