"""What judging code costs, and how reward workers share it: DeepCoder-like programs and their tests, in the sandbox.

    .venv/bin/python -m benchmarks.bench_rewards [--judgements 24] [--tests 10] [--workers 1 2]

Every program reads a list from stdin and works for some milliseconds. Three kinds are judged apart, since the share of
each is the policy's: one that passes all tests, one that fails at the first, one that never ends (it costs the
processor seconds that `cpu_seconds` allows). The cost is CPU time of all processes of a judgement, which is what a core
has to give; the rates are those of workers as a run has them, on the cores of this machine.
"""

import argparse
import asyncio
import json
import logging
import os
import resource
import time
from collections.abc import Sequence

import ray

from training.cluster.placement import Patience
from training.cluster.rewards import RewardWorkers
from training.schema import Resources
from training.verifiers.code import CodeVerifier
from training.verifiers.service import Verification
from training.waiting import Switchboard

BATCH = 768  # completions a step, as the paper has them
READ = "import sys\nn, *xs = map(int, sys.stdin.read().split())\n"
PROGRAMS = {
    "passes": READ + "print(sum(sorted(xs)))",
    "fails": READ + "print(sum(sorted(xs)) + 1)",
    "never ends": READ + "while True: xs.sort()",
}


def answer_of(tests: int) -> str:
    """The tests of one problem, with inputs of some ten kilobytes."""
    lists = [list(range(number, number + 2000)) for number in range(tests)]
    inputs = [f"{len(xs)}\n{' '.join(map(str, xs))}\n" for xs in lists]
    return json.dumps({"kind": "stdin", "inputs": inputs, "outputs": [str(sum(xs)) for xs in lists]})


async def judge(service: Verification, kind: str, answer: str, count: int) -> None:
    """So many at once. RuntimeError where a verdict is not the right one."""
    response = f"<think></think>```python\n{PROGRAMS[kind]}\n```"
    verdicts = await asyncio.gather(*(service.verify(CodeVerifier(), answer, response) for _ in range(count)))
    if any(verdict.failure or verdict.correct != (kind == "passes") for verdict in verdicts):
        raise RuntimeError(f"{kind}: {verdicts[0]}")


def cpu_seconds() -> float:
    """Of this process and all of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


async def costs(answer: str, count: int) -> dict[str, float]:
    """CPU seconds of one judgement of each kind, on the driver's machine."""
    service, found = Verification(processes=1, threads=1), {}
    await judge(service, "passes", answer, 1)  # imports, and what the sandbox tries once
    for kind in PROGRAMS:
        some = count if kind != "never ends" else max(1, count // 8)
        began = cpu_seconds()
        await judge(service, kind, answer, some)
        found[kind] = (cpu_seconds() - began) / some
    await service.aclose()
    return found


async def rate(workers: int, answer: str, count: int) -> float:
    """Judgements a second of programs that pass, by reward workers."""
    service = RewardWorkers(Resources(reward_workers=workers), [CodeVerifier()])
    await service.start(Switchboard(), may_grow=False, patience=Patience())
    try:
        await judge(service, "passes", answer, 2 * workers)
        began = time.perf_counter()
        await judge(service, "passes", answer, count)
        return count / (time.perf_counter() - began)
    finally:
        await service.aclose()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--judgements", type=int, default=24)
    parser.add_argument("--tests", type=int, default=10, help="of each problem")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args(arguments)
    answer = answer_of(options.tests)
    for kind, seconds in asyncio.run(costs(answer, options.judgements)).items():
        print(
            f"{kind} ({options.tests} tests): {seconds:.3f} s of a core each, {1 / seconds:.1f} a second and core;"
            f" {BATCH} of them {BATCH * seconds:.0f} s of a core: {BATCH * seconds / 60:.1f} cores at a step a minute"
        )
    os.environ.pop("RAY_ADDRESS", None)
    ray.init(num_cpus=8 + max(options.workers), include_dashboard=False, logging_level=logging.ERROR)
    rates = [asyncio.run(rate(workers, answer, options.judgements)) for workers in options.workers]
    for workers, found in zip(options.workers, rates, strict=True):
        print(
            f"{workers} reward workers: {found:.1f} that pass a second ({found / rates[0]:.2f} times the first)"
        )
    ray.shutdown()


if __name__ == "__main__":
    main()
