"""A process that judges, one request after the other; `service` starts it as `python -m training.verifiers.worker`.

A request on stdin is eight bytes with its length and a pickle of (verifier, answer, response); without a response it
is for warming up. The answer is a line of JSON. It ends with its parent or when stdin ends.
"""

import ctypes
import json
import os
import pickle  # nosec B403  # between a process and its own child
import resource
import signal
import sys
from typing import Any

LENGTH_BYTES = 8
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve until stdin ends."""
    parent, memory_mib = map(int, sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory_mib * 2**20, memory_mib * 2**20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a verifier prints is not an answer
    while header := sys.stdin.buffer.read(LENGTH_BYTES):
        answer = _answer(sys.stdin.buffer.read(int.from_bytes(header, "big")))
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _answer(request: bytes) -> dict[str, Any]:
    try:
        verifier, answer, response = pickle.loads(request)  # nosec B301  # from the parent process, by pipe
        if response is None:
            getattr(verifier, "warm", lambda: None)()
            return {}
        verdict = verifier.verify(answer, response)
        return {
            "correct": bool(verdict.correct),
            "failure": verdict.failure[:500],
            "reason": verdict.reason[:500],
        }
    except MemoryError:
        return {"correct": False, "failure": "out of memory"}
    except Exception as error:
        return {"correct": False, "failure": f"{type(error).__name__}: {error}"[:500]}


if __name__ == "__main__":
    main()
