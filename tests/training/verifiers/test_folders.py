"""Folders that a killed process leaves are removed by the next one; nobody else's are."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from training.verifiers.folders import BEING_MADE_SECONDS, new_folder, remove_abandoned

OWNER = "from training.verifiers.folders import new_folder\nprint(new_folder()[0], flush=True)\ninput()"


def killed_owner(root: Path) -> Path:
    """The folder of a process that was killed."""
    environment = os.environ | {"TMPDIR": str(root), "PYTHONPATH": os.pathsep.join(sys.path)}
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert owner.stdout
    folder = Path(owner.stdout.readline().strip())
    assert folder.parent == root and remove_abandoned(root, spare_seconds=0) == 0
    owner.send_signal(signal.SIGKILL)
    owner.communicate(timeout=30)
    return folder


def test_folder_of_a_killed_process_is_removed_and_that_of_a_living_one_stays(tmp_path: Path) -> None:
    folder = killed_owner(tmp_path)
    (folder / "work").mkdir()
    mine, owner = new_folder()
    living = mine.rename(tmp_path / mine.name)
    try:
        assert remove_abandoned(tmp_path, spare_seconds=0) == 1
        assert list(tmp_path.iterdir()) == [living]
    finally:
        os.close(owner)
        shutil.rmtree(living)


def test_folder_that_is_just_being_made_is_spared(tmp_path: Path) -> None:
    (tmp_path / "headroom-sandbox-new").mkdir()

    assert remove_abandoned(tmp_path) == 0
    assert remove_abandoned(tmp_path, spare_seconds=0) == 1
    assert BEING_MADE_SECONDS >= 10


def test_links_and_other_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "headroom-sandbox-link").symlink_to(tmp_path / "other")

    assert remove_abandoned(tmp_path, spare_seconds=0) == 0
    assert (tmp_path / "other").is_dir()
