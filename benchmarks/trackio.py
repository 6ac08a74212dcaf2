"""trackio as the benchmarks run it, out of .venv-trackers: its server, and threads that log through its client."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SECRET = "a-write-token-of-the-benchmark"
TRACKIO_SERVER = """
import sys, trackio
trackio.show(open_browser=False, host="127.0.0.1", server_port=int(sys.argv[1]), block_thread=True)
"""
TIMEOUT = 600
LOAD = """
import json, sys, threading, time
settings = json.loads(sys.argv[1])
{imports}

def work(number):
    {begin}
    for step in range(settings["logs"]):
        {log}
    {finish}

threads = [threading.Thread(target=work, args=(i,)) for i in range(settings["threads"])]
began = time.perf_counter()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("seconds", time.perf_counter() - began)
"""
METRICS = '{f"train/metric_{i}": 0.1234567 * i + step for i in range(settings["metrics"])}'
TRACKIO = LOAD.format(
    imports="import trackio",
    begin='trackio.init(project="bench", name=f"thread {number}", auto_log_cpu=False, auto_log_gpu=False)',
    log=f"trackio.log({METRICS}, step=step)",
    finish="trackio.finish()",
)


@dataclass(frozen=True)
class Ran:
    """Seconds until everything had been sent, and lines that the server holds then."""

    seconds: float
    lines: int


@contextlib.contextmanager
def trackio_server(binaries: Path, folder: Path) -> Iterator[str]:
    """trackio's own server; its URL."""
    from stack.ports import free_port

    port = free_port()
    variables = os.environ | {"TRACKIO_WRITE_TOKEN": SECRET, "TRACKIO_DIR": str(folder / "trackio")}
    with (folder / "logs" / "trackio.log").open("wb") as log:
        process = subprocess.Popen(
            [str(binaries / "python"), "-c", TRACKIO_SERVER, str(port)],
            env=variables, stdout=log, stderr=subprocess.STDOUT, cwd=folder, start_new_session=True,
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(url, process)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)


def wait_for(url: str, process: "subprocess.Popen[bytes]", seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=5)
            connection.request("GET", "/version")
            if connection.getresponse().status == 200:
                return
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("trackio's server did not start")
        time.sleep(0.2)


def run_trackio(url: str, binaries: Path, folder: Path, settings: dict[str, Any]) -> Ran:
    variables = {
        "TRACKIO_SERVER_URL": url,
        "TRACKIO_WRITE_TOKEN": SECRET,
        "TRACKIO_DIR": str(folder / "trackio-client"),
    }
    seconds = seconds_of(str(binaries / "python"), TRACKIO, settings, variables)
    return Ran(seconds, _stored_by_trackio(folder / "trackio"))


def seconds_of(python: str, program: str, settings: dict[str, Any], variables: dict[str, str]) -> float:
    done = subprocess.run(
        [python, "-c", program, json.dumps(settings)],
        env=os.environ | variables, check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT,
    )  # fmt: skip
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("seconds "))
    return float(line.removeprefix("seconds "))


def _stored_by_trackio(folder: Path) -> int:
    """Lines in the databases of its server."""
    import sqlite3

    counts = []
    for path in folder.glob("*.db"):
        with sqlite3.connect(path) as database:
            counts.append(database.execute("SELECT count(*) FROM metrics").fetchone()[0])
    return sum(counts)
