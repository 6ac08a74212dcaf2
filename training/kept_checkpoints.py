"""Where a run's checkpoints are: in its folder, and as copies in the store that HEADROOM_CHECKPOINTS_URL may name."""

import logging
import os
from pathlib import Path

from training.checkpoint_store import StoreAway, open_store
from training.checkpoint_sync import UNKNOWN, Uploads, resume_with_store
from training.checkpoints import Checkpoint, checkpoint_to_resume, drop_superseded

log = logging.getLogger("training")


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
