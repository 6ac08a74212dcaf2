"""A page while 300 clients send their requests drop by drop, against the same page with nobody else there.

    .venv/bin/python -m benchmarks.bench_slow_clients [--slow 300] [--repeats 200]

First gunicorn's own threaded worker, the baseline, then ours. Of the slow clients as many send a head, a body of 64 kB
to the sign-in, a body in chunks to the imports, or nothing; each sends a byte a second. Goal: p95 within twice the
quiet one. Memory is that of the web server's processes together (resident).
"""

import argparse
import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from unittest import mock

import httpx
import psutil

from benchmarks.bench_pages import web_server
from benchmarks.home import bare_home
from benchmarks.timing import percentiles
from stack import parts

GOAL = 2.0
PAGE = "/sign-in"
SECONDS = 5.0  # that a page may take before it counts as not answered
BEGINNINGS = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
    b"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: 64000\r\n\r\n",
    b"POST /imports/new HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n",
    b"",
)
WORKERS = {"gunicorn's own (baseline)": "gthread", "ours": "stack.web_worker.Worker"}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--slow", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=200)
    options = parser.parse_args(arguments)
    print(f"{'':28}{'':8}{'p50 ms':>9}{'p95 ms':>9}{'failed':>9}{'MB':>7}{'p95 ratio':>11}")
    with bare_home() as folder:
        for name, worker in WORKERS.items():
            command = [each.replace(WORKERS["ours"], worker) for each in parts.web_command("HOST", 0)]
            with mock.patch.object(parts, "web_command", with_address(command)), web_server(folder) as url:
                quiet = measured(url, options.repeats)
                report(name, "quiet", quiet, quiet[1])
                with slow_clients(url, options.slow):
                    report(name, "slow", measured(url, max(10, options.repeats)), quiet[1])


def with_address(command: list[str]):
    """`parts.web_command` with another worker."""
    return lambda host, port, *_: [each.replace("HOST:0", f"{host}:{port}") for each in command]


def measured(url: str, repeats: int) -> tuple[float, float, int, float]:
    """p50 and p95 in milliseconds, requests without an answer, resident megabytes. Ends early where none answers."""
    times, failed = [], 0
    for _ in range(repeats):
        begin = time.perf_counter()
        try:
            httpx.get(url + PAGE, timeout=SECONDS, trust_env=False).raise_for_status()
        except httpx.HTTPError:
            failed += 1
            if failed >= 10:
                break
        times.append(1000 * (time.perf_counter() - begin))
    p50, p95 = percentiles(times, 50, 95)
    return p50, p95, failed, memory()


def memory() -> float:
    """Of this process' children that serve, in megabytes."""
    servers = [
        each for each in psutil.Process().children(recursive=True) if "gunicorn" in " ".join(each.cmdline())
    ]
    return sum(each.memory_info().rss for each in servers) / 1e6


@contextlib.contextmanager
def slow_clients(url: str, count: int) -> Iterator[None]:
    host, port = url.removeprefix("http://").split(":")
    ended = threading.Event()
    thread = threading.Thread(target=_drip, args=(host, int(port), count, ended))
    thread.start()
    time.sleep(2)  # until all are connected
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _drip(host: str, port: int, count: int, ended: threading.Event) -> None:
    """Keep so many slow connections; one that the server has ended is made anew."""
    slow: list[socket.socket | None] = [None] * count
    while not ended.wait(1.0):
        for i, one in enumerate(slow):
            try:
                if one is None:
                    one = slow[i] = socket.create_connection((host, port), timeout=1)
                    one.sendall(BEGINNINGS[i % len(BEGINNINGS)])
                elif BEGINNINGS[i % len(BEGINNINGS)]:
                    one.sendall(b"x")
            except OSError:
                slow[i] = None
    for one in slow:
        if one is not None:
            one.close()


def report(name: str, when: str, found: tuple[float, float, int, float], quiet_p95: float) -> None:
    p50, p95, failed, megabytes = found
    print(
        f"{name:28}{when:8}{p50:9.1f}{p95:9.1f}{failed:9}{megabytes:7.0f}{p95 / quiet_p95:11.2f}", flush=True
    )


if __name__ == "__main__":
    main()
