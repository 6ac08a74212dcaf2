"""Checkpoints: one folder for each, complete when its marker is there. Half a write is never read.

checkpoints/step-00000025/trainer       what the trainer saves: a file or a folder
                          driver.json   the driver's own, with the recipe that it belongs to
                          samples.npz   tokens of the groups that are not trained yet
                          COMPLETE      written last: size and SHA-256 of all of these
checkpoints/step-00000025.2             written again at the same step, e.g. at a stop; the newest counts
checkpoints/damaged-step-00000050       set aside by a resume, because it no longer holds what was written
checkpoints/stale-step-00000050         the same, because an attempt on another machine went on from an earlier one

A resume takes the newest one that is whole. Damaged ones that are newer are set aside for good: the run goes on from an
earlier step, so that what they hold is of a run that is no longer this one.
"""

import asyncio
import json
import logging
import os
import shutil
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from training.digests import DigestError, check_digests, digests_of
from training.errors import Infrastructure
from training.schema import Recipe

log = logging.getLogger("training")

MARKER = "COMPLETE"
TRAINER = "trainer"
DRIVER = "driver.json"
# What a resume may change: how long, where and how it is watched, but not what is trained.
FREE_SECTIONS = (
    "name",
    "title",
    "description",
    "budget",
    "eval",
    "samples",
    "checkpoint",
    "engine",
    "trainer",
    "resources",
)


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be written or read; the message names the file and the reason."""


class CheckpointUnwritable(CheckpointError, Infrastructure):
    """The disk did not take it."""


class Disk:
    """The few things that writing a checkpoint does to a file system; tests put failures here."""

    def make(self, folder: Path) -> None:
        """A new folder."""
        folder.mkdir(parents=True)

    def write(self, file: Path, content: bytes) -> None:
        """A new file."""
        file.write_bytes(content)

    def flush(self, path: Path) -> None:
        """Have a file, or a folder with all that is in it, on disk."""
        for part in [*sorted(path.rglob("*"), reverse=True), path]:
            descriptor = os.open(part, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def rename(self, old: Path, new: Path) -> None:
        """At once, or not at all."""
        old.rename(new)

    def remove(self, folder: Path) -> None:
        """A folder that may be there, its marker first."""
        (folder / MARKER).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint."""

    folder: Path
    step: int
    driver: dict[str, Any]

    @property
    def trainer_path(self) -> str:
        """What `Trainer.load` reads."""
        return str(self.folder / TRAINER)

    @property
    def recipe(self) -> Recipe:
        """Of the attempt that wrote it; its model is a name. Where nothing was noted of engine and lengths of an
        evaluation: auto, and the defaults. CheckpointError."""
        assumed = {"name": "run", "title": "Run", "engine": {"type": "auto"}}
        try:
            return Recipe.model_validate(assumed | self.driver.get("free", {}) | self.driver["recipe"])
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(self.folder / DRIVER, error) from error

    def refuse_unless_of(self, recipe: Recipe) -> None:
        """CheckpointError naming what differs, where it belongs to another recipe or model."""
        ours, theirs = what_is_trained(recipe), _completed(self.driver["recipe"], recipe)
        if changes := _differences(theirs, ours):
            raise CheckpointError(
                f"the checkpoint {self.folder} is of another recipe: {'; '.join(changes)}. "
                f"A resume may change {', '.join(FREE_SECTIONS[3:])} only"
            )

    def refuse_unless_made_with(self, model: Mapping[str, Any]) -> None:
        """CheckpointError naming what differs, where it was made with another model than this `model_identity`.

        Sizes that differ would not load; another tokenizer would, and every token would mean something else.
        """
        theirs = self.driver.get("model") or {}
        if not theirs:  # nothing was noted
            return
        changes = _differences(theirs.get("config"), model["config"], "config.json: ")
        if theirs.get("tokenizer") != model["tokenizer"]:
            changes.append("tokenizer.json is not the same")
        if changes:
            raise CheckpointError(f"the checkpoint {self.folder} is of another model: {'; '.join(changes)}")


def write_checkpoint(
    root: Path,
    step: int,
    files: Callable[[], Mapping[str, bytes]],
    save_trainer: Callable[[str], Awaitable[None]],
    *,
    keep: int,
    held: Callable[[], Collection[Path]] = tuple,
    disk: Disk | None = None,
) -> Coroutine[Any, Any, Path]:
    """Begin a checkpoint, and complete it in what is returned: trainer's part, the driver's files, marker last; then
    drop all but the newest `keep`, and those that `held` says are needed still. Returns its folder.

    `save_trainer` is called before this returns, all else happens in a thread. It is written beside its place and moved
    there. Raises CheckpointError where it cannot be written (disk full); nothing is left behind. Whatever happens, and
    wherever the process dies, the one before it is intact.
    """
    disk = disk or Disk()
    taken = [_order(folder)[1] for folder in root.glob(f"step-{step:08d}*")]
    number = max(taken, default=0) + 1
    folder = root / (f"step-{step:08d}" + (f".{number}" if number > 1 else ""))
    partial = root / f".{folder.name}.partial"
    with _unless_written(root, step, partial, disk):
        for left_over in root.glob(".*.partial"):  # by an attempt that died
            disk.remove(left_over)
        disk.make(partial)
        saving = save_trainer(str(partial / TRAINER))

    async def complete() -> Path:
        with _unless_written(root, step, partial, disk):
            await saving
            await asyncio.to_thread(_complete_at, partial, folder, files, disk)
        await asyncio.to_thread(lambda: drop_superseded(root, keep, held(), disk))
        return folder

    return complete()


def _complete_at(partial: Path, folder: Path, files: Callable[[], Mapping[str, bytes]], disk: Disk) -> None:
    """Add the driver's files and the marker, and move it to its place."""
    # A trainer on another machine, whose file system this one does not share, has saved it there.
    if not (partial / TRAINER).exists():
        raise FileNotFoundError(
            "the trainer's part is not on the driver's machine: the machines of a run must share its run folder"
        )
    for name, content in files().items():
        disk.write(partial / name, content)
    disk.flush(partial)
    disk.write(partial / MARKER, digests_of(partial))
    disk.flush(partial / MARKER)
    disk.rename(partial, folder)
    disk.flush(folder)


@contextmanager
def _unless_written(root: Path, step: int, partial: Path, disk: Disk) -> Iterator[None]:
    """Remove what there is, and raise CheckpointError, where an error comes."""
    try:
        yield
    except Exception as error:
        left = _left_on_disk(root)  # libraries seldom say that it is full
        with suppress(OSError):
            disk.remove(partial)
        raise CheckpointError(
            f"the checkpoint of step {step} cannot be written to {root} ({left}): {error}"
        ) from error


def drop_superseded(root: Path, keep: int, held: Collection[Path] = (), disk: Disk | None = None) -> None:
    """All but the newest `keep` and those that are `held`; what cannot be removed now is left for the next time."""
    with suppress(OSError):
        kept = {*list(complete_by_step(root).values())[-keep:], *held}
        for old in sorted(root.glob("step-*"), key=_order):
            if old not in kept:
                (disk or Disk()).remove(old)


def _left_on_disk(root: Path) -> str:
    """How much may still be written, in words."""
    try:
        free = shutil.disk_usage(root).free
    except OSError:
        return "its disk cannot be asked"
    return f"{free / 2**20:.1f} MiB left on its disk" if free else "its disk is full"


def newest_checkpoint(root: Path) -> Checkpoint | None:
    """The complete checkpoint with the highest step, or None. Raises CheckpointError where it cannot be read."""
    complete = _complete(root)
    return read_checkpoint(complete[-1]) if complete else None


def checkpoint_to_resume(root: Path) -> Checkpoint | None:
    """The newest checkpoint that holds what was written, or None where there is none at all. Reads every byte of it.

    Newer ones are damaged: they are named in a warning and renamed to `damaged-...`. Raises CheckpointError where all
    are damaged (then nothing is renamed), or where one cannot be read at present.
    """
    damages: dict[Path, str] = {}
    for folder in sorted(root.glob("step-*"), key=_order, reverse=True):
        if not (damage := damage_of(folder)):
            for damaged_one, words in damages.items():
                set_aside(damaged_one, words, folder)
            return read_checkpoint(folder)
        damages[folder] = damage
    if not damages:
        return None
    raise CheckpointError(
        f"no checkpoint in {root} is whole: {'; '.join(damages.values())}. Without them the run begins anew"
    )


def refuse_damaged(folder: Path) -> None:
    """CheckpointError naming the file and what is wrong with it, where a checkpoint does not hold what was written."""
    if damage := damage_of(folder):
        raise CheckpointError(damage)


def damage_of(folder: Path) -> str:
    """ "" where the folder holds what was written. CheckpointError where that cannot be found out at present."""
    try:
        check_digests(folder, folder / MARKER)
    except DigestError as error:
        return str(error)
    except OSError as error:
        raise CheckpointError(f"the checkpoint {folder} cannot be read: {error}") from error
    return ""


def set_aside(folder: Path, why: str, instead: Path | None, kind: str = "damaged") -> None:
    """Rename it to KIND-..., for good, and say why. Raises CheckpointError."""
    aside = folder.with_name(f"{kind}-{folder.name}")
    number = 1
    while aside.exists():
        number += 1
        aside = folder.with_name(f"{kind}-{folder.name}-{number}")
    try:
        folder.rename(aside)
    except OSError as error:
        raise CheckpointError(f"{why}; {folder} cannot be set aside: {error}") from error
    taken = f"{instead.name} is taken instead" if instead else "none is taken instead"
    log.warning("%s; %s, and the %s one is now %s", why, taken, kind, aside)


def read_checkpoint(folder: Path) -> Checkpoint:
    """A complete checkpoint. Raises CheckpointError where its driver.json cannot be read."""
    try:
        driver = json.loads((folder / DRIVER).read_text())
        return Checkpoint(folder, int(driver["step"]), driver)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(folder / DRIVER, error) from error


def complete_by_step(root: Path) -> dict[int, Path]:
    """Step -> the newest complete checkpoint of it, in the order of the steps."""
    return {_order(folder)[0]: folder for folder in _complete(root)}


def damaged(file: Path, error: Exception) -> CheckpointError:
    """The error for a file that cannot be read."""
    return CheckpointError(
        f"{file} is damaged ({type(error).__name__}: {error}); without {file.parent} the checkpoint before it is taken"
    )


def what_is_trained(recipe: Recipe) -> dict[str, Any]:
    """The part of a recipe that a checkpoint depends on. A model is known by its name, wherever it lies."""
    content = recipe.model_dump(mode="json", exclude=set(FREE_SECTIONS))
    return content | {"model": Path(recipe.model).name}


def _completed(trained: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    """`what_is_trained` of a checkpoint, with what there was no field for when it was written at its default."""
    try:
        return what_is_trained(Recipe.model_validate(recipe.model_dump(mode="json") | trained))
    except (
        ValidationError
    ):  # of a field that is gone, or of parts that no longer go together: told as they are
        return trained


def _differences(theirs: Any, ours: Any, field: str = "") -> list[str]:
    """One line for each field that is not the same."""
    if not (isinstance(theirs, dict) and isinstance(ours, dict)):
        return [] if theirs == ours else [f"{field} was {theirs!r} and is {ours!r}"]
    names = sorted(theirs.keys() | ours.keys())
    parts = [_differences(theirs.get(name), ours.get(name), _below(field, name)) for name in names]
    return [line for part in parts for line in part]


def _below(field: str, name: str) -> str:
    """Name of an entry of a field."""
    return f"{field}{name}" if not field or field.endswith(": ") else f"{field}.{name}"


def _order(folder: Path) -> tuple[int, int]:
    return order(folder.name)


def order(name: str) -> tuple[int, int]:
    """(step, which one of that step), by the folder's name."""
    step, _, number = name.removeprefix("step-").partition(".")
    return int(step), int(number or 1)


def _complete(root: Path) -> list[Path]:
    """Oldest first."""
    return sorted((marker.parent for marker in root.glob(f"step-*/{MARKER}")), key=_order)
