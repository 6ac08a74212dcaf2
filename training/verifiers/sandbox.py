"""Runs untrusted Python: no network, no other process, no file but its own, killed whole when it is late.

A `Sandbox` starts a launcher (`confine`, trusted, in a session and process group of its own, with an empty environment
and a private temporary folder); for each run the launcher forks a child that takes on these layers for good and only
then runs the program. What each one stops:

- limits      rlimits: processor seconds, address space, size of a file, open files, no core dump
- privileges  no_new_privs and no capabilities: root in here may do no more than anyone else
- landlock    every file but the private folder (read, write) and the standard library (read): so also other
              processes' environ in /proc; TCP, signals and abstract sockets too where the kernel is new enough
- seccomp     a list of allowed system calls (`seccomp`): no new process (so no fork bomb and nobody who outlives the
              group, as root too), no socket, no signals, no ptrace, no mount, no shared memory, no io_uring

From outside come the wall clock, bounded output (the program is killed when it writes more), and a look every 50 ms at
the private folder (total size, number of files) and at the number of threads. Between two looks the program can
overshoot these three; rlimits on the size of a file and on open files bound by how much. Names and sizes of files
elsewhere can still be asked for (`stat`); their contents cannot. If the trainer is killed, so is the program; its
folder stays until the next process of this user on this machine makes its first sandbox (`folders`).

`limits` and `privileges` work on every Linux; `landlock` needs Linux 5.13 and `seccomp` x86-64 or aarch64.
`protections()` says which work here, found by trying. A missing one is an error unless it is accepted by name; then:

- without landlock   nothing can be opened for writing at all; files that the user can read can be read
- without seccomp    RLIMIT_NPROC bounds processes, except for root; there is the network; a process that leaves the
                     group may outlive the run
"""

import functools
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from training.verifiers.folders import new_folder, remove_abandoned_once
from training.verifiers.seccomp import filter_program
from training.verifiers.watching import Bounded, has_data, num_tasks_of_this_user, num_threads

LAYERS = frozenset({"limits", "privileges", "landlock", "seccomp"})
TICK_SECONDS = 0.05
START_SECONDS = 30.0
_MIB = 2**20

Status = Literal["ok", "error", "timeout", "killed"]


class SandboxError(RuntimeError):
    """The sandbox itself is at fault: a protection is missing, or the launcher is gone."""


@dataclass(frozen=True)
class Limits:
    """Of one run. The wall clock is longer than the processor's: the machine may be busy."""

    cpu_seconds: int = 5
    wall_seconds: float = 10.0
    memory_mib: int = 512
    file_mib: int = 8
    folder_mib: int = 32
    files: int = 256  # in the private folder
    open_files: int = 32
    threads: int = 64
    output_kib: int = 64  # of each of stdout and stderr


@dataclass(frozen=True)
class Finished:
    """How a run ended. ok: exit status 0; error: another one; timeout: processor or wall clock; killed: the rest."""

    status: Status
    stdout: str
    stderr: str
    reason: str = ""


def run_python(
    code: str, *, stdin: str = "", limits: Limits | None = None, accept_missing: Collection[str] = ()
) -> Finished:
    """Run a program once. SandboxError where a protection is missing and not accepted."""
    with Sandbox(code, limits=limits, accept_missing=accept_missing) as sandbox:
        return sandbox.run(stdin)


@functools.cache
def protections() -> frozenset[str]:
    """Which of LAYERS work on this machine, found by running an empty program in them."""
    with Sandbox("", accept_missing=LAYERS, layers=LAYERS) as sandbox:
        finished = sandbox.run("")
        if finished.status != "ok":
            raise SandboxError(f"an empty program did not run: {finished.reason}")
        return LAYERS - sandbox.missing


def require_protections(accept_missing: Collection[str] = ()) -> frozenset[str]:
    """The protections of this machine; SandboxError if one is missing that is not accepted."""
    if unknown := set(accept_missing) - LAYERS:
        raise SandboxError(f"no protection is named {_words(unknown)}; there are: {_words(LAYERS)}")
    if missing := LAYERS - protections() - set(accept_missing):
        raise SandboxError(
            f"this machine cannot confine untrusted code: it lacks {_words(missing)}. Use another machine, or accept"
            " that by name (training/verifiers/sandbox.py says what each one stops)"
        )
    return protections()


class Sandbox:
    """A program that can be run several times, each time afresh. Use as a context manager."""

    def __init__(
        self,
        code: str,
        *,
        limits: Limits | None = None,
        accept_missing: Collection[str] = (),
        stdin: int | None = None,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        layers: frozenset[str] | None = None,
    ) -> None:
        """stdin: a pipe to read instead of the text given to `run`, for one run; stdout, stderr: as subprocess's.

        layers: those to use; by default, all that work here.
        """
        self.missing: frozenset[str] = frozenset()
        self._accepted = frozenset(accept_missing)
        self._layers = require_protections(accept_missing) if layers is None else layers
        self._limits = limits or Limits()
        remove_abandoned_once()
        self._folder, self._owner = new_folder()
        self._work = self._folder / "work"
        self._work.mkdir()
        self._owns_stdin = stdin is None
        self._child = 0
        self._unread = b""  # of the answers
        self._launch(stdin, stdout, stderr)
        try:
            self._send(
                {
                    "code": code,
                    "folder": str(self._work),
                    "layers": sorted(self._layers),
                    "accepted": sorted(self._accepted),
                    "limits": _rlimits(self._limits, bound_processes="seccomp" not in self._layers),
                    "readable": _readable(),
                    "filter": filter_program(writable="landlock" in self._layers).hex(),
                }
            )
        except SandboxError:
            self.close()
            raise

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self, stdin: str = "", *, wall_seconds: float | None = None, beside: "Sandbox | None" = None
    ) -> Finished:
        """One run to its end, seconds at most. `beside`: one that is running too and that is watched as well."""
        self.start(stdin)
        return self._collect(self._limits.wall_seconds if wall_seconds is None else wall_seconds, beside)

    def start(self, stdin: str = "") -> None:
        """Begin a run."""
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir(exist_ok=True)
        path = None
        if self._owns_stdin:
            path = self._folder / "stdin"
            path.write_bytes(stdin.encode("utf-8", "replace"))
        self._send({"stdin": path and str(path)})
        self._child = self._next_answer(time.monotonic() + START_SECONDS)["pid"]

    def close(self) -> None:
        """End whatever is running and remove the private folder. Can be called twice."""
        if not self._folder.exists():
            return
        os.close(self._requests)
        self._await_launcher(seconds=2.0)
        with suppress(ProcessLookupError):
            os.killpg(self._launcher.pid, signal.SIGKILL)  # not reaped yet: nobody else has this number
        self._launcher.wait()
        os.close(self._answers)
        for pipe in (self._launcher.stdout, self._launcher.stderr):
            if pipe:
                pipe.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._owner)

    # -- the launcher ----------------------------------------------------------------------------------------

    def _launch(self, stdin: int | None, stdout: int, stderr: int) -> None:
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        home = str(self._work)
        try:
            self._launcher = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", "-X", "utf8", str(Path(__file__).with_name("confine.py"))]
                + [str(requests), str(answers), str(os.getpid())],
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=stdout,
                stderr=stderr,
                env={"PATH": "/usr/bin:/bin", "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "TZ": "UTC"},
                cwd=home,
                pass_fds=(requests, answers),
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._requests)
            os.close(self._answers)
            shutil.rmtree(self._folder)
            os.close(self._owner)
            raise SandboxError(f"cannot start {sys.executable}: {error}") from None
        finally:
            os.close(requests)
            os.close(answers)

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._requests, data) :]
        except BrokenPipeError:
            raise SandboxError("the launcher ended before it was told what to run") from None

    def _await_launcher(self, seconds: float) -> None:
        """Its end of the answers closes when it has killed and reaped what it started."""
        deadline = time.monotonic() + seconds
        while has_data(self._answers, deadline):
            if not os.read(self._answers, 4096):
                return

    # -- one run ---------------------------------------------------------------------------------------------

    def _collect(self, seconds: float, beside: "Sandbox | None") -> Finished:
        """Read until the child has ended, or has to."""
        deadline = time.monotonic() + seconds
        out, err = (
            Bounded(self._launcher.stdout, self._limits.output_kib),
            Bounded(self._launcher.stderr, self._limits.output_kib),
        )
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            for stream in (out, err):
                stream.register(selector)
            while b"\n" not in self._unread:
                for key, _ in selector.select(TICK_SECONDS):
                    if key.data:
                        key.data.read(selector)
                    else:
                        self._read_answers()
                stop = out.too_much or err.too_much or self._excess() or (beside._excess() if beside else "")
                if stop:
                    return Finished("killed", out.text(), err.text(), stop)
                if time.monotonic() > deadline:
                    return Finished("timeout", out.text(), err.text(), f"not done after {seconds:g} s")
        out.read()
        err.read()
        return self._judge(self._next_answer(deadline), out, err)

    def _next_answer(self, deadline: float) -> dict[str, Any]:
        """The launcher's next line. SandboxError if it does not come."""
        while b"\n" not in self._unread:
            if not has_data(self._answers, deadline):
                raise SandboxError("the launcher does not answer")
            self._read_answers()
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)

    def _read_answers(self) -> None:
        if not (data := os.read(self._answers, 4096)):
            raise SandboxError("the launcher is gone")
        self._unread += data

    def _excess(self) -> str:
        """What the running child has too much of, of the things that no rlimit bounds."""
        sizes = []
        with suppress(FileNotFoundError):
            sizes = [file.stat(follow_symlinks=False).st_blocks * 512 for file in os.scandir(self._work)]
        if sum(sizes) > self._limits.folder_mib * _MIB or len(sizes) > self._limits.files:
            return f"{len(sizes)} files of {sum(sizes) // _MIB} MiB in its folder"
        if (threads := num_threads(self._child)) > self._limits.threads:
            return f"{threads} threads"
        return ""

    def _judge(self, answer: dict[str, Any], out: "Bounded", err: "Bounded") -> Finished:
        if answer["missing"] is None:
            return Finished("killed", out.text(), err.text(), "ended before it was confined")
        self.missing = frozenset(answer["missing"])
        if self.missing - self._accepted:
            raise SandboxError(f"could not confine the program: no {_words(self.missing)}")
        code = answer["status"]
        status: Status = "ok" if code == 0 else "error" if code > 0 else "killed"
        reason = ""
        if code > 0:
            reason = (err.text().strip().splitlines() or [f"exit status {code}"])[-1][:200]
        elif code == -signal.SIGXCPU:
            status, reason = "timeout", f"used {self._limits.cpu_seconds} s of processor time"
        elif code < 0:
            reason = f"killed by signal {-code}"
        too_much = out.too_much or err.too_much
        return Finished("killed" if too_much else status, out.text(), err.text(), too_much or reason)


def _rlimits(limits: Limits, *, bound_processes: bool) -> dict[str, int]:
    values = {
        "RLIMIT_CPU": limits.cpu_seconds,
        "RLIMIT_AS": limits.memory_mib * _MIB,
        "RLIMIT_FSIZE": limits.file_mib * _MIB,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_CORE": 0,
        "RLIMIT_MEMLOCK": 0,
    }
    if bound_processes:  # counted per user, not per program
        values["RLIMIT_NPROC"] = num_tasks_of_this_user() + limits.threads
    return values


@functools.cache
def _readable() -> list[str]:
    """What the interpreter and the C library read, and no other place."""
    library = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), f"{sys.base_prefix}/lib"]
    system = ["/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache"]
    devices = ["/dev/zero", "/dev/random", "/dev/urandom"]
    return list(dict.fromkeys(library + system + devices))


def _words(names: Collection[str]) -> str:
    return ", ".join(sorted(names))
