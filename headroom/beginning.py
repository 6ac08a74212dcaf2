"""Beginning a run: its journal, its attempt, and the connection to the server."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from headroom import about, system
from headroom.about import About
from headroom.configuration import described, file_name, plain
from headroom.journal import Journal, JournalState
from headroom.run import Run
from headroom.sender import Sender
from headroom.server import Server, ServerError
from headroom.warned import log

MODES = ("online", "offline")


def init(
    *,
    project: str | None = None,
    name: str | None = None,
    config: Mapping[str, Any] | None = None,
    task: str | None = None,
    model: str | None = None,
    seed: int | None = None,
    tags: Iterable[str] = (),
    run: str | None = None,
    attempt: int | None = None,
    journal: str | os.PathLike[str] | None = None,
    url: str | None = None,
    token: str | None = None,
    resumed_from_step: int | None = None,
    restarted: bool = False,
    device: Any = None,
    mode: str | None = None,
    system_metrics: bool = True,
) -> Run:
    """Begin (or go on with) a run.

    `mode` (or HEADROOM_MODE) is online or offline; offline, or without `url` (or HEADROOM_URL), everything stays in the
    journal until `python -m headroom sync` sends it. Online, `run` (or HEADROOM_RUN) names a run that the server knows;
    without one, the run of an existing `journal`, else a new tracked run is made from name, task, model, seed and
    config, whose values are stored as `headroom.configuration` makes them readable. `tags` are added to those that the
    run has.
    `attempt` (or HEADROOM_ATTEMPT) is by default the journal's last one, the next one where `resumed_from_step` is
    given, or where the trainer was `restarted` and begins anew. The token comes from HEADROOM_TOKEN or the file that
    HEADROOM_TOKEN_FILE names.

    `system_metrics`: every 15 s it also records what the machine does (`headroom.system`), where psutil or nvidia-ml-py
    is installed and HEADROOM_SYSTEM_METRICS is not `off`.

    No answering server is needed: the run is made and told later. Raises ValueError for unusable settings, JournalBusy
    or OSError for the journal, ServerError where the server refuses to make the run.
    """
    run = run or os.environ.get("HEADROOM_RUN")
    server = _server(mode, url, token)
    given = {"project": project, "name": name, "task": task, "model": model, "seed": seed, "config": config}
    book = Journal(Path(journal) if journal else _default_journal(run, name))
    try:
        attempt = attempt or _attempt(book, restarted or resumed_from_step is not None)
        start = {"attempt": attempt, "resumed_from_step": resumed_from_step, "device": plain(device)[0]}
        known = _known(book, given).started(start)
        about.save(known, book.path)
        if run and book.load_state(None).run != run:
            book.save_state(JournalState(run))  # what has to be sent later is that run's
        used = {} if restarted and resumed_from_step is None else book.last_compute(resumed_from_step)
        next_step = _next_step(book, resumed_from_step, restarted)
        sender = _sender(book, server, run, start, known) if server is not None else None
        begun = Run(book, attempt, run, sender, known, used, next_step)
    except BaseException:
        book.close()
        raise
    if system_metrics and system.is_on():
        begun.watch_system()
    if tags:
        begun.describe(tags=tags)
    return begun


def _sender(journal: Journal, server: Server, run: str | None, start: dict[str, Any], known: About) -> Sender:
    """The run is made now where the server answers, else by the sender. Raises ServerError where it refuses."""
    run = run or journal.load_state(None).run or _made_now(journal, server, known)
    return Sender(journal, server, run, [start], partial(make_run, journal, server, known))


def _server(mode: str | None, url: str | None, token: str | None) -> Server | None:
    mode = mode or os.environ.get("HEADROOM_MODE") or "online"
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    url = url or os.environ.get("HEADROOM_URL")
    return Server(url, token or token_from_environment()) if url and mode == "online" else None


def _known(journal: Journal, given: Mapping[str, Any]) -> About:
    """What stands beside the journal, with what is described now over it."""
    before = about.load(journal.path)
    description, lost = described(given)
    if lost:
        log.warning("headroom: not kept of the run's description, as no readable value: %s", ", ".join(lost))
    return replace(before, description={**before.description, **description})


def _made_now(journal: Journal, server: Server, known: About) -> str | None:
    """The id of the run; None where the server is away, so that the sender makes the run later."""
    try:
        return make_run(journal, server, known)
    except ServerError as error:
        if not error.passing:
            raise
        log.warning("headroom: %s; until it answers, all of this run waits in %s", error, journal.path)
        return None


def make_run(journal: Journal, server: Server, known: About) -> str:
    """The id of the run that the journal describes: made once, also where the answer was lost. Raises ServerError."""
    description, _ = described(known.description)  # earlier versions kept what no server takes
    try:
        run_id = server.create_run(description, known.key)
    except ServerError as error:
        if not error.final or not description.pop("config", None):
            raise
        run_id = server.create_run(description, known.key)
        log.warning("headroom: run %s is made without its configuration: %s", run_id, error)
    journal.save_state(JournalState(run_id))
    return run_id


def _attempt(journal: Journal, is_next: bool) -> int:
    if given := os.environ.get("HEADROOM_ATTEMPT"):
        return int(given)
    if (last := journal.last_attempt()) is None:
        return 1
    return last + 1 if is_next else last


def _next_step(journal: Journal, resumed_from_step: int | None, restarted: bool) -> int:
    if resumed_from_step is not None:
        return resumed_from_step + 1
    return 0 if restarted or journal.last_step is None else journal.last_step + 1


def token_from_environment() -> str:
    """Raises ValueError where there is none."""
    token = os.environ.get("HEADROOM_TOKEN")
    path = os.environ.get("HEADROOM_TOKEN_FILE")
    if not token and path:
        token = Path(path).read_text().strip()
    if not token:
        raise ValueError("a server needs a token: set HEADROOM_TOKEN or HEADROOM_TOKEN_FILE, or pass token=")
    return token


def _default_journal(run: str | None, name: str | None) -> Path:
    """A known run always has the same file, so that a restart goes on with it; a new run has one of its own."""
    if run:
        return Path("headroom-runs") / f"{run}.jsonl"
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
    return Path("headroom-runs") / f"{file_name(name or 'run')}-{stamp}.jsonl"
