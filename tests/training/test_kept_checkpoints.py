"""A run's checkpoints with and without a store."""

from pathlib import Path

import pytest

from tests.training.stores import names, opened, write
from training.checkpoint_store import URL, Store, StoreAway
from training.checkpoint_sync import KeptCheckpoints

TWO = ["step-00000005", "step-00000010"]


@pytest.fixture
def stored(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The variables of an empty store, set."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HEADROOM_RUN", "run-1")
    return environment


@pytest.fixture
def away(stored: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(store: Store) -> str:
        raise StoreAway("the checkpoint store is away")

    monkeypatch.setattr(Store, "writer", refuse)


def train(run_dir: Path, *steps: int) -> None:
    """An attempt from its beginning to its end."""
    kept = KeptCheckpoints(run_dir, 2, resumes=False)
    uploads = kept.begin(None)
    for step in steps:
        write(run_dir / "checkpoints", step, 2, uploads=uploads)
        if uploads:
            uploads.finish(30)
    kept.end(30)


def test_without_a_store_the_folder_is_all_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(URL, raising=False)
    train(tmp_path, 5, 10)

    resumed = KeptCheckpoints(tmp_path, 2, resumes=True)
    checkpoint = resumed.to_resume()

    assert checkpoint is not None and checkpoint.step == 10
    assert resumed.begin(checkpoint) is None
    resumed.end(0)
    assert names(tmp_path / "checkpoints") == TWO


def test_the_store_has_what_another_machine_goes_on_from(stored: dict[str, str], tmp_path: Path) -> None:
    train(tmp_path / "here", 5, 10)

    resumed = KeptCheckpoints(tmp_path / "there", 2, resumes=True)
    checkpoint = resumed.to_resume()

    assert checkpoint is not None and checkpoint.step == 10
    assert opened(stored).names() == TWO


def test_a_resume_offers_what_the_attempt_before_did_not_copy(stored: dict[str, str], tmp_path: Path) -> None:
    train(tmp_path, 5)
    write(tmp_path / "checkpoints", 10)

    resumed = KeptCheckpoints(tmp_path, 2, resumes=True)
    resumed.begin(resumed.to_resume())
    resumed.end(30)

    assert opened(stored).names() == TWO


def test_only_a_resume_has_to_reach_the_store(away: None, tmp_path: Path) -> None:
    with pytest.raises(StoreAway):
        KeptCheckpoints(tmp_path, 2, resumes=True)

    first = KeptCheckpoints(tmp_path, 2, resumes=False)
    assert first.begin(None) is not None
    first.end(0)
