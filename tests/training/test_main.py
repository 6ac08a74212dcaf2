import json
import subprocess
import sys
from pathlib import Path

import pytest

from training.__main__ import main
from training.models import check_model


def run(*arguments: str) -> int:
    return main(["run", *arguments])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no recipe named 'nothing'; there are: deepseek-grpo"),
        (["gone.yaml"], "no recipe file gone.yaml"),
        (["tiny/scalerl", "--set", "loss.type=best"], "loss.type: Input should be"),
        (["tiny/scalerl", "--set", "loss"], "take KEY=VALUE, not"),
        (["tiny/scalerl", "--set", "nothing.at.all=1"], "nothing.at.all: no such field"),
        (["tiny/scalerl", "--steps", "0"], "budget.max_steps: Input should be greater"),
        (["tiny/scalerl", "--depth", "-1"], "offpolicy.k: Input should be greater"),
        (["tiny/scalerl", "--set", "model=none"], "model: no model named 'none'"),
        (["tiny/scalerl", "--set", "task.name=chess"], "task: no task named 'chess'"),
    ],
)
def test_bad_input_ends_with_status_1_and_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    status = run(*arguments, "--run-dir", str(tmp_path / "run"))

    assert status == 1
    assert message in capsys.readouterr().err.strip().splitlines()[-1]
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_run_folder_is_not_used_twice(
    tmp_path: Path, toy_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "metrics.jsonl").write_text("{}\n")

    status = run("tiny/scalerl", "--run-dir", str(tmp_path), "--set", f"model={toy_model}")

    assert status == 1
    assert "holds a run already; use --resume" in capsys.readouterr().err


@pytest.mark.skipif(any(Path("/dev").glob("nvidia[0-9]*")), reason="this machine has a GPU")
def test_gpus_are_refused_where_there_are_none(
    tmp_path: Path, toy_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["--set", f"model={toy_model}", "--set", "resources.trainer_gpus=2"]

    status = run("tiny/scalerl", "--run-dir", str(tmp_path), *settings)

    assert status == 1
    assert "resources.trainer_gpus: asks for 2 GPUs; this machine has none" in capsys.readouterr().err


def test_an_engine_is_refused_where_it_is_not_installed(
    tmp_path: Path, toy_model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)  # Python's own mark of a package that is not there
    monkeypatch.delenv("RAY_ADDRESS", raising=False)

    status = run(
        "tiny/scalerl", "--engine", "vllm", "--run-dir", str(tmp_path), "--set", f"model={toy_model}"
    )

    assert status == 1
    assert "engine.type: vllm is not installed on" in capsys.readouterr().err
    assert not (tmp_path / "metrics.jsonl").exists()


@pytest.mark.ray
@pytest.mark.deep
@pytest.mark.timeout(240)
def test_run_end_to_end(tmp_path: Path, toy_model: Path) -> None:
    """The command itself: local Ray, generator and trainer actors, journal, summary, checkpoint, resumed. A run of the
    story (tests/e2e) leaves the same files, and tests/training/cluster gives the command a local Ray.
    """
    command = [
        *[sys.executable, "-m", "training", "run", "tiny/scalerl", "--run-dir", str(tmp_path)],
        *["--engine", "auto", "--depth", "1", "--set", f"model={toy_model}"],
        *["--set", "rollout.prompts_per_step=2", "--set", "rollout.generations_per_prompt=2"],
        *["--set", "eval.prompts=4", "--set", "eval.k=2", "--set", "eval.every_steps=1"],
    ]
    outputs = []
    for options in (["--steps", "2"], ["--steps", "3", "--resume"]):
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)

    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    evaluated = [(r["attempt"], r["step"]) for r in records if "eval/pass_rate" in r["metrics"]]
    assert evaluated == [(1, 0), (1, 1), (1, 2), (2, 3)]
    assert records[-1]["compute"]["device_hours"] > records[0]["compute"]["device_hours"] == 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["state"], summary["step"]) == ("succeeded", 3)
    assert summary["engine"] == json.loads((tmp_path / "engine.json").read_text())
    assert summary["engine"]["engine"] == "transformers"
    for output in outputs:
        assert f"transformers engine ({summary['engine']['reason']})" in output
    for process in json.loads((tmp_path / "driver.json").read_text())["processes"]:
        assert not Path(f"/proc/{process}").exists()
    saved = check_model(str(tmp_path / "model"), min_context=64) / "model.safetensors"
    assert main(["export", "--run-dir", str(tmp_path), "--out", str(tmp_path / "again")]) == 0
    assert saved.read_bytes() == (tmp_path / "again" / "model.safetensors").read_bytes()


def test_exit_handler_that_hangs_does_not_keep_the_command_from_ending() -> None:
    code = (
        "import atexit, sys, threading\nfrom training.__main__ import end_at_the_latest\n"
        "atexit.register(threading.Event().wait)\nend_at_the_latest(3, 0.2)\nprint('error: why')\nsys.exit(3)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)

    assert (done.returncode, done.stdout) == (3, "error: why\n")
