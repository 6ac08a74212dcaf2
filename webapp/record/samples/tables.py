"""Samples in the files that clients log: a table of prompts and responses is shown with the run's samples, besides.

Of JSON and JSON lines only. Parquet is not opened here: `python -m headroom samples` reads it where it was written.
"""

import logging
from pathlib import PurePosixPath

from django.db.models import Max

from headroom import tables
from training.samples import MOST_STEP
from webapp.base.errors import ServiceError
from webapp.base.requests import check_items
from webapp.record.artifacts.models import Artifact
from webapp.record.artifacts.store import open_file
from webapp.record.runs.models import Record, Run
from webapp.record.samples import store

log = logging.getLogger(__name__)
READ = (".json", ".jsonl")


def take_responses(artifact: Artifact) -> None:
    """Keep the responses in a file that a run has just been given. A row is of the step that its column `step` says,
    else of the one in the file's name, else of the run's newest; what the same table had of a step before is replaced.

    Raises nothing: what is no table of responses, or has no room, is a file all the same.
    """
    if PurePosixPath(artifact.path).suffix not in READ:
        return
    try:
        _take(artifact)
    except (ServiceError, ValueError, RecursionError) as error:
        log.info("%s of run %s is not read as samples: %s", artifact.path, artifact.run_id, error)


def _take(artifact: Artifact) -> None:
    run = artifact.run
    if artifact.size > store.MOST_SENT:
        raise store.TooLarge(artifact.path, store.MOST_SENT)
    name, step = tables.place_of(artifact.path)
    with open_file(artifact) as file:
        rows = list(tables.responses(tables.rows_of(artifact.path, file, check_items)))
    if rows:
        newest = step if step is not None else _newest_step(run)
        for at, found in tables.by_step(rows, newest, MOST_STEP).items():
            store.keep_rows(run, tables.kind_of(artifact.path), at, run.attempt_number, found, table=name)


def _newest_step(run: Run) -> int:
    newest = Record.objects.filter(run=run).aggregate(step=Max("step"))["step"]  # the last may be of step 0
    return max(0, min(newest or 0, MOST_STEP))
