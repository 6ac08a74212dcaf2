"""One cell of the kill matrix: a real run, one thing broken in it, and the proofs afterwards."""

import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.chaos import proofs
from tests.chaos.disk import SmallDisk, small_disk, why_not
from tests.chaos.parts import PARTS, Part
from tests.chaos.short_run import MIDDLE, STEPS
from tests.chaos.site import Site
from tests.chaos.victims import kill
from tests.chaos.watching import ENDED, Watch

START_SECONDS = 180.0  # until a moment has come
BOUND_SECONDS = 240.0  # of a case after it
WELL_SECONDS = 60.0
CUT_SECONDS = {"launching": 12.0, "mid": 12.0, "finishing": 25.0}  # the last is longer than a run's end waits
FULL_SECONDS = 12.0
BACKLOG = 3  # records that wait when the sender is killed
ARRIVAL_SECONDS = 40.0  # a sender that has been refused waits up to 30 s
POLL_SECONDS = 0.02  # of what lies in files and processes
ASK_SECONDS = 0.5  # of what a server is asked
MOST_REASON = 160  # characters that are kept of its first line
GRACE_SECONDS = 45.0  # for a retry by the system itself, which waits until the job has left the cluster


class NotInTime(AssertionError):
    """A case has no end; the message says what it waited for."""


@dataclass
class Result:
    """A cell. Times in seconds since the break; None: nobody saw anything, and the run went on."""

    part: str
    moment: str
    problems: list[str] = field(default_factory=list)
    skipped: str = ""
    detected: float | None = None
    recovered: float | None = None
    attempts: int = 1
    by_hand: int = 0  # attempts that this program asked for
    reasons: list[str] = field(default_factory=list)  # why attempts ended, as the page said it
    records: int = 0
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"passed": self.passed}


def undisturbed(site: Site) -> proofs.Values:
    """What every case is compared with. Raises AssertionError where already this run is not whole."""
    run_id = site.launch()
    wait_for(
        lambda: site.asked(f"runs/{run_id}")["state"] in ENDED,
        BOUND_SECONDS,
        "the undisturbed run to end",
        ASK_SECONDS,
    )
    run, stored = site.asked(f"runs/{run_id}"), site.records(run_id)
    assert run["state"] == "succeeded", f"{run['state']}: {run['state_reason']}"
    wrong = proofs.stored_once(site.journal(run_id), stored) + proofs.whole(stored)
    assert not wrong, wrong
    values = proofs.timeless(stored)
    rates = {value for (_, name), value in values.items() if name == "eval eval/pass_rate"}
    assert len(rates) > 2, f"a curve that says nothing: {rates}"
    return values


def wait_for(condition: Callable[[], Any], seconds: float, what: str, poll: float = POLL_SECONDS) -> Any:
    """What the condition came to; it is asked every `poll` seconds. Raises NotInTime."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise NotInTime(f"waited {seconds:g} s for {what}")
        time.sleep(poll)
    return answer


class Case:
    """`run` does it."""

    def __init__(self, site: Site, part: str, moment: str, undisturbed: proofs.Values) -> None:
        self._site, self._undisturbed = site, undisturbed
        self._part: Part = PARTS[part]
        self._result = Result(part, moment)
        self._run_id = ""
        self._disk: SmallDisk | None = None
        self._last_step = 0  # that was in the journal when it was broken

    def run(self) -> Result:
        """The cell; what went wrong is in its `problems`."""
        result, began = self._result, time.monotonic()
        if result.part == "disk" and (reason := why_not()):
            result.skipped = reason
            return result
        with ExitStack() as held:
            if result.part == "disk":
                self._disk = held.enter_context(small_disk(self._site.home / "runs"))
            try:
                self._disturb_and_look()
            except (AssertionError, TimeoutError) as error:
                result.problems.append(f"{error}\n{self._site.last_words()}")
            finally:
                self._site.network.restore()
        result.seconds = round(time.monotonic() - began, 1)
        return result

    def _disturb_and_look(self) -> None:
        self._run_id = self._site.launch()
        with Watch(self._site, self._run_id) as watch:
            self._wait_for_the_moment()
            broken_at = time.time()
            self._break_it(watch, broken_at)
            self._settle()
            wait_for(self._site.is_well, WELL_SECONDS, "every part to answer again", ASK_SECONDS)
            wait_for(lambda: watch.states and watch.states[-1][1] == "succeeded", 10, "the page to say so")
        self._prove(watch, broken_at)

    # -- the break ---------------------------------------------------------------------------------------------

    def _wait_for_the_moment(self) -> None:
        part, moment = self._result.part, self._result.moment
        if part == "sender":
            self._wait_for_a_backlog()
        elif moment == "launching" and self._part.waits:
            wait_for(self._victims, START_SECONDS, f"the {self._part.words} to exist")
        elif moment != "launching":
            self._wait_for_step(MIDDLE if moment == "mid" else STEPS)

    def _wait_for_a_backlog(self) -> None:
        """Records that the sender cannot send: the network is cut a little earlier."""
        moment = self._result.moment
        if moment != "launching":
            self._wait_for_step(MIDDLE if moment == "mid" else STEPS - BACKLOG)
        self._site.network.cut()
        backlog = 1 if moment == "launching" else BACKLOG
        wait_for(
            lambda: self._site.unsent_records(self._run_id) >= backlog,
            START_SECONDS,
            f"{backlog} unsent records",
        )

    def _wait_for_step(self, step: int) -> None:
        wait_for(lambda: self._step() >= step, START_SECONDS, f"step {step}")

    def _step(self) -> int:
        return max((record["step"] for record in self._site.journal(self._run_id)), default=0)

    def _victims(self) -> Any:
        assert self._part.find is not None
        return self._part.find(self._site, self._run_id)

    def _break_it(self, watch: Watch, broken_at: float) -> None:
        if self._part.find is not None:
            victims = self._victims()
            kill(victims)
            assert victims, f"there was no {self._part.words} to kill"
        elif self._disk is not None:
            self._disk.fill()
            self._wait_at_most(FULL_SECONDS, lambda: watch.first_end(broken_at))
            self._disk.free()
        else:
            self._site.network.cut()
            self._wait_at_most(CUT_SECONDS[self._result.moment], lambda: False)
        self._last_step = self._step()
        self._site.network.restore()

    @staticmethod
    def _wait_at_most(seconds: float, condition: Callable[[], Any]) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not condition():
            time.sleep(POLL_SECONDS)

    # -- until the end -----------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Wait for the good end; where an attempt ends otherwise and nothing resumes it, do."""
        deadline = time.monotonic() + BOUND_SECONDS
        ended: dict[int, float] = {}  # attempt -> when that was seen
        asked = 0
        while (run := self._site.asked(f"runs/{self._run_id}"))["state"] != "succeeded":
            now, attempt = time.monotonic(), run["attempt"]
            if now > deadline:
                raise NotInTime(f"{run['state']} ({run['state_reason']}) {BOUND_SECONDS:g} s after the break")
            if run["state"] in ENDED and attempt > asked:
                waited = now - ended.setdefault(attempt, now)
                if waited >= GRACE_SECONDS and self._site.resume(self._run_id):
                    self._result.by_hand += 1
                    asked = attempt
            time.sleep(ASK_SECONDS)

    def _note_times(self, watch: Watch, broken_at: float, stored: list[proofs.Json]) -> None:
        """What was seen when."""
        result = self._result
        trouble = watch.first_trouble(self._part.health, broken_at) if self._part.health else None
        stop = watch.first_end(broken_at) or watch.first_words(broken_at)
        seen = [moment for moment in (trouble, stop) if moment]
        if seen:
            well = watch.well_again(self._part.health, trouble) if trouble else None
            again = (proofs.trains_again(stored) or watch.on_again(stop)) if stop else None
            result.detected = round(min(seen) - broken_at, 1)
            result.recovered = round(max(well or broken_at, again or broken_at) - broken_at, 1)

    # -- afterwards --------------------------------------------------------------------------------------------

    def _prove(self, watch: Watch, broken_at: float) -> None:
        result, run_id = self._result, self._run_id
        run = self._site.asked(f"runs/{run_id}")
        result.attempts = run["attempt"]
        journal = self._site.journal(run_id)
        wait = time.monotonic() + ARRIVAL_SECONDS
        while proofs.stored_once(journal, self._site.records(run_id)) and time.monotonic() < wait:
            time.sleep(0.5)  # those of an ended attempt come with the next one, if there is one
        stored = self._site.records(run_id)
        result.records = len(stored)
        self._note_times(watch, broken_at, stored)
        counted = proofs.effective(stored, run["attempts"])
        curve = self._site.asked(f"runs/{run_id}/curve", x="tokens")
        result.problems += proofs.stored_once(journal, stored)
        result.problems += proofs.whole(counted) + proofs.page_agrees(curve, counted)
        # A judgement whose process was killed counts as a failure of its sample: from there on it is another run.
        up_to = self._last_step - 1 if result.part == "reward" else STEPS
        result.problems += proofs.same_curve(self._undisturbed, counted, up_to)
        self._prove_reasons(run)

    def _prove_reasons(self, run: dict[str, Any]) -> None:
        """Attempts ended for the reason that is true, and not at all where nothing of the run was broken."""
        result = self._result
        earlier = [attempt for attempt in run["attempts"] if attempt["number"] < run["attempt"]]
        ended = sorted(earlier, key=lambda attempt: attempt["number"])
        result.reasons = [f"{attempt['state']}: {self._first_line(attempt['message'])}" for attempt in ended]
        for reason in result.reasons:
            if not self._part.reason:
                result.problems.append(f"an attempt has ended, and had no need to: {reason}")
            elif not re.search(self._part.reason, reason):
                result.problems.append(f"that is not why the attempt has ended: {reason}")

    def _first_line(self, message: str) -> str:
        """What is kept of a reason: without this machine's paths."""
        return message.replace(str(self._site.home), "HEADROOM_HOME").partition("\n")[0][:MOST_REASON]
