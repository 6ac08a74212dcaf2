"""`manage.py run_study` itself: its words and refusals; and with the real trainer, stopped in the middle."""

import os
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from stack.environment import ROOT
from tests.waiting import wait_until
from training.study.corpus import read_corpus

SECONDS = 150.0
TINY = """\
      engine.type: transformers
      model: {model}
      offpolicy.k: 0
      rollout.prompts_per_step: 2
      rollout.generations_per_prompt: 4
      filter.zero_variance: keep
      eval.every_steps: 1
      eval.prompts: 4
      eval.k: 2
      checkpoint.every_steps: 2
      checkpoint.save_model: false
"""


def command(*words: str | Path, home: Path) -> list[str]:
    return [sys.executable, "manage.py", "run_study", *map(str, words), "--home", str(home)]


def run(*words: str | Path, home: Path) -> "subprocess.CompletedProcess[str]":
    asked = [*command(*words, home=home), "--corpus", str(home / "corpus")]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)


def test_a_check_says_what_would_run(tmp_path, home, text):
    (tmp_path / "some.yaml").write_text(text)

    done = run(tmp_path / "some.yaml", "--check", home=home)

    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "A small file: 1 studies, 4 runs, 24 steps",
        "  loss: 4 runs of cispo (2), dapo (2)",
        "models to make or to look at: none",
        "0 runs have succeeded, 4 to go: as long as is not known before a run has ended",
    ]
    assert not (home / "studies").exists() and not (home / "corpus").exists()
    here, words = StringIO(), ["--home", str(home), "--corpus", str(home / "corpus")]
    call_command("run_study", str(tmp_path / "some.yaml"), "--check", *words, stdout=here)
    assert here.getvalue() == done.stdout
    with pytest.raises(CommandError, match="gspo"):
        call_command("run_study", str(tmp_path / "some.yaml"), "--check", "--only", "gspo", *words)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "some.yaml, line 15: studies.0.budget.steps: Input should be greater than or equal to 1"),
        (("--only", "gspo"), "some.yaml, line 15"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_before_anything_runs(tmp_path, home, text, words, reason):
    (tmp_path / "some.yaml").write_text(text.replace("steps: 6", "steps: 0"))

    done = run(tmp_path / "some.yaml", *words, home=home)

    assert done.returncode == 1
    assert reason in done.stderr and "Traceback" not in done.stderr
    assert not (home / "studies").exists()


@pytest.mark.deep
@pytest.mark.ray
@pytest.mark.timeout(300)
def test_a_real_training_stopped_in_the_middle_and_gone_on_with(tmp_path, text, schooled_model):
    file, home = tmp_path / "some.yaml", tmp_path / "home"
    settings = TINY.format(model=schooled_model)
    alone = text.replace("      dapo:\n        loss.type: dapo\n", "").replace("[0, 1]", "[0]")
    file.write_text(alone.replace("      engine.type: transformers\n", settings))
    journals = home / "studies" / "some" / "runs"

    words = [*command(file, home=home), "--corpus", str(home / "corpus")]
    with subprocess.Popen(words, cwd=ROOT, env=os.environ, stdout=subprocess.PIPE, text=True) as first:
        wait_until(
            lambda: first.poll() is not None or b'"step":3' in _journal(journals), SECONDS, "three steps"
        )
        first.send_signal(signal.SIGINT)
        said, _ = first.communicate(timeout=SECONDS)
    assert first.returncode == 0 and "the next start goes on with it" in said

    done = run(file, home=home)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "resume loss.cispo seed 0" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 of 1 runs succeeded, 0 lost"
    corpus = read_corpus(home / "corpus")
    (run_id,) = corpus.runs
    rates = corpus.points(run_id).of("eval/pass_rate")
    assert rates.step.tolist() == list(range(7))
    assert (rates.device_hours[1:] > rates.device_hours[:-1]).all()


def _journal(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("*/metrics.jsonl"))
