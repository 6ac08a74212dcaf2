"""The benchmarks of pages run, at a size that says nothing about speed."""

import shutil
import subprocess
import sys

import pytest

from benchmarks.bench_paint import kind_of
from benchmarks.timing import timed
from stack.environment import ROOT
from tests.members import member
from tests.running_stack import stack_environment

pytestmark = pytest.mark.timeout(280)
TINY = ["--runs", "40", "--points", "60000", "--repeats", "2"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder whose data the benchmarks share."""
    return tmp_path_factory.mktemp("bench") / "home"


def run(module, home, *options):
    command = [sys.executable, "-m", f"benchmarks.{module}", "--home", str(home), *TINY, *options]
    done = subprocess.run(
        command, cwd=ROOT, env=stack_environment(home), capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.deep
def test_pages_are_asked_in_process_and_over_http(home):
    printed = run("bench_pages", home)

    assert "40 runs" in printed
    for name in ("list, first page", "run page", "poll, nothing new", "compare of 100 runs", "leaderboard"):
        assert name in printed


@pytest.mark.deep
@pytest.mark.browser
def test_first_paint_is_measured_in_chromium(home):
    if shutil.which("chromium") is None:
        pytest.skip("no chromium on the PATH")
    printed = run("bench_paint", home, "--slower", "1", "--only", "run page")

    (row,) = [line for line in printed.splitlines() if line.startswith("run page")]
    score, paint, largest, _, loaded, _, script, total = (float(cell) for cell in row.split()[2:10])
    assert 0 < score <= 100
    assert 0 < paint <= min(largest, loaded)
    assert 0 < script < 1200  # KB
    assert script < total


@pytest.mark.deep
@pytest.mark.browser
def test_the_pages_of_a_running_server_are_found_by_its_links(live_server, tmp_path):
    if shutil.which("chromium") is None:
        pytest.skip("no chromium on the PATH")
    user = member()
    user.set_password("a long password")
    user.save()
    options = ["--site", live_server.url, "--user", user.username, "--password", "a long password"]

    printed = run("bench_paint", tmp_path, *options, "--slower", "1", "--only", "members")

    (row,) = [line for line in printed.splitlines() if line.startswith("members")]
    assert 0 < float(row.split()[1]) <= 100


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "overview"),
        ("/runs/abc?tab=samples#top", "run samples"),
        ("/runs.csv?filter=", None),
        ("/no/such/page", None),
    ],
)
def test_a_page_has_a_kind(path, kind):
    assert kind_of(path) == kind


def test_without_mlflow_nothing_is_measured(home, tmp_path):
    assert "nothing is measured" in run("bench_mlflow", home, "--mlflow", str(tmp_path / "none"))


def test_times_are_of_the_calls_alone():
    seen = []
    times = timed(seen.append, 4, before=lambda: seen.append("before"))

    assert seen == ["before", 1, "before", 2, "before", 3, "before", 4]
    assert 0 <= times.median_ms <= times.p95_ms < 100
