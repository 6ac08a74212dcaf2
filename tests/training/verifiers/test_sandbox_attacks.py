"""Real attacks on the real sandbox. Each must be contained, and the next program must run as if nothing had been."""

import os
import select
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from training.verifiers.sandbox import LAYERS, Finished, Limits, Sandbox, run_python

pytestmark = pytest.mark.usefixtures("whole_sandbox")

QUICK = Limits(cpu_seconds=1, wall_seconds=0.4)
ATTEMPTS = """
def attempt(name, action):
    try:
        print(name, "WORKED", repr(action())[:300])
    except BaseException as error:
        print(name, "refused", type(error).__name__)
"""


@pytest.fixture(autouse=True)
def _the_run_goes_on() -> Iterator[None]:
    """After every attack: no process, no folder is left, and an honest program works."""
    yield
    assert sandboxed_processes() == []
    assert run_python("print(int(input()) ** 2)", stdin="12") == Finished("ok", "144\n", "")
    assert not [f for f in Path(tempfile.gettempdir()).glob("headroom-sandbox-*") if f in FOLDERS]


FOLDERS: set[Path] = set()


@pytest.fixture(autouse=True)
def _remember_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    def mkdtemp(prefix: str, make=tempfile.mkdtemp) -> str:
        FOLDERS.add(Path(folder := make(prefix=prefix)))
        return folder

    monkeypatch.setattr("training.verifiers.folders.tempfile.mkdtemp", mkdtemp)


def sandboxed_processes() -> list[int]:
    """Processes that are, or come from, a launcher of this test process and are not dead yet."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.endswith(b"confine.py") for word in words) and words[-2] == str(os.getpid()).encode():
            found.append(int(folder.name))
    return found


def attempts(*lines: str, **options) -> dict[str, str]:
    """What became of each `name = expression`."""
    calls = [
        f"attempt({name!r}, lambda: {code})" for name, _, code in (line.partition(" = ") for line in lines)
    ]
    finished = run_python("import os, sys\n" + ATTEMPTS + "\n".join(calls), **options)
    assert finished.status == "ok", finished
    return dict(line.split(" ", 1) for line in finished.stdout.splitlines())


def assert_all_refused(results: dict[str, str], count: int) -> None:
    assert len(results) == count
    assert [line for line in results.items() if "WORKED" in line[1]] == []


def test_fork_bomb() -> None:
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass\n    else: print('forked')"

    finished = run_python(bomb, limits=QUICK)

    assert (finished.status, finished.stdout) == ("timeout", "")


def test_no_way_to_make_a_process() -> None:
    results = attempts(
        "fork = os.fork()",
        "vfork = __import__('ctypes').CDLL(None).vfork() + 1 or 1/0",
        "spawn = __import__('subprocess').run(['true'])",
        "shell = os.system('true') and 1/0",
        "exec = os.execv(sys.executable, ['python'])",
        "forkpty = __import__('pty').fork()",
        "multiprocessing = __import__('multiprocessing').get_context('spawn').Process(target=print).start()",
        "setsid = os.setsid()",
        "setpgid = os.setpgid(0, 0)",
        "ptrace = __import__('ctypes').CDLL(None).ptrace(16, os.getppid(), 0, 0) + 1 or 1/0",
        "unshare = __import__('ctypes').CDLL(None).unshare(0x10000000) + 1 or 1/0",
        "raise_limit = __import__('resource').setrlimit(0, (-1, -1))",
    )

    assert_all_refused(results, 12)


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import signal\nfor n in (2, 15, 24): signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
        "import time\ntime.sleep(60)",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    ],
)
def test_endless_loop(code: str) -> None:
    finished = run_python(code, limits=QUICK)

    assert finished.status == "timeout"
    assert finished.reason == "not done after 0.4 s"


def test_processor_time_ends_before_the_wall_clock() -> None:
    finished = run_python("while True: pass", limits=Limits(cpu_seconds=1, wall_seconds=60))

    assert (finished.status, finished.reason) == ("timeout", "used 1 s of processor time")


@pytest.mark.parametrize(
    "code",
    [
        "data = bytearray(10 * 2**30)",
        "import mmap\nmmap.mmap(-1, 10 * 2**30)",
        "data = []\nwhile True: data.append('x' * 2**20)",
        "import ctypes\nassert ctypes.CDLL(None).memfd_create(b'x', 0) < 0\nraise MemoryError",
    ],
)
def test_ten_gigabytes(code: str) -> None:
    finished = run_python(code, limits=Limits(memory_mib=128))

    assert finished.status == "error"
    assert "memory" in finished.reason.lower()


def test_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        results = attempts(
            f"connect = __import__('socket').create_connection(('127.0.0.1', {port}))",
            "inet = __import__('socket').socket()",
            "inet6 = __import__('socket').socket(10)",
            "udp = __import__('socket').socket(2, 2)",
            "unix = __import__('socket').socket(1)",
            "netlink = __import__('socket').socket(16, 3)",
            "raw_call = __import__('ctypes').CDLL(None).socket(2, 1, 0) + 1 or 1/0",
            "io_uring = __import__('ctypes').CDLL(None).syscall(425, 8, b'0' * 120) + 1 or 1/0",
            "address = __import__('socket').socketpair(1, 2)[0].sendto(b'x', '/dev/log')",
            f"fetch = __import__('urllib.request').request.urlopen('http://127.0.0.1:{port}')",
        )

        assert_all_refused(results, 10)
        with pytest.raises(BlockingIOError):  # nobody called
            server.accept()


def test_writing_outside(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("as it was")
    target, home = str(tmp_path / "new"), str(Path.home() / "headroom-was-here")
    results = attempts(
        f"create = open({target!r}, 'w')",
        f"home = open({home!r}, 'w')",
        "tmp = open('/tmp/headroom-was-here', 'w')",
        "shm = open('/dev/shm/headroom-was-here', 'w')",
        "above = open('../headroom-was-here', 'w')",
        f"append = open({str(kept)!r}, 'a')",
        f"truncate = os.truncate({str(kept)!r}, 0)",
        f"read_and_truncate = os.open({str(kept)!r}, os.O_RDONLY | os.O_TRUNC)",
        f"no_access_and_truncate = os.open({str(kept)!r}, 3 | os.O_TRUNC)",
        f"delete = os.unlink({str(kept)!r})",
        f"move_out = (open('mine', 'w').close(), os.rename('mine', {target!r}))",
        f"move_in = os.rename({str(kept)!r}, 'stolen')",
        f"symlink = os.symlink({str(tmp_path)!r}, 'link')",
        f"hard_link = os.link({str(kept)!r}, 'link')",
        f"mkdir = os.mkdir({target!r})",
        f"chmod = os.chmod({str(kept)!r}, 0o777)",
        "pipe = os.mkfifo('pipe')",
        "sysv = __import__('ctypes').CDLL(None).shmget(1234, 4096, 0o1666) + 1 or 1/0",
    )

    assert_all_refused(results, 18)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"] and kept.read_text() == "as it was"
    assert not any(Path(f"{place}/headroom-was-here").exists() for place in ("/tmp", "/dev/shm", Path.home()))


def test_writing_inside() -> None:
    code = "open('a', 'w').write('kept'); print(open('a').read()); import os; os.rename('a', 'b'); os.unlink('b')"

    assert run_python(code).stdout == "kept\n"


def test_reading_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_TOKEN", "hunter2")
    (tmp_path / "secret").write_text("hunter2")
    secret = {"HEADROOM_TOKEN": "hunter2", "PATH": os.environ["PATH"]}
    with subprocess.Popen(
        ["cat"], env=secret, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as other:
        try:
            assert other.stdin and other.stdout
            other.stdin.write(b"!") and other.stdout.read(1)  # it has begun
            assert b"hunter2" in Path(f"/proc/{other.pid}/environ").read_bytes()  # for us it is open
            results = attempts(
                *(
                    f"environ_{name} = open('/proc/{name}/environ').read()"
                    for name in ("self", other.pid, os.getpid())
                ),
                "launcher = open(f'/proc/{os.getppid()}/environ').read()",
                "cmdline = open(f'/proc/{os.getppid()}/cmdline').read()",
                "memory = open(f'/proc/{os.getppid()}/mem', 'rb').read(1)",
                "processes = os.listdir('/proc')",
                "passwords = open('/etc/passwd').read()",
                f"file = open({str(tmp_path / 'secret')!r}).read()",
                "home = os.listdir(os.path.expanduser('~root'))",
                f"repository = open({str(Path(__file__))!r}).read()",
                "signal = os.kill(os.getppid(), 9)",
                f"signal_trainer = os.kill({os.getpid()}, 0)",
                "everyone = os.kill(-1, 9)",
            )
        finally:
            other.kill()

    assert_all_refused(results, 14)
    printed = run_python("import os; print(sorted(os.environ), os.environ)").stdout
    assert "hunter2" not in printed
    assert printed.startswith("['HOME', 'LANG', 'PATH', 'TMPDIR', 'TZ']")


OUTLIVE = """
import os, sys, time
if os.fork() == 0:
    LEAVE
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(60)
time.sleep(PATIENCE)
"""


def test_child_that_outlives_its_parent() -> None:
    finished = run_python(OUTLIVE.replace("LEAVE", "os.setsid()").replace("PATIENCE", "0"))

    assert (finished.status, finished.stdout) == ("error", "")  # there never is a child


def test_group_is_killed_whole_where_children_can_be_made() -> None:
    """Without seccomp, the process group is what ends children."""
    code = OUTLIVE.replace("LEAVE", "pass").replace("PATIENCE", "60")
    layers = LAYERS - {"seccomp"}
    with Sandbox(code, limits=Limits(wall_seconds=1), accept_missing=LAYERS, layers=layers) as box:
        finished = box.run()
        handles = [os.pidfd_open(pid) for pid in sandboxed_processes()]

    assert finished.status == "timeout"
    assert len(handles) >= 4  # the launcher, the program, its child and that one's child
    for handle in handles:
        assert select.select([handle], [], [], 10)[0]  # it has ended
        os.close(handle)


def test_output_flood() -> None:
    finished = run_python("while True: print('x' * 1000)", limits=Limits(output_kib=64))

    assert (finished.status, finished.reason) == ("killed", "wrote more than 64 KiB")
    assert len(finished.stdout) == 64 * 1024


def test_flood_of_errors() -> None:
    finished = run_python("import sys\nwhile True: sys.stderr.write('x' * 1000)")

    assert (finished.status, len(finished.stderr)) == ("killed", 64 * 1024)


def test_flood_at_the_very_end() -> None:
    finished = run_python("import os\nos.write(1, b'x' * 3000)\nos._exit(0)", limits=Limits(output_kib=2))

    assert (finished.status, finished.reason) == ("killed", "wrote more than 2 KiB")


@pytest.mark.parametrize(
    "code",
    [
        "for i in range(10**6):\n    open(str(i), 'w').close()",
        "for i in range(10**6):\n    with open(str(i), 'wb') as f:\n        for _ in range(7): f.write(bytes(2**20))",
    ],
)
def test_full_disk(code: str) -> None:
    finished = run_python(code)

    assert finished.status == "killed"
    assert "in its folder" in finished.reason


def test_large_file() -> None:
    finished = run_python("f = open('a', 'wb')\nfor _ in range(99): f.write(bytes(2**20))")

    assert finished.status in ("killed", "error")


def test_thread_bomb() -> None:
    code = "import threading, time\nthreading.stack_size(2**15)\n"
    code += "while True: threading.Thread(target=time.sleep, args=(60,)).start()"

    finished = run_python(code)

    assert finished.status in ("killed", "error")
