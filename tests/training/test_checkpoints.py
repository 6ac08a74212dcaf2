import asyncio
import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from training.checkpoints import (
    MARKER,
    Checkpoint,
    CheckpointError,
    Disk,
    checkpoint_to_resume,
    newest_checkpoint,
    refuse_damaged,
    write_checkpoint,
)


class Died(BaseException):
    """The process was killed here."""


class FailingDisk(Disk):
    """Something happens instead of the n-th operation, or in the middle of it, where that is a write."""

    def __init__(self, at: int, error: Callable[[], BaseException]) -> None:
        self._left, self._error, self.operations = at, error, 0

    def _count(self) -> None:
        self.operations += 1
        self._left -= 1
        if self._left == 0:
            raise self._error()

    def make(self, folder: Path) -> None:
        self._count()
        super().make(folder)

    def write(self, file: Path, content: bytes) -> None:
        super().write(file, content[:1])
        self._count()
        super().write(file, content)

    def flush(self, path: Path) -> None:
        self._count()
        super().flush(path)

    def rename(self, old: Path, new: Path) -> None:
        self._count()
        super().rename(old, new)

    def remove(self, folder: Path) -> None:
        (folder / MARKER).unlink(missing_ok=True)
        self._count()
        super().remove(folder)


def write(root: Path, step: int, *, keep: int = 2, disk: Disk | None = None, in_folder: bool = False) -> Path:
    async def save_trainer(path: str) -> None:
        if in_folder:
            (Path(path) / "deep").mkdir(parents=True)
            (Path(path) / "deep" / "shard").write_text(f"weights of {step}")
        else:
            Path(path).write_text(f"weights of {step}")

    files = {"driver.json": b'{"step": %d}' % step, "samples.npz": b"tokens"}
    return asyncio.run(write_checkpoint(root, step, lambda: files, save_trainer, keep=keep, disk=disk))


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


@pytest.mark.parametrize("in_folder", [False, True])
def test_newest_is_read_back(tmp_path: Path, in_folder: bool) -> None:
    for step in (5, 100, 20):
        write(tmp_path, step, keep=5, in_folder=in_folder)

    newest = newest_checkpoint(tmp_path)

    assert newest is not None
    assert (newest.step, newest.driver) == (100, {"step": 100})
    saved = Path(newest.trainer_path)
    assert (saved / "deep/shard" if in_folder else saved).read_text() == "weights of 100"
    assert (newest.folder / "samples.npz").read_bytes() == b"tokens"


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        write(tmp_path, step)

    assert names(tmp_path) == ["step-00000002", "step-00000003"]


def test_same_step_again_replaces_the_one_before_and_no_other(tmp_path: Path) -> None:
    for step in (1, 2, 2, 2):
        write(tmp_path, step)

    assert names(tmp_path) == ["step-00000001", "step-00000002.3"]
    newest = newest_checkpoint(tmp_path)
    assert newest is not None and newest.step == 2


def num_operations(tmp_path: Path) -> int:
    disk = FailingDisk(-1, Died)
    for step in (1, 2):
        write(tmp_path / "counted", step)
    write(tmp_path / "counted", 3, disk=disk)
    return disk.operations


@pytest.mark.parametrize("again", [False, True])
def test_wherever_the_process_dies_a_whole_checkpoint_is_there(tmp_path: Path, again: bool) -> None:
    step = 2 if again else 3
    for at in range(1, num_operations(tmp_path) + 1):
        root = tmp_path / str(at)
        write(root, 1)
        write(root, 2)
        with contextlib.suppress(Died):
            write(root, step, disk=FailingDisk(at, Died))

        newest = newest_checkpoint(root)

        assert newest is not None and newest.step in (2, step)
        assert Path(newest.trainer_path).read_text() == f"weights of {newest.step}"
        assert (newest.folder / "samples.npz").read_bytes() == b"tokens"
        write(root, 4)  # tidies up
        assert names(root) == [newest.folder.name, "step-00000004"]


def test_full_disk_leaves_nothing_and_what_was_there_intact(tmp_path: Path) -> None:
    def full() -> OSError:
        return OSError(28, "No space left on device")

    seen = 0
    for at in range(1, num_operations(tmp_path) + 1):
        root = tmp_path / str(at)
        write(root, 1)
        write(root, 2)
        try:
            write(root, 3, disk=FailingDisk(at, full))
        except CheckpointError as error:
            seen += 1
            assert re.search(
                r"checkpoint of step 3 cannot be written to .* \([\d.]+ MiB left on its disk\): ", str(error)
            )
            assert "No space left on device" in str(error)
            assert names(root)[:2] == ["step-00000001", "step-00000002"]
            assert not list(root.glob(".*"))
        else:  # it was removing an old one
            assert newest_checkpoint(root).step == 3
    assert seen >= 6


def test_trainer_that_cannot_save_is_named(tmp_path: Path) -> None:
    async def save(path: str) -> None:
        Path(path).write_text("half")
        raise RuntimeError("inline_container.cc: write failed")

    with pytest.raises(CheckpointError, match=r"step 7 cannot be written .* write failed"):
        asyncio.run(write_checkpoint(tmp_path, 7, lambda: {"driver.json": b"{}"}, save, keep=2))
    assert names(tmp_path) == []


def test_folder_without_its_marker_is_never_read(tmp_path: Path) -> None:
    write(tmp_path, 1)
    (write(tmp_path, 2) / MARKER).unlink()

    newest = newest_checkpoint(tmp_path)

    assert newest is not None and newest.step == 1


@pytest.mark.parametrize("content", ['{"step"', "{}", "[]"])
def test_damaged_driver_file_is_named(tmp_path: Path, content: str) -> None:
    write(tmp_path, 1)
    (tmp_path / "step-00000001" / "driver.json").write_text(content)

    with pytest.raises(CheckpointError, match="driver.json is damaged"):
        newest_checkpoint(tmp_path)


def test_none_yet(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path / "nowhere") is None


def test_flush_reaches_every_file_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    flushed: list[Any] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: flushed.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    )
    folder = write(tmp_path, 1, in_folder=True)

    here = [Path(path).name for path in flushed]
    assert {"shard", "deep", "trainer", "driver.json", "samples.npz", MARKER, folder.name} <= set(here)


# -- damage ----------------------------------------------------------------------------------------------------

FILES = ("trainer/deep/shard", "driver.json", "samples.npz", MARKER)


def cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-3])


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))


DAMAGES = {
    "cut off": cut_off,
    "a bit flipped": flip_a_bit,
    "empty": lambda f: f.write_bytes(b""),
    "gone": Path.unlink,
}


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_resume_goes_back_to_the_newest_that_is_whole(
    tmp_path: Path, file: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (1, 2, 3):
        write(tmp_path, step, keep=9, in_folder=True)
    DAMAGES[damage](tmp_path / "step-00000003" / file)

    taken = checkpoint_to_resume(tmp_path)

    assert taken is not None and taken.step == 2
    assert names(tmp_path) == ["damaged-step-00000003", "step-00000001", "step-00000002"]
    (warning,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    named = "" if (file, damage) == (MARKER, "a bit flipped") else f"{file} is "  # it may be of any entry
    assert f"step-00000003/{named}" in warning and "step-00000002 is taken instead" in warning


def test_whole_checkpoint_is_taken_without_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, 1, in_folder=True)

    taken = checkpoint_to_resume(tmp_path)

    assert taken is not None and taken.step == 1
    assert not caplog.records and names(tmp_path) == ["step-00000001"]


def test_where_all_are_damaged_nothing_is_taken_or_moved(tmp_path: Path) -> None:
    for step in (1, 2):
        flip_a_bit(write(tmp_path, step) / "samples.npz")

    with pytest.raises(
        CheckpointError, match="(?s)no checkpoint .* is whole: .*00002/samples.npz .*00001/samples.npz"
    ):
        checkpoint_to_resume(tmp_path)
    assert names(tmp_path) == ["step-00000001", "step-00000002"]


def test_without_any_checkpoint_a_resume_begins_anew(tmp_path: Path) -> None:
    assert checkpoint_to_resume(tmp_path / "nowhere") is None


def test_what_was_set_aside_never_counts_again(tmp_path: Path) -> None:
    """With one checkpoint kept, the next one replaces the one that the run went on from, and not the damaged one."""
    for step in (1, 5):
        write(tmp_path, step, keep=9)
    flip_a_bit(tmp_path / "step-00000005" / "driver.json")
    checkpoint_to_resume(tmp_path)

    write(tmp_path, 2, keep=1)
    assert names(tmp_path) == ["damaged-step-00000005", "step-00000002"]
    flip_a_bit(write(tmp_path, 5, keep=2) / "driver.json")
    taken = checkpoint_to_resume(tmp_path)

    assert taken is not None and taken.step == 2
    assert names(tmp_path) == ["damaged-step-00000005", "damaged-step-00000005-2", "step-00000002"]


def test_damaged_checkpoint_is_refused_by_the_name_of_the_file(tmp_path: Path) -> None:
    folder = write(tmp_path, 1, in_folder=True)
    refuse_damaged(folder)
    cut_off(folder / "trainer/deep/shard")

    with pytest.raises(CheckpointError, match="trainer/deep/shard is damaged: it has 9 bytes of 12"):
        refuse_damaged(folder)


MODEL = {
    "config": {"hidden_size": 64, "tie_word_embeddings": False, "rope": {"theta": 1e4}},
    "tokenizer": "a",
}


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        (
            MODEL | {"config": MODEL["config"] | {"hidden_size": 32}},
            "config.json: hidden_size was 64 and is 32",
        ),
        (
            MODEL | {"config": MODEL["config"] | {"rope": {"theta": 1e6}}},
            "config.json: rope.theta was 10000.0 and is 1000000.0",
        ),
        (MODEL | {"tokenizer": "b"}, "tokenizer.json is not the same"),
    ],
)
def test_checkpoint_of_another_model_is_refused(tmp_path: Path, ours: dict[str, Any], words: str) -> None:
    checkpoint = Checkpoint(tmp_path, 1, {"model": MODEL})
    checkpoint.refuse_unless_made_with(MODEL)

    with pytest.raises(CheckpointError, match=f"is of another model: {words}$"):
        checkpoint.refuse_unless_made_with(ours)
