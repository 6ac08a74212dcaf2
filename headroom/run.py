"""A run as its trainer sees it: `init`, then `log` as often as it likes, then `finish`."""

import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from headroom import about, ending, system
from headroom.about import About
from headroom.artifacts import Uploads
from headroom.configuration import plain, text
from headroom.evaluation import PassRates, evaluation_metrics
from headroom.journal import Journal, Refused
from headroom.samples import KINDS, rows_of
from headroom.sender import Sender
from headroom.values import (
    COMPUTE_KEYS,
    MAX_STEP,
    MIN_STEP,
    clean_compute,
    clean_metrics,
    parts_of,
    shown,
    to_number,
)
from headroom.warned import Warnings, log

UNKNOWN = dict.fromkeys(COMPUTE_KEYS)
NOTHING_USED = dict.fromkeys(COMPUTE_KEYS, 0)


@dataclass(frozen=True)
class Finished:
    """What became of what an attempt logged: true where the server has all of it, or where there is none.

    `sent`: nothing waits in the journal for it. `records`, `values`: refused or unusable, records whole or values of
    records that are stored, a file being a value, too; `reason`: of the newest.
    """

    sent: bool
    records: int = 0
    values: int = 0
    reason: str = ""

    def __bool__(self) -> bool:
        return self.sent and not self.records and not self.values


class Run:
    """One attempt of a run. Use it as a context manager to have it finished as succeeded or failed; else it ends with
    its process (`headroom.ending`).

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
        self._id = run_id
        self.attempt = attempt
        self.journal_path = journal.path
        self._journal = journal
        self._sender = sender
        self._about = known
        self._uploads = Uploads(journal, attempt, sender.another_server if sender is not None else None)
        self._complain = Warnings()
        self._compute = clean_compute(
            {name: value for name, value in used.items() if value is not None},
            UNKNOWN,
            self._complain,
        )
        self._next_step = next_step  # one past the highest so far
        self._finish_mutex = threading.Lock()
        self._finished: bool | None = None
        self._pid = os.getpid()
        self._system: system.Watch | None = None
        ending.watch(self.finish)

    @property
    def id(self) -> str | None:
        """The server's; None offline, and until a server that was away at the start has made the run."""
        return self._id or (self._sender.run if self._sender is not None else None)

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

        Steps may come in any order; without one it is the next: one past the highest so far, 0 at first. They are
        whole numbers of 64 bits; for anything else it is the next, too.

        `compute` is what the run has used so far, evaluation not counted: device_hours, flops, tokens; what is left
        out stays as last reported. Unknown (null) is what was never reported, and what is None; but nothing was used
        at step 0, if nothing is said. NaN and infinity are recorded as null; values that are no numbers, and a pass
        rate outside [0, 1], are dropped. Each such metric is named once in a warning. time: when it was, by this
        machine's offset where it has none; now, if nothing is said.
        """
        try:
            self._log(metrics, step, compute, time)
        except OSError as error:  # tracking never stops training
            self._complain(type(error).__name__, f"a record of step {step!r} could not be written: {error}")
        except Exception as error:
            self._refuse(
                type(error).__name__, f"a record of step {step!r} could not be written: {error}", records=1
            )

    def log_system(self, figures: Mapping[str, float]) -> None:
        """Record what machines do (`headroom.system`), at the highest step so far and its compute. Never raises."""
        try:
            if self._finished is not None or os.getpid() != self._pid:
                return
            if figures:
                self._append(max(0, self._next_step - 1), clean_metrics(figures, self._complain))
        except Exception as error:  # tracking never stops training
            log.debug("headroom: what the machine does could not be recorded: %r", error)

    def watch_system(self) -> None:
        """Look at this machine every 15 s from now on, where psutil or nvidia-ml-py is installed."""
        machine = system.Machine("client", folder=self.journal_path.parent)
        if machine.is_known and self._system is None:
            self._system = system.Watch(machine.measure, self.log_system)
            self._system.start()

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
            self._refuse(
                f"evaluation {error}", f"the evaluation of step {step!r} is not recorded: {error}", records=1
            )
            return
        extra = {f"eval/{name}": value for name, value in more.items()}
        step = max(0, self._next_step - 1) if step is None else step
        self.log(extra | metrics, step=step, compute=compute)

    def log_artifact(self, path: str | os.PathLike[str], name: str | None = None) -> None:
        """Keep a file, or every file of a folder, with the run, under `name` (by default its own). Never raises.

        It is copied beside the journal when this returns, and sent in the background. What cannot be read, or is
        refused (a limit of the server), is named in a warning.
        """
        try:
            if not self._is_late("late file", "log_artifact", "keeps"):
                self._uploads.add(Path(path), name)
        except Exception as error:  # tracking never stops training
            self._complain(f"file {path}", f"the file {path} is not kept: {error}")

    def log_samples(self, step: int, rows: Any, *, kind: str = "train") -> None:
        """Keep responses of a step, to be read on the run's page. Never raises.

        rows: mappings, a mapping of columns, or a table: `prompt` and `response` [text], and of what is known
        `prompt_id` (the same at every step, so that a prompt can be followed), `answer`, `reward`, `advantage`,
        `correct`, `why`, `truncated`, `tokens`; whatever else is there is kept, too. kind: "train", or "eval" for
        held-out prompts. Samples of the same step and kind are replaced. They are beside the journal when this
        returns, and sent in the background.
        """
        try:
            if self._is_late("late samples", "log_samples", "keeps"):
                return
            if kind not in KINDS:
                raise ValueError(f"kind must be one of {', '.join(KINDS)}")
            at = to_number(step)
            if at is None or at != int(at) or not 0 <= at <= MAX_STEP:
                raise ValueError("samples are of whole steps from 0 on")
            self._uploads.add_samples(rows_of(rows), kind=kind, step=int(at), attempt=self.attempt)
        except Exception as error:  # tracking never stops training
            self._complain(f"samples {error}", f"the samples of step {step!r} are not kept: {error}")

    def _log(
        self,
        metrics: Mapping[str, Any],
        step: int | None,
        compute: Mapping[str, Any] | None,
        time: datetime | None,
    ) -> None:
        if self._is_late("late", "log", "records"):
            return
        step = self._next_step if step is None else self._usable(step)
        cleaned = clean_metrics(metrics, self._complain, self._refuse)
        self._compute = clean_compute(compute, self._compute, self._refuse)
        self._next_step = max(self._next_step, min(step + 1, MAX_STEP))
        self._append(step, cleaned, time)

    def _append(
        self, step: int, metrics: Mapping[str, int | float | None], time: datetime | None = None
    ) -> None:
        """In as many records as it takes."""
        fields = {
            "step": step,
            "time": self._moment(time).isoformat(timespec="milliseconds"),
            "compute": NOTHING_USED if step == 0 and self._compute == UNKNOWN else self._compute,
        }
        for part in parts_of(metrics):
            self._journal.append(self.attempt, {**fields, "metrics": part})
        if self._sender is not None:
            self._sender.notify()

    def _is_late(self, kind: str, call: str, does: str) -> bool:
        """Whether this process has no run that goes on, which is named once of a kind."""
        is_late = self._finished is not None or os.getpid() != self._pid
        if is_late:
            self._complain(kind, f"{call}() after finish(), or in a forked process, {does} nothing")
        return is_late

    def _usable(self, given: Any) -> int:
        try:
            step = int(given)
        except (TypeError, ValueError, OverflowError):
            step = MAX_STEP + 1
        if MIN_STEP <= step <= MAX_STEP:
            return step
        self._complain(
            "step",
            f"a step is no whole number of 64 bits: its record is of step {self._next_step}, the next one",
        )
        return self._next_step

    def _moment(self, given: datetime | None) -> datetime:
        now = datetime.now(UTC)
        try:
            known = now if given is None else given if given.tzinfo else given.astimezone()
            known.astimezone(UTC)
        except (AttributeError, ValueError, OverflowError, OSError):
            self._complain(
                "time", f"{shown(given)} is no time that can be kept: its record has the present one"
            )
            return now
        return known

    def describe(
        self, *, name: str = "", tags: Iterable[str] = (), config: Mapping[str, Any] | None = None
    ) -> None:
        """Say more of the run than `init` did: another name, further tags, entries of its configuration. Kept beside
        the journal when this returns, at the server soon after. Never raises."""
        try:
            if self._is_late("late", "describe", "says"):
                return
            said, lost = plain({"name": name, "tags": list(tags), "config": config or {}}, "run")
            if lost:
                self._complain("described", f"not kept, since it is no value: {', '.join(lost)}")
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
    ) -> Finished:
        """Send what is left and say how the run ended: succeeded, failed or cancelled. Never raises. With
        `infrastructure` it failed because of the machines, not of what it was to do.

        True when the server has everything (or there is none). Not so when `timeout` seconds were not enough: the
        journal keeps the rest, and the next `init` with the same journal, or `headroom sync`, sends it; nor when
        something was refused for good: it says how much. Later calls change nothing, but wait once more.
        """
        with self._finish_mutex:
            if self._finished is None:
                self._finished = False
                ending.forget(self.finish)
                outcome: dict[str, Any] = {"state": state, "message": text(str(message))}
                self._finished = self._end(
                    outcome | ({"infrastructure": True} if infrastructure else {}), timeout
                )
            elif not self._finished:
                self._finished = self._wait_for_sender(timeout)
            refused = self._journal.refused.get(self.attempt, Refused())
            if refused and self._finished:
                self._complain("refused", f"{refused}; see {self._journal.rejected_path}")
            return Finished(self._finished, **asdict(refused))

    def _end(self, outcome: dict[str, Any], timeout: float) -> bool:
        if os.getpid() != self._pid:
            return False
        sent = True
        if self._system is not None:
            self._system.close()
        try:
            with suppress(OSError):  # the sender has what the disk refuses even now
                self._journal.flush()
            payload = {"attempt": self.attempt, **outcome}
            with suppress(OSError):
                about.save(self._about.ended(payload), self.journal_path)
            # Before the end: after it a job may send nothing.
            uploaded, timeout = self._uploads.close(timeout)
            if self._sender is not None:
                sent = self._sender.close(payload, timeout) and uploaded
                if not sent and timeout > 0:
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

    def _refuse(self, kind: str, message: str, records: int = 0) -> None:
        """Of what cannot be recorded: a whole record, or else a value."""
        self._complain(kind, message)
        self._journal.leave_out(self.attempt, reason=message, records=records, values=0 if records else 1)

    def __enter__(self) -> "Run":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish(*ending.outcome_of(error))
