"""A run as its trainer sees it: `init`, then `log` as often as it likes, then `finish`."""

import atexit
import json
import logging
import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from headroom import about
from headroom.about import About
from headroom.evaluation import PassRates, evaluation_metrics
from headroom.journal import Journal, JournalState
from headroom.sender import Sender
from headroom.server import Server
from headroom.values import COMPUTE_KEYS, clean_compute, clean_metrics

log = logging.getLogger("headroom")

MODES = ("online", "offline")
UNKNOWN = dict.fromkeys(COMPUTE_KEYS)
NOTHING_USED = dict.fromkeys(COMPUTE_KEYS, 0)
EXIT_FLUSH_SECONDS = 5.0  # a process that ends without `finish` waits this long for the server


class Run:
    """One attempt of a run. Use it as a context manager to have it finished as succeeded or failed.

    >>> with headroom.init(name="my run") as run:
    ...     run.log({"eval/pass_rate": 0.41}, step=10, compute={"device_hours": 0.2})
    """

    def __init__(
        self,
        journal: Journal,
        attempt: int,
        run_id: str | None,
        sender: Sender | None,
        known: About,
        used: Mapping[str, Any],
        next_step: int,
    ) -> None:
        self.id = run_id  # None: offline, nothing but the journal
        self.attempt = attempt
        self.journal_path = journal.path
        self._journal = journal
        self._sender = sender
        self._about = known
        self._complained: set[str] = set()
        self._compute = clean_compute(
            {name: value for name, value in used.items() if value is not None},
            UNKNOWN,
            self._complain,
        )
        self._next_step = next_step  # one past the highest so far
        self._finish_mutex = threading.Lock()
        self._finished: bool | None = None
        self._pid = os.getpid()
        atexit.register(self._at_exit)

    @property
    def compute(self) -> dict[str, int | float | None]:
        """Used so far, as last reported: device_hours, flops, tokens; None where it never was. A resume goes on from
        where it began."""
        return dict(self._compute)

    @property
    def last_step(self) -> int | None:
        """Of the newest record in the journal, of whichever attempt; None before the first."""
        return self._journal.last_step

    def log(
        self,
        metrics: Mapping[str, Any],
        step: int | None = None,
        *,
        compute: Mapping[str, Any] | None = None,
        time: datetime | None = None,
    ) -> None:
        """Record `metrics` of `step`: on disk when this returns, at the server soon after. Never raises.

        Steps may come in any order; without one it is the next: one past the highest so far, 0 at first.

        `compute` is what the run has used so far, evaluation not counted: device_hours, flops, tokens; what is left
        out stays as last reported. Unknown (null) is what was never reported, and what is None; but nothing was used
        at step 0, if nothing is said. Values that are no finite numbers are dropped and named once in a warning. time:
        when it was, with offset; now, if nothing is said.
        """
        try:
            self._log(metrics, step, compute, time)
        except Exception as error:  # tracking never stops training
            self._complain(type(error).__name__, f"a record of step {step!r} could not be written: {error}")

    def log_evaluation(
        self,
        pass_rate: PassRates,
        *,
        step: int | None = None,
        n_prompts: int | None = None,
        k: int = 1,
        stderr: float | None = None,
        compute: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Record an evaluation on held-out prompts with its standard error (`headroom.evaluation`). Never raises.

        pass_rate: the mean over `n_prompts` prompts of the share of `k` answers that passed; or that share of each
        prompt, from which mean, number and standard error are worked out. stderr: where it is known better. more:
        further metrics of the evaluation, named `eval/...`. Without a step it is of the highest so far.
        """
        try:
            metrics = evaluation_metrics(pass_rate, n_prompts=n_prompts, k=k, stderr=stderr)
        except (TypeError, ValueError) as error:
            self._complain(f"evaluation {error}", f"the evaluation of step {step!r} is not recorded: {error}")
            return
        extra = {f"eval/{name}": value for name, value in more.items()}
        step = max(0, self._next_step - 1) if step is None else step
        self.log(extra | metrics, step=step, compute=compute)

    def _log(
        self,
        metrics: Mapping[str, Any],
        step: int | None,
        compute: Mapping[str, Any] | None,
        time: datetime | None,
    ) -> None:
        if self._finished is not None or os.getpid() != self._pid:
            self._complain("late", "log() after finish(), or in a forked process, records nothing")
            return
        step = self._next_step if step is None else int(step)
        cleaned = clean_metrics(metrics, self._complain)
        self._compute = clean_compute(compute, self._compute, self._complain)
        fields = {
            "step": step,
            "time": (time or datetime.now(UTC)).isoformat(timespec="milliseconds"),
            "compute": NOTHING_USED if step == 0 and self._compute == UNKNOWN else self._compute,
            "metrics": cleaned,
        }
        self._next_step = max(self._next_step, step + 1)
        self._journal.append(self.attempt, fields)
        if self._sender is not None:
            self._sender.notify()

    def describe(
        self, *, name: str = "", tags: Iterable[str] = (), config: Mapping[str, Any] | None = None
    ) -> None:
        """Say more of the run than `init` did: another name, further tags, entries of its configuration. Kept beside
        the journal when this returns, at the server soon after. Never raises."""
        try:
            if self._finished is not None or os.getpid() != self._pid:
                self._complain("late", "describe() after finish(), or in a forked process, says nothing")
                return
            text = json.dumps({"name": name, "tags": list(tags), "config": config or {}}, default=str)
            said = json.loads(text, parse_constant=str)
            self._about = self._about.described(said)
            about.save(self._about, self.journal_path)
            if self._sender is not None:
                self._sender.describe(said)
        except Exception as error:  # tracking never stops training
            self._complain("describe", f"what was said of the run could not be kept: {error!r}")

    def finish(
        self,
        state: str = "succeeded",
        message: str = "",
        timeout: float = 10,
        *,
        infrastructure: bool = False,
    ) -> bool:
        """Send what is left and say how the run ended: succeeded, failed or cancelled. Never raises. With
        `infrastructure` it failed because of the machines, not of what it was to do.

        True when the server has everything (or there is none); False when `timeout` seconds were not enough: the
        journal keeps the rest, and the next `init` with the same journal sends it. Later calls change nothing, but
        wait once more.
        """
        with self._finish_mutex:
            if self._finished is None:
                self._finished = False
                atexit.unregister(self._at_exit)
                outcome: dict[str, Any] = {"state": state, "message": message}
                self._finished = self._end(
                    outcome | ({"infrastructure": True} if infrastructure else {}), timeout
                )
            elif not self._finished:
                self._finished = self._wait_for_sender(timeout)
            return self._finished

    def _end(self, outcome: dict[str, Any] | None, timeout: float) -> bool:
        if os.getpid() != self._pid:
            return False
        sent = True
        try:
            with suppress(OSError):  # the sender has what the disk refuses even now
                self._journal.flush()
            payload = None if outcome is None else {"attempt": self.attempt, **outcome}
            if payload is not None:
                with suppress(OSError):
                    about.save(self._about.ended(payload), self.journal_path)
            if self._sender is not None:
                sent = self._sender.close(payload, timeout)
                if not sent:
                    log.warning("headroom: the server does not have all of %s yet", self.journal_path)
            if sent:  # else the sender still reads it
                self._journal.close()
        except Exception as error:
            self._complain("finish", f"finishing failed: {error!r}")
            sent = False
        return sent

    def _wait_for_sender(self, timeout: float) -> bool:
        if self._sender is None or os.getpid() != self._pid or not self._sender.wait(timeout):
            return False
        self._journal.close()
        return True

    def _at_exit(self) -> None:
        if self._finished is None:
            self._finished = self._end(None, EXIT_FLUSH_SECONDS)

    def _complain(self, kind: str, message: str) -> None:
        if kind not in self._complained:
            self._complained.add(kind)
            log.warning("headroom: %s", message)

    def __enter__(self) -> "Run":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        elif issubclass(kind, KeyboardInterrupt):
            self.finish("cancelled", "interrupted")
        else:
            self.finish("failed", f"{kind.__name__}: {error}")


def init(
    *,
    project: str | None = None,
    name: str | None = None,
    config: Mapping[str, Any] | None = None,
    task: str | None = None,
    model: str | None = None,
    run: str | None = None,
    attempt: int | None = None,
    journal: str | os.PathLike[str] | None = None,
    url: str | None = None,
    token: str | None = None,
    resumed_from_step: int | None = None,
    restarted: bool = False,
    device: Any = None,
    mode: str | None = None,
) -> Run:
    """Begin (or go on with) a run.

    `mode` (or HEADROOM_MODE) is online or offline; offline, or without `url` (or HEADROOM_URL), everything stays in the
    journal until `python -m headroom sync` sends it. Online, `run` (or HEADROOM_RUN) names a run that the server knows;
    without one, the run of an existing `journal`, else a new tracked run is made from name, task, model and config.
    `attempt` (or HEADROOM_ATTEMPT) is by default the journal's last one, the next one where `resumed_from_step` is
    given, or where the trainer was `restarted` and begins anew. The token comes from HEADROOM_TOKEN or the file that
    HEADROOM_TOKEN_FILE names.

    A known run needs no answering server: it is told later. Raises ValueError for unusable settings, JournalBusy or
    OSError for the journal, ServerError where a new run cannot be made.
    """
    run = run or os.environ.get("HEADROOM_RUN")
    server = _server(mode, url, token)
    book = Journal(Path(journal) if journal else _default_journal(run, name))
    try:
        attempt = attempt or _attempt(book, restarted or resumed_from_step is not None)
        start = {"attempt": attempt, "resumed_from_step": resumed_from_step, "device": device}
        described = {"project": project, "name": name, "task": task, "model": model, "config": config}
        known = _known(book, described).started(start)
        about.save(known, book.path)
        used = {} if restarted and resumed_from_step is None else book.last_compute(resumed_from_step)
        next_step = _next_step(book, resumed_from_step, restarted)
        if run and book.load_state(None).run != run:
            book.save_state(JournalState(run))  # what has to be sent later is that run's
        if server is None:
            return Run(book, attempt, run, None, known, used, next_step)
        run_id = run or book.load_state(None).run or make_run(book, server, known)
    except BaseException:
        book.close()
        raise
    return Run(book, attempt, run_id, Sender(book, server, run_id, [start]), known, used, next_step)


def _server(mode: str | None, url: str | None, token: str | None) -> Server | None:
    mode = mode or os.environ.get("HEADROOM_MODE") or "online"
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    url = url or os.environ.get("HEADROOM_URL")
    return Server(url, token or token_from_environment()) if url and mode == "online" else None


def _known(journal: Journal, described: Mapping[str, Any]) -> About:
    """What stands beside the journal, with what is described now over it."""
    before = about.load(journal.path)
    given = {name: value for name, value in described.items() if value is not None}
    return replace(before, description={**before.description, **given})


def make_run(journal: Journal, server: Server, known: About) -> str:
    """The id of the run that the journal describes: made once, also where the answer was lost. Raises ServerError."""
    run_id = server.create_run(known.description, known.key)
    journal.save_state(JournalState(run_id))
    return run_id


def _attempt(journal: Journal, is_next: bool) -> int:
    given = os.environ.get("HEADROOM_ATTEMPT")
    if given:
        return int(given)
    last = journal.last_attempt()
    if last is None:
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
    safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in name or "run")
    return Path("headroom-runs") / f"{safe}-{stamp}.jsonl"
