import asyncio
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from tests.training.verifiers.judges import Asleep, Judge, Unready
from training.verifiers.base import Isolation, Verdict
from training.verifiers.code import CodeVerifier
from training.verifiers.math import MathVerifier
from training.verifiers.service import RewardError, Verification, failure_lines

Work = Callable[[Verification], Awaitable[Any]]
IMPATIENT, PATIENT = Judge(timeout_seconds=0.3), Judge()


def run(work: Work, **options: Any) -> Any:
    """The result of `work`; afterwards no process of the service is left."""

    async def main() -> Any:
        service = Verification(**{"processes": 1, **options})
        try:
            return await asyncio.wait_for(work(service), 60)
        finally:
            await service.aclose()
            assert [worker._process for worker in service._workers if worker._process] == []

    return asyncio.run(main())


def judge_of(text: str) -> Judge:
    return IMPATIENT if text == "hang" else PATIENT


def responses(*texts: str, judge: Any = None, **options: Any) -> list[Verdict]:
    async def work(service: Verification) -> list[Verdict]:
        return [await service.verify(judge or judge_of(text), "right", text) for text in texts]

    return run(work, **options)


def ended(pid: int) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 10)[0])
    finally:
        os.close(handle)


def test_process_is_reused_and_ends_with_the_service() -> None:
    first, second, wrong = responses("right", "right", "wrong", judge=PATIENT)

    assert (first.correct, second.correct, wrong.correct) == (True, True, False)
    assert first.reason == second.reason != str(os.getpid())
    assert ended(int(first.reason))


@pytest.mark.parametrize(
    ("bad", "failure"),
    [
        ("hang", "timed out after 0.3 s"),
        ("exit", "crashed: exit status 3"),
        ("segfault", "crashed: killed by signal 11"),
        ("memory", "out of memory"),
        ("raise", "ValueError: no idea"),
    ],
)
def test_only_the_bad_sample_fails(bad: str, failure: str) -> None:
    before, failed, after = responses("right", bad, "right")

    assert before.correct and after.correct
    assert failed == Verdict(False, failure)
    assert ended(int(before.reason))


def test_what_a_verifier_prints_is_not_its_verdict() -> None:
    assert [v.failure for v in responses("print", "right")] == ["", ""]


def test_bad_and_good_ones_at_once() -> None:
    async def work(service: Verification) -> list[Verdict]:
        texts = ["right", "hang", "right", "exit", "wrong"] * 2
        return await asyncio.gather(*(service.verify(judge_of(text), "right", text) for text in texts))

    verdicts = run(work, processes=2)

    assert [v.correct for v in verdicts] == [True, False, True, False, False] * 2
    assert [bool(v.failure) for v in verdicts] == [False, True, False, True, False] * 2


def test_the_clock_starts_with_the_work_and_not_in_the_queue() -> None:
    async def work(service: Verification) -> list[Verdict]:
        hung = [service.verify(IMPATIENT, "right", "hang") for _ in range(3)]
        return await asyncio.gather(*hung, service.verify(Judge(timeout_seconds=0.8), "right", "right"))

    assert [v.correct for v in run(work)] == [False, False, False, True]


def test_event_loop_is_free_meanwhile() -> None:
    async def work(service: Verification) -> bool:
        hanging = asyncio.create_task(service.verify(IMPATIENT, "right", "hang"))
        for _ in range(100):
            assert (await service.verify(Judge("inline"), "right", "right")).correct
        return hanging.done()

    assert run(work) is False


def test_cancelled_verification_leaves_no_stale_answer() -> None:
    async def work(service: Verification) -> Verdict:
        assert (await service.verify(Judge(), "right", "right")).correct
        hanging = asyncio.create_task(service.verify(Judge(), "right", "hang"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        return await service.verify(Judge(), "right", "right")

    assert run(work).correct


def test_worker_ignores_interrupts() -> None:
    async def work(service: Verification) -> list[str]:
        pids = []
        for _ in range(2):
            pids.append((await service.verify(Judge(), "right", "right")).reason)
            os.kill(int(pids[-1]), signal.SIGINT)
        return pids

    first, second = run(work)
    assert first == second


def test_worker_dies_with_its_parent() -> None:
    code = (
        "import asyncio, os\n"
        "from tests.training.verifiers.judges import Judge\n"
        "from training.verifiers.service import Verification\n"
        "async def main():\n"
        "    print((await Verification().verify(Judge(), 'x', 'x')).reason, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=60)

    assert done.returncode == -9
    assert ended(int(done.stdout))


def test_worker_knows_none_of_our_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_TOKEN", "hunter2")

    async def work(service: Verification) -> bytes:
        pid = (await service.verify(Judge(), "right", "right")).reason
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()

    assert b"hunter2" not in run(work)


def test_verifier_that_cannot_start_is_named() -> None:
    with pytest.raises(
        RewardError, match="the rewards' process of Unready cannot start: ImportError: no module named sympy"
    ):
        responses("right", judge=Unready())


def test_verifier_that_never_comes_up_is_named_in_time() -> None:
    with pytest.raises(RewardError, match="of Asleep cannot start: no sign of life for 0.3 s"):
        responses("right", judge=Asleep(), start_seconds=0.3)


@pytest.mark.parametrize(
    ("bad", "last"), [("hang", "timed out after 0.3 s"), ("exit", "crashed: exit status 3")]
)
def test_process_that_never_answers_is_named(bad: str, last: str) -> None:
    with pytest.raises(RewardError, match=f"process of Judge did not answer 3 times in a row; last: {last}"):
        responses(bad, bad, bad, max_unanswered=3)


def test_one_answer_shows_that_the_process_works() -> None:
    verdicts = responses("exit", "exit", "right", "exit", "raise", "exit", max_unanswered=3)

    assert [bool(verdict.failure) for verdict in verdicts] == [True, True, False, True, True, True]


def test_verifier_that_cannot_be_sent_is_a_failure() -> None:
    @dataclass(frozen=True)
    class Local(Judge):
        pass

    (verdict,) = responses("right", judge=Local())

    assert "Can't pickle local object" in verdict.failure


@pytest.mark.parametrize("isolation", ["inline", "thread"])
def test_errors_never_escape(isolation: Isolation) -> None:
    (verdict,) = responses("raise", judge=Judge(isolation))

    assert verdict == Verdict(False, "ValueError: no idea")


def test_nothing_is_started_for_inline_verifiers() -> None:
    async def work(service: Verification) -> bool:
        await service.verify(Judge("inline"), "right", "right")
        return not service._in_threads and all(worker._process is None for worker in service._workers)

    assert run(work)


@dataclass(frozen=True)
class Paired:
    """Waits until two of it run at once, and says how many do."""

    isolation: Isolation = "thread"
    timeout_seconds: float = 10.0
    barrier: ClassVar = threading.Barrier(2, timeout=10)
    inside: ClassVar[set[int]] = set()

    def verify(self, answer: str, response: str) -> Verdict:
        self.inside.add(threading.get_ident())
        self.barrier.wait()
        count = len(self.inside)
        self.barrier.wait()
        self.inside.discard(threading.get_ident())
        return Verdict(True, reason=str(count))


def test_threads_are_bounded() -> None:
    async def work(service: Verification) -> list[Verdict]:
        return await asyncio.gather(*(service.verify(Paired(), "", "") for _ in range(20)))

    verdicts = run(work, threads=2)

    assert [v.reason for v in verdicts] == ["2"] * 20


@dataclass(frozen=True)
class Stuck:
    """Never ends, where it is told so."""

    isolation: Isolation = "thread"
    timeout_seconds: float = 0.1

    def verify(self, answer: str, response: str) -> Verdict:
        if response == "hang":
            threading.Event().wait()
        return Verdict(True)


def test_thread_that_never_ends_holds_up_neither_the_next_judgement_nor_the_end() -> None:
    async def work(service: Verification) -> list[Verdict]:
        return [await service.verify(Stuck(), "", response) for response in ("hang", "fine")]

    stuck, fine = run(work, threads=1, grace_seconds=0.1)

    assert fine == Verdict(True)
    assert stuck.failure == "timed out after 0.1 s"
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "verifier")


def test_threads_that_hang_end_the_run_although_others_answer() -> None:
    async def work(service: Verification) -> None:
        for response in ("hang", "fine") * 3:
            await service.verify(Stuck(), "", response)

    with pytest.raises(RewardError, match="3 threads of Stuck hang; last: timed out"):
        run(work, threads=1, grace_seconds=0.1, max_unanswered=3)


BLOW_UPS = [
    r"\boxed{10^{10^{10}}}",
    r"\boxed{100000000!}",
    r"\boxed{(x+y+z)^{5000}-(x+y)^{4999}}",
    r"\boxed{" + "(" * 3000 + "7" + ")" * 3000 + "}",
]


def test_mathematical_blow_ups_are_contained() -> None:
    async def work(service: Verification) -> list[Verdict]:
        hasty, patient = MathVerifier(timeout_seconds=0.4), MathVerifier()
        asked = [service.verify(hasty, "7", text) for text in BLOW_UPS]
        return await asyncio.gather(*asked, service.verify(patient, "7", r"\boxed{7}"))

    *blown_up, normal = run(work, processes=2, memory_mib=1024)

    assert normal == Verdict(True)
    assert [v.correct for v in blown_up] == [False] * len(BLOW_UPS)
    assert blown_up[0].failure in ("timed out after 0.4 s", "out of memory")


def test_code_and_mathematics_side_by_side() -> None:
    tests = '{"kind": "stdin", "inputs": ["2"], "outputs": ["4"]}'

    async def work(service: Verification) -> list[Verdict]:
        codes = [service.verify(CodeVerifier(), tests, "print(int(input()) ** 2)") for _ in range(8)]
        maths = [service.verify(MathVerifier(timeout_seconds=30), "4", r"\boxed{2^2}") for _ in range(8)]
        return await asyncio.gather(*codes, *maths)

    assert run(work, threads=4) == [Verdict(True)] * 16


def test_failures_are_summed_up_by_kind() -> None:
    failures = ["", "crashed: exit status 3", "timed out after 5 s", "crashed: killed by signal 11", ""]

    assert failure_lines(failures) == [
        "2 x the verifier could not judge: crashed: exit status 3",
        "1 x the verifier could not judge: timed out after 5 s",
    ]
