"""The driver's output in its run's folder, also when the driver is killed or the folder is away."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.waiting import wait_until
from training.log_copy import LogCopy, file_name

DRIVER = """
import sys, time
from pathlib import Path
from training.log_copy import copy_output
copy_output(Path(sys.argv[1]))
print("one", flush=True)
print("two", file=sys.stderr, flush=True)
{end}
"""


def start(folder: Path, end: str, attempt: str = "2") -> subprocess.Popen:
    """A process whose output is a file, as Ray gives it to a job."""
    with (folder / "output").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-c", DRIVER.format(end=end), str(folder / "run")],
            stdout=output, stderr=subprocess.STDOUT, env=os.environ | {"HEADROOM_ATTEMPT": attempt},
        )  # fmt: skip


def test_all_output_is_copied_with_the_traceback_of_the_end(tmp_path):
    process = start(tmp_path, "raise RuntimeError('the verifier hung')")
    process.wait(30)

    copied = (tmp_path / "run" / "attempt-2.log").read_text()
    assert copied == (tmp_path / "output").read_text()
    assert copied.startswith("one\ntwo\nTraceback") and "RuntimeError: the verifier hung" in copied
    assert (tmp_path / "run" / "attempt-2.log").stat().st_mode & 0o777 == 0o600


def test_what_a_killed_driver_said_is_there(tmp_path):
    process = start(tmp_path, "time.sleep(60)")
    copy = tmp_path / "run" / file_name(2)
    wait_until(lambda: copy.exists() and copy.read_text() == "one\ntwo\n")

    process.send_signal(signal.SIGKILL)
    process.wait(30)

    assert copy.read_text() == "one\ntwo\n"


def test_a_driver_of_no_server_copies_nothing(tmp_path):
    start(tmp_path, "", attempt="").wait(30)

    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_away_delays_the_copy_and_loses_nothing(tmp_path):
    source, target = tmp_path / "source", tmp_path / "away" / "attempt-1.log"
    source.write_text("before\n")
    copy = LogCopy(source, target, interval_seconds=0.01)
    source.write_text("before\nwhile it was away\n")
    target.parent.mkdir()
    wait_until(lambda: target.exists() and target.read_text() == "before\nwhile it was away\n")

    with source.open("a") as file:
        file.write("last words")
    copy.close()

    assert target.read_text() == "before\nwhile it was away\nlast words"


def test_a_copy_that_is_taken_up_again_goes_on_where_it_was(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("one\ntwo\n")
    target.write_text("one\n")

    LogCopy(source, target, interval_seconds=60).close()

    assert target.read_text() == "one\ntwo\n"
