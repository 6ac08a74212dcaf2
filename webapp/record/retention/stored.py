"""Copies in the checkpoint store (`training.checkpoint_store`) of what the clean-up has taken out of run folders."""

import logging
import re
from pathlib import Path

from training.checkpoint_store import open_store
from training.checkpoints import MARKER, CheckpointError
from webapp.record.runs.models import Run
from webapp.record.runs.states import ENDED

log = logging.getLogger(__name__)

TAKEN = re.compile(r"(?P<run>.+?)-(?P<name>step-\d+(?:\.\d+)?)(?:-\d+)?")  # as `folders.take_away` names them


def remove_copy(folder: Path) -> bool:
    """Remove the store's copy of what `folder` was, which still has its marker; False: the store has to be asked again.

    A run that goes on meanwhile is left alone: its driver keeps the store as it keeps its folder.
    """
    found = TAKEN.fullmatch(folder.name)
    if found is None or not Run.objects.filter(pk=found["run"], state__in=ENDED).exists():
        return True
    try:
        store = open_store(found["run"])
        if store is None:
            return True
        there = store.marker(found["name"])
        if there is None or there == _marker(
            folder
        ):  # without one: half of it, of a removal that was interrupted
            store.remove(found["name"])
    except CheckpointError as error:
        log.warning("the copy of %s of run %s stays for now: %s", found["name"], found["run"], error)
        return False
    return True


def _marker(folder: Path) -> bytes:
    try:
        return (folder / MARKER).read_bytes()
    except OSError:
        return b""
