"""One line of an error, for a log, a page or another error's message; and whether the same again may go through."""

import errno
import os
import re
from collections.abc import Iterator

EXIT_TEMPORARY = 75  # EX_TEMPFAIL of sysexits.h: what the run ran on failed, not its recipe
MOST_CAUSES = 20
# The end of a traceback, also behind the names of process and place that vLLM and Ray put before each line.
RAISED = re.compile(r"^(?:.*[)\]] )?((?:\w+\.)*\w*(?:Error|Exception): .+)$")
MOST_LOGGED = 1 << 18  # bytes of a log's end
DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE})


class Infrastructure(Exception):  # noqa: N818 - a mark beside the error's own class
    """What a run runs on has failed: a machine, a process of the run, the cluster, a disk. It may go on elsewhere."""


class EngineLost(Infrastructure):
    """A generator engine's processes are gone: another engine can take its place."""


def is_engine_lost(error: BaseException) -> bool:
    """Whether the error, or one that it comes of, says so."""
    return any(isinstance(cause, EngineLost) for cause in _causes(error))


def is_infrastructure(error: BaseException) -> bool:
    """Whether the error, or one that it comes of, is such a failure: a run may go on from its newest checkpoint."""
    from headroom import JournalBusy  # here: it brings httpx, and most who import this module need it not

    # A busy journal: the driver of the attempt before still works.
    return any(
        isinstance(cause, Infrastructure | JournalBusy)
        or (isinstance(cause, OSError) and cause.errno in DISK)
        for cause in _causes(error)
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what it comes of, and so on."""
    seen: BaseException | None = error
    for _ in range(MOST_CAUSES):
        if seen is None:
            return
        yield seen
        seen = seen.__cause__


def last_line(error: BaseException) -> str:
    """Of its message; an error from another process carries that one's traceback before it. Its type without any."""
    return _lines(error)[-1]


def first_line(error: BaseException) -> str:
    """Of its message; libraries put advice after it. Its type without any."""
    return _lines(error)[0]


def telling_line(error: BaseException) -> str:
    """The first of its message, or the last where the message carries a traceback."""
    traced = "Traceback (most recent call last)" in str(error)
    return last_line(error) if traced else first_line(error)


def size_of_own_log() -> int:
    """Bytes of the file that this process and its children write errors to, as Ray's actors do; 0 where it is none."""
    return os.fstat(2).st_size


def logged_error(since: int) -> str:
    """The newest error in that file after its byte `since`, for libraries whose own error says no more than "see the
    root cause above"; empty where there is none to be read."""
    try:
        with open("/proc/self/fd/2", "rb") as log:
            log.seek(max(since, os.fstat(2).st_size - MOST_LOGGED))
            lines = log.read().decode(errors="replace").splitlines()
    except OSError:  # a terminal, a pipe
        return ""
    raised = (found[1] for line in reversed(lines) if (found := RAISED.match(line.strip())))
    return next((words for words in raised if "root cause" not in words), "")


def _lines(error: BaseException) -> list[str]:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines or [type(error).__name__]
