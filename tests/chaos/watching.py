"""What a person who looks at the page sees, and when: the health of the parts, and the state of the run."""

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.site import Site

EVERY_SECONDS = 0.5  # each look takes the web server 10 to 20 ms
ENDED = ("succeeded", "failed", "cancelled", "lost")


@dataclass
class Watch:
    """Looks at /healthz and at the run, each in a thread of its own, inside its block. Times are `time.time()`."""

    site: Site
    run_id: str
    health: list[tuple[float, dict[str, Any] | None]] = field(default_factory=list)  # changes only
    states: list[tuple[float, str, int, str]] = field(
        default_factory=list
    )  # state, attempt, reason; changes only
    _over: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> "Watch":
        for look in (self._look_at_health, self._look_at_run):
            thread = threading.Thread(target=self._loop, args=(look,), daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _loop(self, look: Any) -> None:
        while not self._over.wait(EVERY_SECONDS):
            look()

    def _look_at_health(self) -> None:
        answer = self.site.health()
        if not self.health or self.health[-1][1] != answer:
            self.health.append((time.time(), answer))

    def _look_at_run(self) -> None:
        run = self.site.ask(f"runs/{self.run_id}")
        if run is None:
            return
        seen = (run["state"], run["attempt"], run["state_reason"])
        if not self.states or self.states[-1][1:] != seen:
            self.states.append((time.time(), *seen))

    # -- what it came to ---------------------------------------------------------------------------------------

    def first_trouble(self, part: str, since: float) -> float | None:
        """When it was first said that `part` (a word of /healthz, or "web") does not answer."""
        for moment, answer in self.health:
            is_silent = answer is None if part == "web" else bool(answer) and answer.get(part) != "ok"
            if moment >= since and is_silent:
                return moment
        return None

    def well_again(self, part: str, trouble: float) -> float | None:
        """When it answered again after that."""
        for moment, answer in self.health:
            if moment > trouble and answer is not None and (part == "web" or answer.get(part) == "ok"):
                return moment
        return None

    def first_end(self, since: float) -> float | None:
        """When the run was first said to have ended otherwise than well, or to be on its next attempt."""
        for moment, state, attempt, _ in self.states:
            if moment >= since and (state in ENDED[1:] or attempt > self.attempt_at(since)):
                return moment
        return None

    def first_words(self, since: float) -> float | None:
        """When the page first gave a reason for what a run waits for."""
        return next(
            (
                moment
                for moment, state, _, reason in self.states
                if moment >= since and reason and state not in ENDED
            ),
            None,
        )

    def on_again(self, since: float) -> float | None:
        """When it first trained, or had ended well, after that time."""
        for moment, state, _, _ in self.states:
            if moment > since and state in ("running", "succeeded"):
                return moment
        return None

    def attempt_at(self, moment: float) -> int:
        """The current attempt at that time, as far as was seen."""
        return max([attempt for seen, _, attempt, _ in self.states if seen <= moment], default=1)
