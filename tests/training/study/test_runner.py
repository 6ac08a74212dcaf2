"""Runs one after the other with a toy that trains nothing: failing, hanging, stopping, being killed, going on."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stack.environment import ROOT
from tests.training.study.toy_study import toy_runner
from tests.waiting import wait_until
from training.digests import weights_digest
from training.study.corpus import read_corpus
from training.study.runner import MOST_RESUMES, StudyError


@pytest.fixture
def write(tmp_path, text):
    """A study file of the baseline alone, with these seeds."""

    def written(seeds: str, *, steps: int = 6, minutes: float = 1) -> Path:
        path: Path = tmp_path / "some.yaml"
        alone = text.replace("      dapo:\n        loss.type: dapo\n", "").replace("[0, 1]", seeds)
        path.write_text(alone.replace("{steps: 6, minutes: 1}", f"{{steps: {steps}, minutes: {minutes}}}"))
        return path

    return written


def study_process(file: Path, home: Path, seconds_a_step: float) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.training.study.toy_study", str(file), str(home)]
    variables = os.environ | {"TOY_SECONDS_A_STEP": str(seconds_a_step)}
    return subprocess.Popen(
        command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def records(home: Path) -> list[dict]:
    found = []
    for journal in sorted(home.glob("studies/some/runs/*/metrics.jsonl")):
        found += [
            json.loads(line) for line in journal.read_text().splitlines(keepends=True) if line.endswith("\n")
        ]
    return found


def curve(home: Path) -> list[int]:
    """Steps of the only run's evaluations in the corpus."""
    found = read_corpus(home / "corpus")
    (run_id,) = found.runs
    assert found.runs[run_id].state == "succeeded"
    return found.points(run_id).of("eval/pass_rate").step.tolist()


def test_a_failed_run_is_repeated_once_from_scratch_and_then_listed_as_lost(write, tmp_path):
    lines: list[str] = []

    toy_runner(write("[0, 13, 14]"), tmp_path, lines).run()

    runs = {run.seed: run for run in read_corpus(tmp_path / "corpus").runs.values()}
    assert {seed: (run.state, run.failed_tries) for seed, run in runs.items()} == {
        0: ("succeeded", 0),
        13: ("lost", 2),
        14: ("succeeded", 1),
    }
    assert runs[13].reason == "exit status 1: the toy broke"
    assert lines[-1].splitlines()[0] == "2 of 3 runs succeeded, 1 lost"
    assert f"lost: loss.cispo seed 13 ({runs[13].id}): exit status 1: the toy broke" in lines[-1]
    failed = tmp_path / "studies" / "some" / "runs" / f"{runs[13].id}.failed-2"
    assert "the toy broke" in (failed / "output.log").read_text()


def test_a_run_whose_cluster_is_lost_goes_on_from_its_checkpoint(write, tmp_path):
    lines: list[str] = []

    toy_runner(write("[16]"), tmp_path, lines).run()

    assert curve(tmp_path) == [0, 1, 2, 3, 4, 5, 6]
    assert [run.failed_tries for run in read_corpus(tmp_path / "corpus").runs.values()] == [0]
    assert sum("gone on with: exit status 75: the Ray cluster is lost" in line for line in lines) == 1
    assert sum("resume loss.cispo seed 16" in line for line in lines) == 1


@pytest.mark.deep
def test_a_run_whose_cluster_is_lost_again_and_again_is_lost(write, tmp_path):
    lines: list[str] = []

    toy_runner(write("[17]"), tmp_path, lines).run()

    (run,) = read_corpus(tmp_path / "corpus").runs.values()
    assert (run.state, run.failed_tries) == ("lost", 2)
    assert sum("gone on with" in line for line in lines) == MOST_RESUMES


def test_a_second_start_trains_nothing_again(write, tmp_path):
    file, lines = write("[0, 13]"), []
    toy_runner(file, tmp_path, lines).run()
    before = {path: path.read_bytes() for path in (tmp_path / "corpus").iterdir()}
    lines.clear()

    toy_runner(file, tmp_path, lines).run()

    assert lines[0] == "2 of 2 runs have ended; 0 to go"
    assert {path: path.read_bytes() for path in (tmp_path / "corpus").iterdir()} == before


def test_lost_runs_are_tried_again_when_that_is_asked_for(write, tmp_path):
    lines: list[str] = []
    runner = toy_runner(write("[13]"), tmp_path, lines)
    runner.run()

    runner.forget_lost()
    runner.run()

    assert sum("train loss.cispo seed 13" in line for line in lines) == 4


def test_what_the_corpus_holds_is_not_trained_on_another_machine(write, tmp_path):
    file = write("[0, 1]")
    toy_runner(file, tmp_path, []).run()
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / "corpus").rename(other / "corpus")
    lines: list[str] = []

    toy_runner(file, other, lines).run()

    assert lines[0] == "2 of 2 runs have ended; 0 to go"
    assert len(read_corpus(other / "corpus").runs) == 2


@pytest.mark.deep
def test_a_run_that_hangs_is_ended_and_has_failed(write, tmp_path):
    runner = toy_runner(write("[15]", minutes=0.02), tmp_path, [], grace=1)

    runner.run()

    (run,) = read_corpus(tmp_path / "corpus").runs.values()
    assert (run.state, run.reason) == ("lost", "not at its end after 0.02 minutes")


def test_a_machine_on_which_every_run_fails_loses_no_more_of_them(write, tmp_path):
    runner = toy_runner(write("[0]"), tmp_path, [])
    broken = toy_runner(write("[0, 1, 2, 3, 4]"), tmp_path, [])
    broken.means = type(broken.means)([sys.executable, "-c", "raise SystemExit('no disk')"], tmp_path)

    with pytest.raises(
        StudyError, match="3 runs in a row were lost, the last one by: exit status 1: no disk"
    ):
        broken.run()

    assert len(broken.settle()) == 2
    assert len(runner.runs) == 1


@pytest.mark.deep
def test_no_run_begins_that_would_likely_not_end_in_time(write, tmp_path):
    file = write("[0, 1, 2]")
    toy_runner(file, tmp_path, []).run()
    lines: list[str] = []
    runner = toy_runner(write("[0, 1, 2, 3]", steps=600), tmp_path, lines)
    runner.max_seconds = 5.0

    runner.run()

    assert [line for line in lines if line.endswith("would likely not end in time")] != []
    assert not any(" train " in line for line in lines)


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_study_goes_on_with_the_run_that_was_under_way(write, tmp_path, by):
    """SIGKILL to the runner alone: its training writes a checkpoint, ends, and the next start waits for that."""
    file = write("[0]")
    with study_process(file, tmp_path, 0.1) as study:
        wait_until(lambda: len(records(tmp_path)) >= 4, what="two steps")
        study.send_signal(by)
        study.wait(20)

    with study_process(file, tmp_path, 0) as again:
        said, _ = again.communicate(timeout=40)

    assert "resume loss.cispo seed 0" in said
    assert curve(tmp_path) == list(range(7))
    assert {record["attempt"] for record in records(tmp_path)} == {1, 2}


def test_after_a_kill_of_everything_a_start_goes_on(write, tmp_path):
    file = write("[0]")
    with study_process(file, tmp_path, 0.1) as study:
        wait_until(lambda: len(records(tmp_path)) >= 10, what="five steps")  # past the checkpoint of step 3
        kill_all(study.pid)

    with study_process(file, tmp_path, 0) as again:
        said, _ = again.communicate(timeout=40)

    assert "resume loss.cispo seed 0" in said
    assert curve(tmp_path) == list(
        range(7)
    )  # each step once, those past the checkpoint from the second attempt
    (run,) = read_corpus(tmp_path / "corpus").runs.values()
    assert 0.3 < run.wall_seconds < 60 and run.failed_tries == 0


def kill_all(pid: int) -> None:
    import psutil

    root = psutil.Process(pid)
    for process in [root, *root.children(recursive=True)]:
        process.kill()


def test_two_starts_of_one_file_do_not_train_together(write, tmp_path):
    file = write("[0]")
    with study_process(file, tmp_path, 1) as first:
        wait_until(lambda: records(tmp_path), what="a record")
        with study_process(file, tmp_path, 0) as second:
            assert second.wait(20) != 0
        first.terminate()
        assert first.wait(20) == 0


def test_models_are_made_first(write, tmp_path):
    lines: list[str] = []
    runner = toy_runner(write("[0]"), tmp_path, lines)

    runner.make_models()

    assert lines == ["model tiny-arithmetic"]
    assert (tmp_path / "models" / "tiny-arithmetic" / "COMPLETE.json").exists()
    broken = toy_runner(write("[0]"), tmp_path, [])
    broken.means = type(broken.means)([sys.executable, "-c", "raise SystemExit(3)"], tmp_path)
    with pytest.raises(StudyError, match=r"tiny-arithmetic could not be made \(exit status 3\)"):
        broken.make_models()


def test_runs_that_would_begin_from_other_weights_are_refused(write, tmp_path):
    weights = tmp_path / "models" / "tiny-arithmetic" / "model.safetensors"
    weights.parent.mkdir(parents=True)
    (weights.parent / "config.json").write_text("{}")
    weights.write_bytes(b"taught here")
    toy_runner(write("[0]"), tmp_path, []).run()
    (first,) = read_corpus(tmp_path / "corpus").runs.values()
    toy_runner(write("[0, 1]"), tmp_path, []).run()
    assert {run.versions["weights"] for run in read_corpus(tmp_path / "corpus").runs.values()} == {
        first.versions["weights"]
    }

    weights_digest.cache_clear()
    weights.write_bytes(b"taught on another machine")
    with pytest.raises(StudyError, match=f"tiny-arithmetic .* began from {first.versions['weights']}: bring"):
        toy_runner(write("[0, 1, 2]"), tmp_path, []).run()
    assert len(read_corpus(tmp_path / "corpus").runs) == 2
