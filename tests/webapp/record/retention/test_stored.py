"""What the clean-up takes away goes from the checkpoint store, too, and from nowhere else."""

from pathlib import Path

import pytest

from tests.webapp.record.retention.conftest import grow_old, steps_of
from training.checkpoint_store import ENDPOINT, URL, Store, StoreAway, open_store
from webapp.record.retention import folders
from webapp.record.retention.services import clean_up
from webapp.record.runs import launch
from webapp.record.runs.models import Run

pytestmark = pytest.mark.django_db


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """stored(run): its place in the store, with a copy of each checkpoint of its folder."""
    (tmp_path / "mounted").mkdir()
    monkeypatch.setenv(URL, f"file://{tmp_path / 'mounted'}")
    monkeypatch.delenv(ENDPOINT, raising=False)

    def copy(run: Run) -> Store:
        for kept in folders.checkpoints_of(run.pk):
            place = Path(tmp_path / "mounted" / run.pk / kept.folder.name)
            place.mkdir(parents=True)
            (place / "weights").write_text("w")
            marker = f"digests of {kept.folder.name}"
            (kept.folder / "COMPLETE").write_text(marker)
            (place / "COMPLETE").write_text(marker)
        store = open_store(run.pk)
        assert store is not None
        return store

    return copy


def test_copies_go_with_what_they_are_copies_of(ended_run, policy, stored, tmp_path):
    run = ended_run(days=2, steps=(5, 10, 15, 20))
    store = stored(run)

    assert clean_up() == 2

    assert steps_of(run) == [15, 20]
    assert store.names() == ["step-00000015", "step-00000020"]
    assert sorted(p.name for p in (tmp_path / "mounted" / run.pk).iterdir()) == store.names()
    assert list(folders.taken_away()) == []


def test_a_store_that_is_away_costs_no_room_and_is_asked_again(ended_run, policy, stored, monkeypatch):
    run = ended_run(days=2, steps=(5, 10, 15, 20))
    store = stored(run)

    def away(self, name):
        raise StoreAway("the store does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(Store, "remove", away)
        assert clean_up() == 2
    left = list(folders.taken_away())
    assert len(left) == 2 and sum(folders.size_of(folder) for folder in left) < 100
    assert len(store.names()) == 4

    clean_up()
    assert store.names() == ["step-00000015", "step-00000020"] and list(folders.taken_away()) == []


def test_a_run_that_goes_on_loses_no_copy(ended_run, policy, stored, monkeypatch):
    run = ended_run(days=2, steps=(5, 10, 15))
    store = stored(run)
    with monkeypatch.context() as broken:
        broken.setattr("webapp.record.retention.folders.remove_copy", lambda folder: False)
        clean_up()
    launch.resume_run(run, user=None)

    clean_up()

    assert store.names() == ["step-00000005", "step-00000010", "step-00000015"]
    assert list(folders.taken_away()) == []


def test_another_checkpoint_of_the_same_name_stays(ended_run, policy, stored, tmp_path):
    run = ended_run(days=2, steps=(5, 10, 15))
    store = stored(run)
    (tmp_path / "mounted" / run.pk / "step-00000005" / "COMPLETE").write_text("digests of another attempt's")

    clean_up()

    assert "step-00000005" in store.names() and steps_of(run) == [10, 15]


def test_stale_ones_are_left_overs(ended_run, policy):
    run = ended_run(days=2, steps=(5,))
    (folders.runs_folder() / run.pk / "checkpoints" / "stale-step-00000003").mkdir()
    grow_old(run.pk, 2)
    assert clean_up() == 1
    assert steps_of(run) == [5]
