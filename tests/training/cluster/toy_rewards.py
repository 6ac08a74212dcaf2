"""Verifiers and reward actors for tests of rewards on the cluster."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from training.cluster.rewards import RewardActor
from training.verifiers.base import Isolation, Verdict, Verifier
from training.verifiers.sandbox import SandboxError


@dataclass(frozen=True)
class ToyJudge:
    """Is right where the answer is given; the reason is its process. Waits for a file that a response names."""

    isolation: Isolation = "thread"
    timeout_seconds: float = 20.0

    def verify(self, answer: str, response: str) -> Verdict:
        if response == "raise":
            raise ValueError("no idea")
        while response.startswith("/") and not Path(response).exists():
            time.sleep(0.01)
        return Verdict(response == answer or response.startswith("/"), reason=str(os.getpid()))


@dataclass(frozen=True)
class Impatient(ToyJudge):
    isolation: Isolation = "process"
    timeout_seconds: float = 0.3


@dataclass(frozen=True)
class Demanding(ToyJudge):
    def check(self) -> None:
        raise SandboxError("this machine cannot confine untrusted code: it lacks landlock")


class MortalActor(RewardActor):
    """Dies of "die", and once, of which a file tells, of "die once FILE"."""

    async def judge(self, verifier: Verifier, answer: str, response: str) -> Verdict:
        word, _, file = response.partition(" once ")
        if word == "die" and not (file and Path(file).exists()):
            if file:
                Path(file).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().judge(verifier, answer, response)
