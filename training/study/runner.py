"""The runs of a study file, one after the other, going on where the last start ended.

All that it knows is on disk (`folder`) or in the corpus, so that it may be killed at any moment. A run that fails is
repeated once from scratch, and then listed as lost.

One training as a process: in a session of its own, and nothing of it left when it has ended.

`command` names a keeper (`stack/keeper.py`) that ends all that belongs to the training when its standard input closes:
that is how it is stopped, and what happens when this process is killed.
"""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil

from training import models
from training.digests import weights_digest
from training.errors import EXIT_TEMPORARY
from training.study import folder, plan
from training.study.book import Book
from training.study.file import Written
from training.study.folder import OUTPUT, RunFolder
from training.study.plan import PlannedRun

POLL_SECONDS = 0.2
SAMPLE_SECONDS = 5.0  # between looks at who has the cores
OF_A_SERVER = ("HEADROOM_URL", "HEADROOM_RUN", "HEADROOM_ATTEMPT", "HEADROOM_TOKEN", "HEADROOM_TOKEN_FILE")
PRETRAIN_SECONDS = 3 * 3600.0
MOST_RESUMES = 5  # of a run, in one start, after what it ran on has failed: that is no failure of the run
MOST_LOST_IN_A_ROW = 3  # then it is the machine, and all the others would be lost as well
Say = Callable[[str], None]


@dataclass(frozen=True)
class Ended:
    """How a process ended. `cut`: it was ended from outside: "stop", "time", or empty."""

    status: int
    cut: str
    wall_seconds: float
    cpu_free_share: float | None


def run_process(
    command: Sequence[str],
    *,
    output: Path,
    environment: Mapping[str, str],
    seconds: float,
    stop: Callable[[], bool],
    lock: int | None = None,
) -> Ended:
    """Run it to its end, at the latest `seconds` from now, or until `stop()`; `lock` is held while any of it lives."""
    began, cut = time.monotonic(), ""
    kept = {name: value for name, value in os.environ.items() if name not in OF_A_SERVER}
    with output.open("ab") as log:
        process = subprocess.Popen(
            list(command),
            env=kept | dict(environment),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C in the terminal is for whoever waits here
            pass_fds=() if lock is None else (lock,),
        )
    meter = _CoresMeter(process.pid)
    while process.poll() is None:
        if not cut and (stop() or time.monotonic() - began > seconds):
            cut = "stop" if stop() else "time"
            assert process.stdin is not None
            process.stdin.close()
        meter.look()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(POLL_SECONDS)
    if process.stdin is not None and not process.stdin.closed:
        process.stdin.close()
    return Ended(process.returncode, cut, time.monotonic() - began, meter.free_share())


class _CoresMeter:
    """The share of this machine's cores that was idle or a process's and its descendants' own."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._own: dict[int, float] = {}  # CPU seconds of each process of its, at the last look
        self._at_first = _busy_seconds()
        self._looked = (time.monotonic(), *self._at_first)

    def look(self) -> None:
        """Note what its processes have used, now and then."""
        if time.monotonic() - self._looked[0] < SAMPLE_SECONDS:
            return
        self._looked = (time.monotonic(), *_busy_seconds())
        with contextlib.suppress(psutil.Error):
            root = psutil.Process(self._pid)
            for process in [root, *root.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):  # it has just ended
                    times = process.cpu_times()
                    self._own[process.pid] = times.user + times.system

    def free_share(self) -> float | None:
        """From 0 to 1; None where it ended before the first look."""
        _, busy, total = self._looked
        passed = total - self._at_first[1]
        if passed <= 0 or not self._own:
            return None
        of_others = busy - self._at_first[0] - sum(self._own.values())
        return min(1.0, max(0.0, 1.0 - of_others / passed))


def _busy_seconds() -> tuple[float, float]:
    """(busy, all) CPU seconds of this machine since its start."""
    times = psutil.cpu_times()
    total = sum(times[:8])  # without what guests count twice
    return total - times.idle - getattr(times, "iowait", 0.0), total


class StudyError(RuntimeError):
    """What keeps a study from going on, in a sentence."""


@dataclass(frozen=True)
class Means:
    """What trains: `trainer` are the words before `run RECIPE --run-dir DIR [--resume]` and `pretrain NAME`.

    home: HEADROOM_HOME of the trainings. lock: a descriptor that they hold while they live.
    """

    trainer: Sequence[str]
    home: Path
    lock: int | None = None

    def environment(self) -> dict[str, str]:
        """Of each training."""
        return {"HEADROOM_HOME": str(self.home)}


@dataclass
class Runner:
    """Once `stop()` says so, the run under way writes its checkpoint and nothing more begins."""

    written: Written
    runs: Sequence[PlannedRun]
    path: Path  # of this study file's runs
    book: Book
    means: Means
    say: Say
    stop: Callable[[], bool] = lambda: False
    max_seconds: float | None = None
    _began: float = field(default_factory=time.monotonic)

    def make_models(self) -> None:
        """Raises StudyError."""
        for name in plan.models_to_make(self.open_runs(), self.means.home):
            self.say(f"model {name}")
            log = self.path / f"pretrain-{name}.log"
            log.parent.mkdir(parents=True, exist_ok=True)
            done = self._process(["pretrain", name], log, PRETRAIN_SECONDS)
            if done.cut == "stop":
                return
            if done.status:
                raise StudyError(f"the model {name} could not be made (exit status {done.status}): see {log}")

    def run(self) -> None:
        """All that is to do and fits into the time. Raises StudyError where one run after the other is lost."""
        todo = self.settle()
        self._refuse_other_weights(todo)
        lost: list[PlannedRun] = []
        self.say(f"{len(self.runs) - len(todo)} of {len(self.runs)} runs have ended; {len(todo)} to go")
        for run in list(todo):
            if self.stop():
                break
            if self._is_too_long(run):
                self.say(f"{run} would likely not end in time")
                continue
            self._run(run, len(todo))
            todo.remove(run)
            lost = [*lost, run] if self._folder(run).is_lost else []
            if len(lost) >= MOST_LOST_IN_A_ROW:
                reason = self._folder(run).reason
                raise StudyError(f"{len(lost)} runs in a row were lost, the last one by: {reason}")
        self.say(self.closing_words())

    def _refuse_other_weights(self, todo: Sequence[PlannedRun]) -> None:
        """Runs are compared that began alike. A model that is taught anew on another processor is another one; one of
        the hub that is not here yet is the same everywhere."""
        for name in dict.fromkeys(run.recipe.model for run in todo):
            known = self.book.weights(name)
            if known and (here := self._weights(name)) and known != {here}:
                raise StudyError(
                    f"the model {name} has the weights {here} here, and runs of the corpus began from "
                    f"{', '.join(sorted(known))}: bring the folder models/{name} from where they were trained, or "
                    "train them anew"
                )

    def _weights(self, name: str) -> str:
        """Digest of a model's, empty where it is not here yet."""
        try:
            return weights_digest(models.find_model(name, self.means.home))
        except (models.ModelError, OSError):
            return ""

    def open_runs(self) -> list[PlannedRun]:
        """Those that have neither succeeded nor been lost."""
        return [
            run for run in self.runs if not self.book.has_succeeded(run) and not self._folder(run).is_lost
        ]

    def forget_lost(self) -> None:
        """Have lost runs tried again."""
        for run in self.runs:
            if self._folder(run).is_lost:
                self._folder(run).forget_failures()

    def settle(self) -> list[PlannedRun]:
        """Bring corpus and folders in line with each other; what is still to train, in its order."""
        for run in self.runs:
            files = self._folder(run)
            files.settle()
            if not self.book.has_succeeded(run) and (files.has_succeeded or files.is_lost):
                self.book.note(files)
        self.book.write(self.written)
        return self.open_runs()

    def closing_words(self) -> str:
        """What has come of it, with each lost run and its reason."""
        done = sum(self.book.has_succeeded(run) for run in self.runs)
        lost = [(run, self._folder(run)) for run in self.runs if self._folder(run).is_lost]
        words = [f"{done} of {len(self.runs)} runs succeeded, {len(lost)} lost"]
        return "\n".join([*words, *(f"lost: {run}: {files.reason}" for run, files in lost)])

    def _folder(self, run: PlannedRun) -> RunFolder:
        return RunFolder(self.path, run)

    def _run(self, run: PlannedRun, left: int) -> None:
        """Until it has succeeded, is lost, or everything is to stop."""
        files, resumes = self._folder(run), 0
        while not (files.is_lost or files.has_succeeded or self.stop()):
            ended = self._try(run, files, left)
            if ended.status == EXIT_TEMPORARY and not ended.cut and resumes < MOST_RESUMES:
                resumes += 1
                self.say(f"  broken off at {_now()}, and gone on with: {files.why_failed(ended.status)}")
                continue
            if ended.cut == "stop" and not files.has_succeeded:
                self.say(f"  stopped at {_now()}; the next start goes on with it")
                return
            if not files.has_succeeded:
                files.fail(self._why(run, files, ended))
                self.say(f"  failed at {_now()}: {files.reason}")
        if files.is_lost or files.has_succeeded:
            self.book.note(files)
            self.book.write(self.written)
        if files.has_succeeded:
            self.say(f"  ended at {_now()}: {self.book.words(run)}")

    def _try(self, run: PlannedRun, files: RunFolder, left: int) -> Ended:
        resumes = files.has_begun
        files.write_recipe()
        files.note(began=folder.now(), weights=self._weights(run.recipe.model))
        number = len(self.runs) - left + 1
        self.say(
            f"[{number}/{len(self.runs)}] {_now()} {'resume' if resumes else 'train'} {run}; {self._eta()}"
        )
        words = ["run", str(files.recipe), "--run-dir", str(files.path), *(["--resume"] if resumes else [])]
        ended = self._process(words, files.path / OUTPUT, run.minutes * 60)
        files.note(
            ended=folder.now(), wall_seconds=round(ended.wall_seconds, 3), cpu_free_share=ended.cpu_free_share
        )
        return ended

    def _process(self, words: list[str], log: Path, seconds: float) -> Ended:
        return run_process(
            [*self.means.trainer, *words],
            output=log,
            environment=self.means.environment(),
            seconds=seconds,
            stop=self.stop,
            lock=self.means.lock,
        )

    def _why(self, run: PlannedRun, files: RunFolder, ended: Ended) -> str:
        if ended.cut == "time":
            return f"not at its end after {run.minutes:g} minutes"
        if not ended.status:
            return f"it ended as {files.state or 'no summary says'}, before its budget"
        return files.why_failed(ended.status)

    # --- time ---------------------------------------------------------------------------------------------------

    def expected_seconds(self, run: PlannedRun) -> float | None:
        """As long as runs of its arm took, or of its model, or any, a step; None before the first has ended."""
        for paces in self.book.paces(run):
            if paces:
                return median(paces) * run.steps
        return None

    def hours_left(self) -> float | None:
        """Of all that is to train, by what has been trained."""
        known = [self.expected_seconds(run) for run in self.open_runs()]
        if any(seconds is None for seconds in known):
            return None
        return sum(seconds or 0.0 for seconds in known) / 3600

    def _is_too_long(self, run: PlannedRun) -> bool:
        if self.max_seconds is None:
            return False
        left = self.max_seconds - (time.monotonic() - self._began)
        return left <= 0 or (self.expected_seconds(run) or 0.0) > left

    def _eta(self) -> str:
        if (hours := self.hours_left()) is None:
            return "no run has ended yet, so the end is not known"
        return (
            f"all in {hours:.1f} h, {time.strftime('%a %H:%M', time.localtime(time.time() + hours * 3600))}"
        )


def _now() -> str:
    return time.strftime("%H:%M:%S")


def set_nice(amount: int) -> None:
    """This process and all that it starts give way by this much."""
    os.nice(amount)
