"""Sends the journal to the server from a daemon thread; an absent or failing server only delays it."""

import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from headroom import about
from headroom.backoff import Backoff
from headroom.journal import Journal, JournalState, Refused, parse_line, unsealed
from headroom.server import CONFLICT, Server, ServerError
from headroom.values import sound_records
from headroom.warned import Warnings, log

GATHER_SECONDS = 0.2  # how long a new record waits for company, where the server does not ask for more
MAX_GATHER_SECONDS = 30.0  # whatever it asks for
MAX_BATCH_RECORDS = 500
MAX_BATCH_BYTES = 1_000_000
HEARTBEAT_SECONDS = 15.0  # of silence, after which the server is told that the trainer lives


class Sender:
    """Sends the start notices, then the journal from where the server acknowledged it, then the finish notice.

    Where the run is None, `make` makes it first. One thread does all of it in this order; it reads the journal, so a
    long absence of the server costs no memory. Before the finish notice come the records that the disk refused until
    the end. How long records gather for a batch the server says in each answer, by how many runs report to it; `close`
    waits for no gathering.
    """

    def __init__(
        self,
        journal: Journal,
        server: Server,
        run: str | None,
        starts: list[dict[str, Any]],
        make: Callable[[], str] | None = None,
    ) -> None:
        self._journal = journal
        self._server, self.another_server = server, server.again
        self._make = make
        self._run = run or ""
        self._told: dict[int, Refused] = {}
        self._told_at = -math.inf
        self._starts = starts
        self._finish: dict[str, Any] | None = None
        known = about.load(journal.path)
        self._later = dict(known.later) if known.unsaid else {}  # what is to be said of the run
        self._saying = threading.Lock()
        self._state = journal.load_state(run)
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._warn = Warnings()
        self._backoff = Backoff(self._closing)
        self._gather_seconds = GATHER_SECONDS
        self._wake.set()  # the start notice, and what an earlier process left
        self._thread = threading.Thread(target=self._loop, name="headroom-sender", daemon=True)
        self._thread.start()

    def notify(self) -> None:
        """The journal has grown."""
        if not self._wake.is_set():
            self._wake.set()

    def describe(self, said: Mapping[str, Any]) -> None:
        """Say this of the run with the next batch: name, tags, config."""
        with self._saying:
            self._later = about.together(self._later, said)
        self.notify()

    def close(self, finish: dict[str, Any] | None, timeout_seconds: float) -> bool:
        """Send what is left, and `finish` where given; True when the server has all of it in time."""
        self._finish = finish
        self._closing.set()
        self._wake.set()
        return self.wait(timeout_seconds)

    def wait(self, timeout_seconds: float) -> bool:
        """After `close`: go on waiting; True when the server has all of it."""
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    @property
    def run(self) -> str | None:
        """The run's id; None until it is made."""
        return self._run or None

    def _loop(self) -> None:
        while True:
            if not self._wake.wait(HEARTBEAT_SECONDS):
                self._guarded(self._beat)
                continue
            self._wake.clear()  # before looking at anything: what comes later sets it again
            self._closing.wait(self._gather_seconds)
            closing = self._closing.is_set()
            if self._guarded(self._send_everything) and closing:
                with suppress(OSError):
                    about.note_said(self._journal.path)
                self._server.close()
                return

    def _guarded(self, step: Callable[[], None]) -> bool:
        """True when `step` went through. Otherwise wait a while and have the loop try again."""
        try:
            step()
        except ServerError as error:
            self._warn(f"status {error.status}", f"{error.reason}; records wait in {self._journal.path}")
            self._backoff.pause(error.retry_after or 0.0)
        except Exception as error:  # whatever happens here, the training goes on
            self._warn(
                type(error).__name__, f"sending failed: {error!r}; records wait in {self._journal.path}"
            )
            self._backoff.pause()
        else:
            if self._backoff.note_success():
                log.warning("headroom: %s answers again", self._server.url)
                self._warn.said &= {"rejected"}
            return True
        self._wake.set()
        return False

    def _send_everything(self) -> None:
        if not self._run and self._make is not None:
            self._run = self._make()
            self._state = self._journal.load_state(self._run)
        while self._starts:
            self._send_notice(self._server.start, self._starts[0])
            self._starts = self._starts[1:]
        finish = self._finish  # before the end: what comes between the two was logged before it
        end = self._journal.end  # what is logged meanwhile gathers for the next batch
        while (start := self._state.acknowledged) < end:
            self._send_lines(
                self._journal.lines(start, max_lines=MAX_BATCH_RECORDS, max_bytes=MAX_BATCH_BYTES)
            )
            if finish is not None:
                end = self._journal.end  # with what was too much for one record
        if self._closing.is_set() and (unwritten := self._journal.unwritten()):
            self._send_lines(unwritten, in_journal=False)
        self._say_what_is_new()
        self._tell_refused()
        if finish is not None:
            self._send_notice(self._server.finish, finish)
            self._finish = None

    def _say_what_is_new(self) -> None:
        with self._saying:
            said, self._later = self._later, {}
        try:
            if said:
                self._send_notice(self._server.describe, said)
        except ServerError as error:
            if error.status in (404, 405):  # an older server
                self._warn(
                    "describe", f"the server takes no later words on a run: {', '.join(said)} not sent"
                )
                return
            with self._saying:
                self._later = about.together(said, self._later)
            raise

    def _beat(self) -> None:
        self._send_records([])
        self._tell_refused()

    def _tell_refused(self) -> None:
        """What was refused since it was last told; not with every batch."""
        if not self._closing.is_set() and time.monotonic() - self._told_at < HEARTBEAT_SECONDS:
            return
        for attempt, refused in sorted(self._journal.refused.items()):
            if self._told.get(attempt) != refused:
                now = replace(refused)
                self._send_notice(self._server.refused, {"attempt": attempt, **now.as_notice()})
                self._told[attempt] = now
                self._told_at = time.monotonic()

    def _send_notice(self, call: Callable[[str, dict[str, Any]], None], payload: dict[str, Any]) -> None:
        try:
            call(self._run, payload)
        except ServerError as error:
            if not error.final:
                raise
            self._warn(
                f"notice {error.status}", f"{call.__name__} of run {self._run} refused: {error.reason}"
            )

    def _send_lines(self, lines: list[bytes], *, in_journal: bool = True) -> None:
        """Send; where the batch is refused for good, halve it until the refused records are alone."""
        try:
            self._send_batch(lines)
        except ServerError as error:
            if not error.final:
                raise
            if len(lines) > 1:
                middle = len(lines) // 2
                self._send_lines(lines[:middle], in_journal=in_journal)
                self._send_lines(lines[middle:], in_journal=in_journal)
                return
            self._send_sound_part(lines[0], error)
        if in_journal:
            self._acknowledge(sum(map(len, lines)))

    def _send_sound_part(self, line: bytes, refusal: ServerError) -> None:
        """Of a record that is refused what can be stored; the rest is set aside. What is too much for one record
        becomes further ones at the end of the journal."""
        record = parse_line(unsealed(line) or b"") or {}
        (first, *others), problems = sound_records(record)
        if not record or refusal.status == CONFLICT or first == record:
            return self._reject(line, refusal)
        try:
            self._send_records([json.dumps(first).encode()])
        except ServerError as error:
            if not error.final:
                raise
            return self._reject(line, refusal)
        for other in others:
            with suppress(OSError):  # the next one is written with it
                self._journal.append(other.pop("attempt"), other)
            self.notify()
        if problems:
            self._reject(line, ServerError(problems[0], refusal.status), values=len(problems))

    def _send_batch(self, lines: list[bytes]) -> None:
        records = [record for line in lines if (record := unsealed(line)) is not None]
        if len(records) < len(lines):
            raise ServerError("it was damaged on the disk: its checksum does not match", status=400)
        self._send_records(records)

    def _send_records(self, records: list[bytes]) -> None:
        asked = self._server.send_records(self._run, records) or 0.0
        self._gather_seconds = min(max(GATHER_SECONDS, asked), MAX_GATHER_SECONDS)

    def _reject(self, line: bytes, refusal: ServerError, values: int = 0) -> None:
        self._journal.reject(line, status=refusal.status, reason=refusal.reason, values=values)
        self._warn(
            "rejected", f"a record was refused: {refusal.reason}; it is kept in {self._journal.rejected_path}"
        )

    def _acknowledge(self, size: int) -> None:
        self._state = JournalState(self._run, self._state.acknowledged + size)
        try:
            self._journal.save_state(self._state)
        except OSError as error:  # a later process sends them once more, which does no harm
            self._warn("state", f"what has been sent could not be noted: {error}")
