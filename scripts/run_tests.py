"""All tests: first those that need no more than a database, on every core; then those that use the whole machine.

The second part starts Ray, vLLM and Chromium: beside others these would only wait for each other. Arguments are
pytest's own, and then it is one run. The last line sums up both parts in pytest's words.
"""

import os
import re
import subprocess
import sys
import time
from collections import Counter

SIDE_BY_SIDE = (
    "tests/benchmarks",
    "tests/headroom",
    "tests/scaling",
    "tests/webapp",
    "tests/test_database.py",
    "tests/test_docs.py",
    "tests/test_import_arrows.py",
)
PROCESSES = ("-n", str(min(4, os.cpu_count() or 1)), "--dist", "loadfile")
COUNTED = re.compile(r"(\d+) (passed|failed|skipped|error|warning|xfailed|xpassed|deselected)s?")
WIDTH = 80


def main(arguments: list[str]) -> int:
    """The exit status: pytest's, the worse of the two parts."""
    if arguments:
        os.execv(sys.executable, [sys.executable, "-m", "pytest", *arguments])
    began = time.monotonic()
    first, counted = run([*PROCESSES, *SIDE_BY_SIDE])
    second, more = run([f"--ignore={path}" for path in SIDE_BY_SIDE])
    print(closing_line(counted + more, time.monotonic() - began))
    return max(first, second)


def run(arguments: list[str]) -> tuple[int, Counter[str]]:
    """Run pytest, pass on what it prints; its exit status, and the counts of its last line."""
    command = [sys.executable, "-m", "pytest", *arguments]
    print(f"tests: pytest {' '.join(arguments)}", flush=True)
    last = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line if line.startswith("=") else last
    return process.returncode, Counter({word: int(number) for number, word in COUNTED.findall(last)})


def closing_line(counted: Counter[str], seconds: float) -> str:
    """As pytest's own: "==== 1 failed, 20 passed in 3.21s (0:00:03) ===="."""
    words = {"error": "errors", "warning": "warnings"}
    order = ("failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "warning", "error")
    said = ", ".join(f"{counted[name]} {words.get(name, name)}" for name in order if counted[name])
    minutes = f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02d}:{int(seconds) % 60:02d}"
    return f" {said} in {seconds:.2f}s ({minutes}) ".center(WIDTH, "=")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
