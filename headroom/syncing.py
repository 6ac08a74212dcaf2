"""Sends journals that no run has open to a server: of offline runs, and what is left of runs whose server was away."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headroom import about, artifacts
from headroom.about import About
from headroom.beginning import make_run
from headroom.journal import Journal, JournalBusy, total
from headroom.sender import Sender
from headroom.server import Server, ServerError

SUFFIX = ".jsonl"


@dataclass(frozen=True)
class Synced:
    """What came of one journal. `problem`: why not all of it is sent; empty where nothing waits for the server.
    `refused`: what the server will never have of it, in words; empty where that is nothing."""

    journal: Path
    run: str | None
    records_bytes: int  # sent now
    problem: str = ""
    refused: str = ""


def journals_in(folder: Path) -> list[Path]:
    """Those below `folder`, or the journal itself; what has no `.about` beside it is no journal of ours."""
    if folder.is_file():
        return [folder]
    return sorted(path for path in folder.rglob(f"*{SUFFIX}") if about.path_of(path).exists())


def sync(folder: Path, url: str, token: str, *, timeout: float = 60.0) -> Iterator[Synced]:
    """Send each journal below `folder`, one after the other; what has been sent is not sent again.

    timeout: seconds for each. A server that is away is asked once. Raises ValueError for an address that is none; what
    goes wrong with one journal is said of that one.
    """
    away = ""
    for path in journals_in(folder):
        server = Server(url, token)
        try:
            one = Synced(path, None, 0, away) if away else _sync_one(path, server, timeout)
        except ServerError as error:
            away = error.reason
            one = Synced(path, None, 0, away)
        yield one


def _sync_one(path: Path, server: Server, timeout: float) -> Synced:
    """Raises ServerError where the server does not answer."""
    try:
        journal = Journal(path)
    except (JournalBusy, OSError) as error:
        return Synced(path, None, 0, str(error))
    run_id = journal.load_state(None).run
    try:
        known = about.load(path)
        run_id = run_id or make_run(journal, server, known)
        _look_for(run_id, server)
        before = journal.load_state(run_id).acknowledged
        waits = _send_files(journal, known, server, run_id)  # before the end: after it a job may send nothing
        sender = Sender(journal, server, run_id, known.notices())
        outcome = None if known.outcome is None else dict(known.outcome)
        done = sender.close(outcome, timeout)
        sent = journal.load_state(run_id).acknowledged - before
        left_out = total(journal.refused.values())
        problem = waits if done else f"not all of it within {timeout:g} s"
        warning = f"{left_out}; see {journal.rejected_path}" if left_out else ""
        return Synced(path, run_id, sent, problem, warning)
    except (ServerError, OSError) as error:
        if isinstance(error, ServerError) and error.status is None:
            raise
        return Synced(path, run_id, 0, str(error))
    finally:
        journal.close()


def _look_for(run_id: str, server: Server) -> None:
    """A sender would try until its time is over. Raises ServerError where nobody answers, or there is no such run."""
    try:
        server.ask("GET", f"runs/{run_id}")
    except ServerError as error:
        if error.status in (None, 404):
            raise


def _send_files(journal: Journal, known: About, server: Server, run_id: str) -> str:
    """Why some wait still; empty where none does. What is refused for good is counted."""
    attempt = max(map(int, known.starts), default=1)
    try:
        for refused in artifacts.send(artifacts.folder_of(journal.path), server.again(), run_id):
            if refused:
                journal.leave_out(attempt, reason=refused, values=1)
    except (ServerError, OSError) as error:
        return str(error)
    return ""
