"""Runs verifiers where they belong, without ever blocking the event loop.

Verifiers with isolation "process" share a few worker processes, started when first needed, each kept for the next
sample; a late or broken one is killed and replaced, and only its sample fails. Those with isolation "thread" wait for
children of their own in threads, of which so many run at a time. A thread cannot be killed: one that is late is left
behind, and `max_unanswered` of them that never end do end the run. The clock of a judgement starts when its process or
thread is free.

A verifier that cannot start, or that is late or dies many times without one answer in between, is no matter of single
samples: RewardError says so, and the run ends. So a broken service is noticed after `start_seconds`, or after
`max_unanswered` judgements, each of which has the verifier's own timeout.
"""

import asyncio
import json
import os
import pickle  # nosec B403  # between a process and its own child
import sys
from collections import defaultdict
from collections.abc import Coroutine, Iterable
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from typing import Any

from training.verifiers.base import Verdict, Verifier
from training.verifiers.worker import LENGTH_BYTES
from training.waiting import begin_in_thread

START_SECONDS = 120.0  # imports on a busy machine
GRACE_SECONDS = 5.0
MAX_UNANSWERED = (
    32  # late or dead in a row; a policy that writes only such responses is not worth its compute either
)
KILL_SECONDS = 5.0
MEMORY_MIB = 4096


class RewardError(RuntimeError):
    """The service itself is broken, not one judgement; the message names the verifier and what happened last."""


class Verification:
    """Judges of one run. Close it at the end; processes that were not closed end with this one."""

    def __init__(
        self,
        processes: int | None = None,
        threads: int | None = None,
        memory_mib: int = MEMORY_MIB,
        start_seconds: float = START_SECONDS,
        max_unanswered: int = MAX_UNANSWERED,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        """processes, threads: at most so many, by default one for each two processors (at most eight processes).

        memory_mib: address space of a worker process. start_seconds: until it has imported what a verifier needs.
        grace_seconds: for a thread, beyond its verifier's own timeout.
        """
        half = max(1, (os.cpu_count() or 1) // 2)
        processes, count = processes or min(8, half), threads or half
        self._max_unanswered, self._num_unanswered = max_unanswered, 0  # in a row
        self._grace_seconds = grace_seconds
        self._idle = [_Worker(memory_mib, start_seconds) for _ in range(processes)]
        self._free_process = asyncio.Semaphore(processes)
        self._free_thread = asyncio.Semaphore(count)
        self._in_threads: set[Future[Verdict]] = set()
        self._left_behind: set[Future[Verdict]] = set()  # of these, the late ones
        self._longest_seconds = 0.0  # of a judgement in a thread
        self._workers = list(self._idle)

    async def verify(self, verifier: Verifier, answer: str, response: str) -> Verdict:
        """The judgement; whatever goes wrong with it is its `failure`. Raises RewardError and on cancellation alone."""
        try:
            if verifier.isolation == "inline":
                return verifier.verify(answer, response)
            verdict = await self.judge(verifier, answer, response)
        except Unanswered as unanswered:
            self._num_unanswered += 1
            if self._num_unanswered >= self._max_unanswered:
                raise RewardError(
                    f"the rewards' {verifier.isolation} of {type(verifier).__name__} did not answer "
                    f"{self._num_unanswered} times in a row; last: {unanswered}"
                ) from None
            return Verdict(False, failure=str(unanswered))
        except RewardError:
            raise
        except Exception as error:
            verdict = Verdict(False, failure=f"{type(error).__name__}: {error}"[:500])
        self._num_unanswered = 0
        return verdict

    async def judge(self, verifier: Verifier, answer: str, response: str) -> Verdict:
        """The judgement, in a process or a thread. Raises Unanswered, RewardError, or what the verifier raises."""
        if verifier.isolation == "process":
            async with self._free_process:
                worker = self._idle.pop()
                try:
                    return await worker.judge(verifier, answer, response)
                finally:
                    self._idle.append(worker)
        return await self._in_thread(verifier, answer, response)

    async def aclose(self) -> None:
        """End the worker processes, and wait for the threads that are not late as long as their verifiers may take."""
        if in_time := self._in_threads - self._left_behind:
            await asyncio.to_thread(wait, in_time, self._longest_seconds + self._grace_seconds)
        await asyncio.gather(*(worker.kill() for worker in self._workers))

    async def _in_thread(self, verifier: Verifier, answer: str, response: str) -> Verdict:
        async with self._free_thread:
            self._longest_seconds = max(self._longest_seconds, verifier.timeout_seconds)
            work = begin_in_thread(partial(verifier.verify, answer, response), "verifier")
            self._in_threads.add(work)
            work.add_done_callback(self._forget)
            try:
                async with asyncio.timeout(verifier.timeout_seconds + self._grace_seconds):
                    return await asyncio.wrap_future(work)
            except TimeoutError:
                self._left_behind.add(work)
                if work.done():  # just now
                    self._forget(work)
                if (count := len(self._left_behind)) >= self._max_unanswered:
                    raise RewardError(
                        f"{count} threads of {type(verifier).__name__} hang; last: {_late(verifier)}"
                    ) from None
                raise Unanswered(_late(verifier)) from None

    def _forget(self, work: Future[Verdict]) -> None:
        self._in_threads.discard(work)
        self._left_behind.discard(work)


class Unanswered(Exception):
    """A judgement that was late, or whose process died; the message says which."""


class _Worker:
    """One worker process, started when it is needed and again after it was killed."""

    def __init__(self, memory_mib: int, start_seconds: float) -> None:
        self._memory_mib, self._start_seconds = memory_mib, start_seconds
        self._process: asyncio.subprocess.Process | None = None
        self._warm: set[Verifier] = set()

    async def judge(self, verifier: Verifier, answer: str, response: str) -> Verdict:
        """One judgement. If it is late, broken off or cancelled, the process goes."""
        is_over = False
        try:
            await self._prepare(verifier)
            reply = await _within(verifier.timeout_seconds, self._ask(verifier, answer, response))
            if reply is None:
                raise Unanswered(_late(verifier))
            is_over = True
            return Verdict(**reply)
        except (EOFError, OSError):
            raise Unanswered(f"crashed: {await self._epitaph()}") from None
        finally:
            if not is_over:
                await self.kill()

    async def kill(self) -> None:
        """End the process and wait for that."""
        process, self._process = self._process, None
        self._warm.clear()
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        ended = asyncio.ensure_future(process.wait())
        await asyncio.wait({ended}, timeout=KILL_SECONDS)  # one that hangs in the kernel does not even die

    async def _prepare(self, verifier: Verifier) -> None:
        """A process that has imported what this verifier needs."""
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "training.verifiers.worker", str(os.getpid()), str(self._memory_mib)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=_environment(),
            )
        if verifier not in self._warm:
            await self._warm_up(verifier)
            self._warm.add(verifier)

    async def _warm_up(self, verifier: Verifier) -> None:
        """Have the process import what the verifier needs: no response can be at fault where this goes wrong."""
        try:
            reply = await _within(self._start_seconds, self._ask(verifier, "", None))
            silence = f"no sign of life for {self._start_seconds:g} s"
            why = "" if reply == {} else reply["failure"] if reply else silence
        except (EOFError, OSError):
            why = f"crashed: {await self._epitaph()}"
        if why:
            raise RewardError(f"the rewards' process of {type(verifier).__name__} cannot start: {why}")

    async def _ask(self, verifier: Verifier, answer: str, response: str | None) -> dict[str, Any]:
        assert self._process and self._process.stdin and self._process.stdout
        request = pickle.dumps((verifier, answer, response))
        self._process.stdin.write(len(request).to_bytes(LENGTH_BYTES, "big") + request)
        await self._process.stdin.drain()
        line = await self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        return json.loads(line)

    async def _epitaph(self) -> str:
        """How the process ended."""
        if self._process is None:
            return "it could not be started"
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                code = await self._process.wait()
            return f"killed by signal {-code}" if code < 0 else f"exit status {code}"
        return "it stopped answering"


def failure_lines(failures: Iterable[str]) -> list[str]:
    """One line for each kind of failure among these ("" is none): how many, and the first one in full."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for failure in filter(None, failures):
        kinds[failure.partition(":")[0]].append(failure)
    return [f"{len(same)} x the verifier could not judge: {same[0]}" for same in kinds.values()]


async def _within(seconds: float, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any] | None:
    """The result, or None if it is late. A result that came while the event loop was busy elsewhere is in time."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        await asyncio.wait({task}, timeout=0.05)
        return task.result() if task.done() else None
    finally:
        task.cancel()


def _environment() -> dict[str, str]:
    """Of a worker: what Python needs, and none of this process's secrets."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "TZ")
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return {name: os.environ[name] for name in kept if name in os.environ} | {
        "PYTHONPATH": path,
        "PYTHONSAFEPATH": "1",
        "OMP_NUM_THREADS": "1",
    }


def _late(verifier: Verifier) -> str:
    return f"timed out after {verifier.timeout_seconds:g} s"
