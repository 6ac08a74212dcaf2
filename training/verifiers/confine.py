"""The inside of the sandbox: started by `sandbox`, alone, as `python -I -S -B confine.py IN OUT PARENT`.

Stays free of the rest of the package: it runs without it. The launcher, which is trusted, reads one JSON line with the
configuration and then one line a run; for each it forks a child, which takes on the layers (they cannot be taken off)
and runs the program to its end. On OUT it answers {"pid"} and then {"missing", "status"}. When IN ends, it kills and
reaps the child and goes.
"""

import ctypes
import json
import os
import resource
import select
import signal
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = (
    1,
    22,
    24,
    38,
    47,
)
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446  # the same on every machine
_READ_FILE, _READ_DIR, _WRITE_FILE, _REMOVE_FILE, _MAKE_REG, _TRUNCATE = (
    1 << 2,
    1 << 3,
    1 << 1,
    1 << 5,
    1 << 8,
    1 << 14,
)
_O_PATH = 0o10000000
_NOT_RUN = 120


def main() -> tuple[str, dict[str, Any]] | None:
    """Serve runs. Returns in a child only: the program and where to run it."""
    requests, answers, parent = map(int, sys.argv[1:])
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return None
    # Where memory runs out, the kernel takes this process, not the trainer.
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken)
    lines = os.fdopen(requests, "rb", buffering=0)
    config = json.loads(lines.readline())
    # What programs for problems import: read once, shared by the forks.
    for name in (
        "bisect",
        "collections",
        "functools",
        "heapq",
        "itertools",
        "math",
        "random",
        "re",
        "typing",
    ):
        __import__(name)
    while line := lines.readline():
        report, reporting = os.pipe()
        child = os.fork()
        if not child:
            signal.set_wakeup_fd(-1)
            return _become(config, json.loads(line), reporting)
        os.close(reporting)
        if not _watch(child, requests, wake, report, answers, is_last=json.loads(line)["stdin"] is None):
            break
    return None


def _watch(child: int, requests: int, wake: int, report: int, answers: int, *, is_last: bool) -> bool:
    """Wait for the child's end, or kill it when asked to. True if it ended by itself."""
    _send(answers, {"pid": child})
    if is_last:  # the streams are pipes to others, who wait for their end
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0), os.dup2(null, 1)
    while True:
        ready, _, _ = select.select([requests, wake], [], [])
        if wake in ready:
            os.read(wake, 64)
        ended, status = os.waitpid(child, os.WNOHANG)
        if not ended and requests in ready:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        if ended:
            missing = json.loads(os.read(report, 4096) or "null")
            os.close(report)
            _send(answers, {"missing": missing, "status": os.waitstatus_to_exitcode(status)})
            return True


def _send(answers: int, message: dict[str, Any]) -> None:
    os.write(answers, json.dumps(message).encode() + b"\n")


# -- in the child ----------------------------------------------------------------------------------------------


def _become(config: dict[str, Any], request: dict[str, Any], report: int) -> tuple[str, dict[str, Any]]:
    """Take on every layer; without one that was asked for, end instead of running the program."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if request["stdin"] is not None:
        os.dup2(os.open(request["stdin"], os.O_RDONLY), 0)
    os.chdir(config["folder"])
    layers = {
        "limits": lambda: _limits(config["limits"]),
        "privileges": _drop_privileges,
        "landlock": lambda: _landlock(config["readable"], config["folder"]),
        "seccomp": lambda: _seccomp(bytes.fromhex(config["filter"])),
    }
    missing = [name for name, apply in layers.items() if name in config["layers"] and not apply()]
    missing += [name for name in layers if name not in config["layers"]]
    os.write(report, json.dumps(missing).encode())
    os.closerange(3, max(report, 256) + 1)
    if not set(missing) <= set(config["accepted"]):
        os._exit(_NOT_RUN)
    return config["code"], _fresh_main()


def _fresh_main() -> dict[str, Any]:
    """Names of a new module `__main__`, with nothing of this file in sight."""
    import builtins

    module = ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    sys.modules["__main__"], sys.argv = module, ["program.py"]
    builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]  # the site module, left out, makes these
    return module.__dict__


def _limits(limits: dict[str, int]) -> bool:
    """Resource limits by name, soft and hard alike, but one second of grace for the processor's."""
    for name, value in limits.items():
        grace = 1 if name == "RLIMIT_CPU" else 0
        resource.setrlimit(getattr(resource, name), (value, value + grace))
    return True


def _drop_privileges() -> bool:
    """No capability, now or after any call; root is then but the owner of its own files."""
    capability = 0
    while _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    _libc.prctl(_PR_CAP_AMBIENT, 4, 0, 0, 0)
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    return _libc.capset(header, none) == 0 and _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0


def _landlock(readable: list[str], folder: str) -> bool:
    """Files: `readable` to read, `folder` to read and write, the null device. TCP and signals too, where it can."""
    abi = _libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)
    if abi < 1:
        return False
    files = (
        (1 << 13) - 1
        | (1 << 13 if abi >= 2 else 0)
        | (_TRUNCATE if abi >= 3 else 0)
        | (1 << 15 if abi >= 5 else 0)
    )
    handled = (ctypes.c_uint64 * 3)(files, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    rules = _libc.syscall(_LANDLOCK_CREATE, handled, ctypes.c_size_t(size), 0)
    if rules < 0:
        return False
    write = _WRITE_FILE | _TRUNCATE & files
    for path in readable:
        _allow(rules, path, _READ_FILE | _READ_DIR)
    _allow(rules, folder, _READ_FILE | _READ_DIR | write | _REMOVE_FILE | _MAKE_REG)
    _allow(rules, os.devnull, _READ_FILE | write)
    return (
        _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        and _libc.syscall(_LANDLOCK_RESTRICT, rules, 0) == 0
    )


def _allow(rules: int, path: str, access: int) -> None:
    """Allow this below a path. A path that is not there needs no rule."""
    try:
        file = os.open(path, _O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not os.path.isdir(path):
        access &= _READ_FILE | _WRITE_FILE | _TRUNCATE
    beneath = ctypes.create_string_buffer(
        access.to_bytes(8, sys.byteorder) + file.to_bytes(4, sys.byteorder), 12
    )
    _libc.syscall(_LANDLOCK_ADD, rules, 1, beneath, 0)
    os.close(file)


def _seccomp(program: bytes) -> bool:
    """Install the filter. Last: it forbids what the other layers need."""

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    if not program or _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    code = ctypes.create_string_buffer(program, len(program))
    holder = Program(len(program) // 8, ctypes.cast(code, ctypes.c_void_p))
    return _libc.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(holder), 0, 0) == 0


if __name__ == "__main__" and (work := main()) is not None:
    exec(compile(work[0], "program.py", "exec"), work[1])  # nosec B102  # in the sandbox (docs/security.md)
