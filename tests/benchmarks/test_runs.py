"""The benchmarks of launching and reconciliation run, at a size that says nothing about speed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from stack.environment import ROOT
from tests.running_stack import stack_environment


def run(module: str, home: Path, *options: str) -> str:
    command = [sys.executable, "-m", f"benchmarks.{module}", *options]
    done = subprocess.run(
        command, cwd=ROOT, env=stack_environment(home), capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.deep
def test_rounds_of_reconciliation_are_timed_and_counted(tmp_path: Path) -> None:
    printed = run("bench_reconcile", tmp_path, "--runs", "2", "4", "--rounds", "1")

    rows = re.findall(r"^ +([24]) +[\d.]+ s +[\d.]+ s +(\d+) +(\d+)$", printed, re.MULTILINE)
    assert [row[0] for row in rows] == ["2", "4"], printed
    assert all(int(queries) > 0 and int(requests) > 0 for _, queries, requests in rows)
    assert "the number of queries is" in printed


@pytest.mark.deep
@pytest.mark.stack
@pytest.mark.timeout(240)
def test_clicks_are_timed_until_their_job_is_submitted(tmp_path: Path) -> None:
    printed = run("bench_dispatch", tmp_path, "--launches", "2")

    assert re.search(r"^click to the submitted job +\d+ +\d+ +\d+$", printed, re.MULTILINE), printed
    assert "of the goal" in printed


@pytest.mark.deep
def test_decisions_on_a_queue_are_timed(tmp_path: Path) -> None:
    printed = run("bench_admission", tmp_path, "--queued", "20", "--rounds", "1")

    assert re.search(r"^ +20 +[\d.]+ ms +[\d.]+ ms +[\d.]+ ms$", printed, re.MULTILINE), printed


@pytest.mark.deep
def test_pages_of_samples_are_timed_in_a_store_of_linked_files(tmp_path: Path) -> None:
    small = ("--only", "pages", "--runs", "5", "--files", "2", "--distinct", "2", "--repeats", "2")
    printed = run("bench_samples", tmp_path, *small)

    assert "5 runs, 10 samples of steps: " in printed and "a prompt's history" in printed, printed
