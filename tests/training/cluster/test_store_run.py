"""The command itself with an S3 for its checkpoints: the run folder is gone, as on another machine, and it goes on."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.training.cluster.test_kill import Run
from tests.training.stores import give_credentials, make_bucket
from training.checkpoint_store import ENDPOINT, URL

pytestmark = [pytest.mark.deep, pytest.mark.ray, pytest.mark.timeout(600)]
WHOLE_RUN_SECONDS = 240.0
BUCKET = "store-of-runs"


def ends(run: Run) -> int:
    """Its exit status."""
    return run.process.wait(timeout=WHOLE_RUN_SECONDS)


@pytest.fixture(scope="module")
def first(s3: str, toy_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A run of three steps that has ended, with its checkpoints in the store that all runs use meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        give_credentials(patch)
        make_bucket(s3, BUCKET)
        patch.setenv(URL, f"s3://{BUCKET}/runs")
        patch.setenv(ENDPOINT, s3)
        with Run(tmp_path_factory.mktemp("store") / "run", toy_model, steps=3, toys=True) as run:
            assert ends(run) == 0, run.output.read_text()
        yield run


def test_a_run_goes_on_where_its_folder_is_not(first: Run, toy_model: Path) -> None:
    said = first.output.read_text()
    assert "step-00000002 is in the checkpoint store" in said and "step-00000003 is in the" in said
    assert "a-secret-of-the-test" not in said
    used = [record["compute"]["flops"] for record in first.records()]
    shutil.rmtree(first.folder)

    with Run(first.folder, toy_model, steps=5, resume=True, toys=True) as second:
        assert ends(second) == 0, second.output.read_text()

    assert (
        f"step-00000003 comes from the checkpoint store s3://{BUCKET}/runs/run" in second.output.read_text()
    )
    trained = [record for record in second.records() if "train/reward" in record["metrics"]]
    assert [record["step"] for record in trained] == [4, 5]
    used += [record["compute"]["flops"] for record in second.records()]
    assert used == sorted(used) and used[-1] > used[1] > used[0] == 0
    summary = json.loads((second.folder / "summary.json").read_text())
    assert (summary["state"], summary["step"]) == ("succeeded", 5)


def test_a_new_run_of_the_same_name_is_refused(first: Run, toy_model: Path, tmp_path: Path) -> None:
    with Run(tmp_path / "run", toy_model, steps=2, toys=True) as another:
        assert ends(another) == 1
    last = another.output.read_text().splitlines()[-1]
    assert last.startswith(f"error: s3://{BUCKET}/runs/run holds checkpoints of a run already; use --resume")
