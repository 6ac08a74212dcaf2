"""What a run's folder and its store hold is brought together: which checkpoint a resume takes, and copying new ones.

The run folder notes under which id this machine's attempts claimed the store (checkpoints/STORE.json). While the store
says the same, the folder is the newer of the two: what it has is taken, and the store fills in what is lost or damaged.
Where the store was claimed by an attempt on another machine since, the store alone says what the run is: that attempt
went on from a checkpoint that is there, so what this folder has beyond it is of a run that is no longer this one.

Where a run's checkpoints are: in its folder, and as copies in the store that HEADROOM_CHECKPOINTS_URL may name.
"""

import json
import logging
import os
import shutil
import threading
import time
import uuid
from collections.abc import Collection
from pathlib import Path

from training.checkpoint_store import Store, StoreAway, StoreRefused, open_store
from training.checkpoints import (
    MARKER,
    Checkpoint,
    CheckpointError,
    checkpoint_to_resume,
    damage_of,
    drop_superseded,
    order,
    read_checkpoint,
    set_aside,
)
from training.digests import DigestError
from training.whole_files import read_json, replace_file

log = logging.getLogger("training")

NOTE = "STORE.json"
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 5.0, 60.0  # between two tries to copy
UNKNOWN = "unknown"  # the store was away


class Superseded(CheckpointError):
    """Another attempt writes to the store now: this one must not."""


def resume_with_store(store: Store, root: Path, writer: str | None) -> Checkpoint | None:
    """The newest checkpoint that is whole, from the run's folder `root` or the store; None where there is none at all.

    It is in the folder then. Damaged ones that are newer are set aside where they are. `writer`: what `Store.writer`
    says. Raises CheckpointError where all are damaged (then nothing is set aside), StoreAway where the store cannot be
    asked: an older one may not be taken.
    """
    stored = store.names()
    here = [folder.name for folder in root.glob("step-*")]
    if writer is not None and writer not in _noted(root, store):
        return _Search(store, root, stored, here, is_store_newer=True).run()
    if not stored:
        return checkpoint_to_resume(root)
    return _Search(store, root, stored, here, is_store_newer=False).run()


class _Search:
    """From the newest to the oldest."""

    def __init__(
        self,
        store: Store,
        root: Path,
        stored: Collection[str],
        here: Collection[str],
        *,
        is_store_newer: bool,
    ) -> None:
        self._store, self._root, self._stored, self._here = store, root, stored, here
        self._is_store_newer = is_store_newer
        self._damaged_here: dict[str, str] = {}  # name -> in words
        self._damaged_there: dict[str, str] = {}

    def run(self) -> Checkpoint | None:
        names = set(self._stored) if self._is_store_newer else {*self._stored, *self._here}
        taken = next((name for name in sorted(names, key=order, reverse=True) if self._is_whole(name)), None)
        if names and taken is None:
            damages = "; ".join([*self._damaged_here.values(), *self._damaged_there.values()])
            raise CheckpointError(
                f"no checkpoint in {self._root} or {self._store.words} is whole: {damages}. Without them the run "
                "begins anew"
            )
        self._set_aside_here(taken)
        for name, damage in self._damaged_there.items():
            self._store.set_aside(name)
            log.warning("%s; it is no longer looked at", damage)
        if taken is None:
            return None
        folder = self._root / taken
        if self._partial(taken).exists():
            self._partial(taken).rename(folder)
            log.info("%s comes from the checkpoint store %s", taken, self._store.words)
        return read_checkpoint(folder)

    def _is_whole(self, name: str) -> bool:
        """Here, or in the store: then it has been fetched, beside its place."""
        if name in self._here and (not self._is_store_newer or self._is_same(name)):
            if not (damage := damage_of(self._root / name)):
                return True
            self._damaged_here[name] = damage
        return name in self._stored and self._fetch(name)

    def _is_same(self, name: str) -> bool:
        """Whether what lies here is what the store has: digests of all files are in the marker."""
        try:
            return (self._root / name / MARKER).read_bytes() == self._store.marker(name)
        except FileNotFoundError:
            return False

    def _fetch(self, name: str) -> bool:
        partial = self._partial(name)
        shutil.rmtree(partial, ignore_errors=True)
        try:
            self._store.download(name, partial)
        except DigestError as error:
            shutil.rmtree(partial, ignore_errors=True)
            words = str(error).replace(str(partial), f"{self._store.words}/{name}")
            self._damaged_there[name] = words
            return False
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise CheckpointError(
                f"{name} cannot be copied from the store to {self._root}: {error}"
            ) from error
        return True

    def _set_aside_here(self, taken: str | None) -> None:
        """What is damaged here; and what is not of the run any more, where the store is newer."""
        instead = self._root / taken if taken else None
        for name, damage in self._damaged_here.items():
            set_aside(self._root / name, damage, instead)
        if not self._is_store_newer:
            return
        for name in sorted(set(self._here) - self._damaged_here.keys(), key=order):
            is_taken = name == taken and not self._partial(name).exists()
            if not is_taken and not (name in self._stored and self._is_same(name)):
                why = f"an attempt on another machine went on without {self._root / name}"
                set_aside(self._root / name, why, instead, "stale")

    def _partial(self, name: str) -> Path:
        return self._root / f".{name}.partial"


class Uploads:
    """Copies each new checkpoint to the store, in a thread: the training never waits for it and never ends of it.

    One is copied at a time. While a try fails it is made again, unless there is a newer one: then its turn comes.
    """

    def __init__(
        self,
        store: Store,
        root: Path,
        keep: int,
        *,
        resumes: bool,
        found: str | None,
        wait_seconds: float = FIRST_WAIT_SECONDS,
    ) -> None:
        """`resumes`: this attempt goes on with a run; else nothing may be in its place yet. `found`: the store's writer
        when it was decided from where this attempt goes on, or UNKNOWN."""
        self._store, self._root, self._keep, self._wait_seconds = store, root, keep, wait_seconds
        self._resumes, self._found, self._own, self._is_claimed = resumes, found, uuid.uuid4().hex, False
        self._change = threading.Condition()
        self._next: Path | None = None
        self._current: Path | None = None
        self._is_finishing = False  # what has been offered is the last
        self._is_over = False  # nothing is copied any more
        self._thread = threading.Thread(target=self._work, name="checkpoint store", daemon=True)

    def begin(self) -> None:
        """Claim the run's place in the store, and be ready for checkpoints. Before training.

        Raises CheckpointError where another run has it. Where the store is away now, that is found out later.
        """
        try:
            self._claim()
        except StoreAway as error:
            log.warning("%s; the run begins, and checkpoints are copied once it answers", error)
        self._thread.start()

    def offer(self, folder: Path) -> None:
        """A complete checkpoint of the run's folder, which stays until it is no longer `held`."""
        with self._change:
            if self._is_over:
                return
            if self._next is not None:
                log.warning(
                    "%s was not copied to the checkpoint store: %s is newer", self._next.name, folder.name
                )
            self._next = folder
            self._change.notify_all()

    def held(self) -> list[Path]:
        """Checkpoints that are still to be copied."""
        with self._change:
            return [folder for folder in (self._current, self._next) if folder is not None]

    def finish(self, timeout: float) -> bool:
        """Wait for what is still to be copied, the run's last; False where it was not in time. May be called again."""
        with self._change:
            self._is_finishing = True
            self._change.notify_all()
            return self._change.wait_for(lambda: self._current is None and self._next is None, timeout)

    def _work(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._next is not None)
                folder = self._current = self._next
                self._next = None
            may_go_on = folder is None or self._copy(folder)
            with self._change:
                self._current = None
                if not may_go_on:
                    self._next, self._is_over = None, True
                self._change.notify_all()
            if not may_go_on:
                return

    def _copy(self, folder: Path) -> bool:
        """Until it is there, or a newer one waits; False where no other may be copied."""
        sent: set[str] = set()
        wait, said = self._wait_seconds, ""
        while True:
            try:
                self._copy_once(folder, sent)
            except Superseded as error:
                log.warning("%s; checkpoints of this attempt are no longer copied", error)
                return False
            except (StoreAway, StoreRefused) as error:
                if str(error) != said:
                    log.warning("%s is not copied yet, and tried again: %s", folder.name, error)
                said = str(error)
                is_hopeless = isinstance(error, StoreRefused) and self._is_finishing
                if is_hopeless or self._has_other_work(wait):
                    log.warning("%s was not copied to the checkpoint store", folder.name)
                    return True
                wait = min(2 * wait, LONGEST_WAIT_SECONDS)
            except Exception as error:  # the folder's own; the training goes on
                log.warning("%s was not copied to the checkpoint store: %s", folder.name, error)
                return True
            else:
                return True

    def _copy_once(self, folder: Path, sent: set[str]) -> None:
        began = time.monotonic()
        self._claim()
        self._store.upload(folder, self._refuse_if_superseded, sent)
        log.info("%s is in the checkpoint store (%.1f s)", folder.name, time.monotonic() - began)
        try:
            self._store.prune(self._keep)
        except StoreAway as error:  # the next one does it
            log.warning("%s: older checkpoints stay there for now", error)

    def _has_other_work(self, seconds: float) -> bool:
        """After a wait of so long, or less where there is."""
        with self._change:
            return self._change.wait_for(lambda: self._next is not None, seconds)

    # -- who writes -------------------------------------------------------------------------------------------

    def _claim(self) -> None:
        """Once. Raises Superseded where another run, or a later attempt on another machine, has the place."""
        if self._is_claimed:
            return
        writer = self._store.writer()
        if writer == self._own:  # only the answer was lost
            self._is_claimed = True
            return
        if not self._resumes and self._store.names():
            raise Superseded(
                f"{self._store.words} holds checkpoints of a run already; use --resume, or another run folder"
            )
        if self._found != UNKNOWN and writer != self._found:
            raise Superseded(f"another attempt has claimed {self._store.words}")
        before = [self._found] if self._found and self._found != UNKNOWN else []
        # Before the claim: whichever of these the store says then, this folder is the newer.
        self._root.mkdir(parents=True, exist_ok=True)
        replace_file(
            self._root / NOTE,
            json.dumps({"store": self._store.words, "writers": [*before, self._own]}) + "\n",
        )
        self._store.claim(self._own)
        self._is_claimed = True

    def _refuse_if_superseded(self) -> None:
        if self._store.writer() != self._own:
            raise Superseded(f"another attempt has claimed {self._store.words}")


def _noted(root: Path, store: Store) -> list[str]:
    """Ids under which attempts with this folder claimed the store."""
    content = read_json(root / NOTE)
    return list(content.get("writers", ())) if content.get("store") == store.words else []


class KeptCheckpoints:
    """Those of the run of `run_dir`, of which the newest `keep` stay. `resumes`: this attempt goes on with a run."""

    def __init__(self, run_dir: Path, keep: int, *, resumes: bool) -> None:
        """Raises StoreAway where a resume cannot ask the store."""
        self._root, self._keep, self._resumes = run_dir / "checkpoints", keep, resumes
        self._store = open_store(os.environ.get("HEADROOM_RUN") or run_dir.resolve().name)
        self._writer = self._found_writer()
        self.uploads: Uploads | None = None  # what copies to the store, once begun

    def _found_writer(self) -> str | None:
        """Who writes to the run's place in the store. A resume has to know it."""
        try:
            return self._store.writer() if self._store else None
        except StoreAway:
            if self._resumes:
                raise
            return UNKNOWN

    def to_resume(self) -> Checkpoint | None:
        """The newest that is whole, in the folder by now; None where there is none. Raises CheckpointError."""
        if self._store is None:
            return checkpoint_to_resume(self._root)
        return resume_with_store(self._store, self._root, self._writer)

    def begin(self, checkpoint: Checkpoint | None) -> Uploads | None:
        """Be ready to copy. `checkpoint`: from where the run goes on; an earlier attempt may have ended before it was
        copied. Raises CheckpointError where another run has its place."""
        if self._store is None:
            return None
        self.uploads = Uploads(self._store, self._root, self._keep, resumes=self._resumes, found=self._writer)
        self.uploads.begin()
        if checkpoint:
            self.uploads.offer(checkpoint.folder)
        return self.uploads

    def end(self, seconds: float) -> None:
        """Wait so long for the store: what it does not have yet may be the run's last. Then older ones go."""
        if self.uploads is None:
            return
        if not self.uploads.finish(timeout=0):
            log.warning(
                "waiting for the checkpoint store, which does not have the last checkpoint yet, for at most %g s",
                seconds,
            )
            if not self.uploads.finish(timeout=seconds):
                log.warning("given up; the run folder has it, and a resume copies it")
        drop_superseded(self._root, self._keep, self.uploads.held())
