"""Attempts on several machines with one store, and a store that fails."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.training.stores import SECONDS, damage, give_credentials, names, opened, write
from training.checkpoint_store import ENDPOINT, URL, Store, StoreAway, StoreRefused
from training.checkpoint_sync import UNKNOWN, Superseded, Uploads, resume_with_store
from training.checkpoints import Checkpoint, CheckpointError


class Machine:
    """An attempt of the run on a machine of its own, or on one where there was one before."""

    def __init__(self, environment: dict[str, str], root: Path, *, resume: bool = True) -> None:
        self.store, self.root = opened(environment), root
        found = self.store.writer()
        self.checkpoint: Checkpoint | None = None
        if resume:
            self.checkpoint = resume_with_store(self.store, root, found)
        self.uploads = Uploads(self.store, root, 2, resumes=resume, found=found, wait_seconds=0.01)
        self.uploads.begin()

    @property
    def step(self) -> int:
        assert self.checkpoint is not None
        return self.checkpoint.step

    def train_to(self, *steps: int, text: str = "") -> None:
        for step in steps:
            write(self.root, step, 2, text, self.uploads)
            assert self.uploads.finish(SECONDS)


def test_a_resume_on_another_machine_takes_the_newest(everywhere: dict[str, str], tmp_path: Path) -> None:
    environment = everywhere
    Machine(environment, tmp_path / "a", resume=False).train_to(5, 10, 15)

    second = Machine(environment, tmp_path / "b")

    assert second.step == 15
    assert (second.root / "step-00000015/trainer/deep/shard").read_text() == "weights of 15"
    assert opened(environment).names() == ["step-00000010", "step-00000015"], "two are kept, as in the folder"


def test_damaged_ones_in_the_store_are_set_aside_for_the_one_before(
    environment: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Machine(environment, tmp_path / "a", resume=False).train_to(5, 10)
    store = opened(environment)
    damage(store, "step-00000010")

    assert Machine(environment, tmp_path / "b").step == 5
    assert "step-00000010/trainer/deep/shard is damaged" in caplog.text
    assert store.names() == ["step-00000005"] and names(tmp_path / "b") == ["step-00000005"]


def test_where_all_are_damaged_nothing_is_moved(environment: dict[str, str], tmp_path: Path) -> None:
    Machine(environment, tmp_path / "a", resume=False).train_to(5, 10)
    store = opened(environment)
    for name in store.names():
        damage(store, name, "gone")

    with pytest.raises(
        CheckpointError, match=r"no checkpoint in .* is whole: .*step-00000010.*step-00000005"
    ):
        Machine(environment, tmp_path / "b")
    assert store.names() == ["step-00000005", "step-00000010"]


def test_what_is_damaged_in_the_folder_comes_from_the_store(
    environment: dict[str, str], tmp_path: Path
) -> None:
    first = Machine(environment, tmp_path / "a", resume=False)
    first.train_to(5, 10)
    (first.root / "step-00000010" / "samples.npz").write_bytes(b"")

    second = Machine(environment, first.root)

    assert second.step == 10
    assert (first.root / "step-00000010" / "samples.npz").read_bytes() == b"tokens"
    assert "damaged-step-00000010" in names(first.root)


def test_on_the_same_machine_what_was_not_copied_counts(environment: dict[str, str], tmp_path: Path) -> None:
    Machine(environment, tmp_path / "a", resume=False).train_to(5)
    write(tmp_path / "a", 10)  # and then the process died

    second = Machine(environment, tmp_path / "a")

    assert second.step == 10 and second.checkpoint is not None
    second.uploads.offer(second.checkpoint.folder)
    assert second.uploads.finish(SECONDS)
    assert opened(environment).names() == ["step-00000005", "step-00000010"]


def test_a_machine_that_comes_back_does_not_go_on_with_its_own_past(
    environment: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """a trains to 5, and to 20 without the store; b goes on from 5 to 10; a must go on from b's 10."""
    Machine(environment, tmp_path / "a", resume=False).train_to(5)
    write(tmp_path / "a", 10, text="of the first attempt")
    write(tmp_path / "a", 20)
    Machine(environment, tmp_path / "b").train_to(10, text="of the second attempt")

    third = Machine(environment, tmp_path / "a")

    assert third.step == 10
    assert (third.root / "step-00000010/trainer/deep/shard").read_text() == "of the second attempt"
    assert names(third.root) == [
        "stale-step-00000010", "stale-step-00000020", "step-00000005", "step-00000010",
    ]  # fmt: skip
    assert "went on without" in caplog.text


def test_an_attempt_that_is_no_longer_the_last_one_stops_copying(
    environment: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost = Machine(environment, tmp_path / "a", resume=False)
    lost.train_to(5)
    second = Machine(environment, tmp_path / "b")
    lost.train_to(50)
    second.train_to(10)
    lost.train_to(60)

    assert opened(environment).names() == ["step-00000005", "step-00000010"]
    assert "another attempt has claimed" in caplog.text
    assert "checkpoints of this attempt are no longer copied" in caplog.text


def test_a_new_run_does_not_write_into_the_place_of_another(
    environment: dict[str, str], tmp_path: Path
) -> None:
    Machine(environment, tmp_path / "a", resume=False).train_to(5)

    with pytest.raises(Superseded, match="holds checkpoints of a run already; use --resume"):
        Machine(environment, tmp_path / "b", resume=False)


def test_without_any_checkpoint_a_resume_begins_anew(environment: dict[str, str], tmp_path: Path) -> None:
    assert Machine(environment, tmp_path / "a").checkpoint is None


class Failing(Store):
    """The n-th and following files are not taken, until it is mended."""

    def __init__(self, store: Store, error: Exception, begin: int = 0) -> None:
        super().__init__(store._files, store._place, store.words)
        self._left, self.error, self.tries = begin, error, 0
        put = store._files.put_file
        self._files = SimpleNamespace(put_file=self._put)  # the rest: as before
        self._real, self._real_put = store._files, put
        for name in ("size", "pipe_file", "cat_file", "exists", "ls", "rm", "invalidate_cache"):
            setattr(self._files, name, getattr(store._files, name))

    def _put(self, here: str, there: str) -> None:
        self._left -= 1
        if self._left < 0 and self.error is not None:
            self.tries += 1
            raise self.error
        self._real_put(here, there)


@pytest.fixture
def in_memory(tmp_path: Path) -> dict[str, str]:
    return {URL: f"memory://failing-{tmp_path.name}"}


def uploads_to(store: Store, root: Path, **options: Any) -> Uploads:
    uploads = Uploads(store, root, 2, resumes=False, found=None, wait_seconds=0.01, **options)
    uploads.begin()
    return uploads


def test_a_failed_copy_is_tried_again_and_said_once(
    in_memory: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Twice(Failing):
        def _put(self, here: str, there: str) -> None:
            if self.tries == 2:
                self._left = 99
            super()._put(here, there)

    store = Twice(opened(in_memory), ConnectionError("reset by peer"), begin=1)
    uploads = uploads_to(store, tmp_path)
    write(tmp_path, 5, uploads=uploads)

    assert uploads.finish(SECONDS)
    assert store.names() == ["step-00000005"] and store.tries == 2
    assert caplog.text.count("step-00000005 is not copied yet, and tried again: ") == 1
    assert "ConnectionError: reset by peer" in caplog.text


def test_a_newer_checkpoint_takes_the_turn_of_one_that_fails(
    in_memory: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class FirstOnly(Failing):
        def _put(self, here: str, there: str) -> None:
            self._left = -1 if "step-00000005" in here else 99
            super()._put(here, there)

    store = FirstOnly(opened(in_memory), ConnectionError("reset by peer"))
    uploads = uploads_to(store, tmp_path)
    write(tmp_path, 5, uploads=uploads)
    write(tmp_path, 10, uploads=uploads)

    assert uploads.finish(SECONDS)
    assert store.names() == ["step-00000010"]
    assert "step-00000005 was not copied to the checkpoint store" in caplog.text


def test_what_is_still_to_be_copied_is_not_removed(in_memory: dict[str, str], tmp_path: Path) -> None:
    store = Failing(opened(in_memory), ConnectionError("away"))
    uploads = Uploads(
        store, tmp_path, 1, resumes=False, found=None
    )  # its thread is not there: nothing is copied
    for step in (5, 10, 15):
        write(tmp_path, step, keep=1, uploads=uploads)

    assert names(tmp_path) == ["step-00000010", "step-00000015"], "10 was waiting when 15 was written"
    assert uploads.held() == [tmp_path / "step-00000015"]
    assert not uploads.finish(0)


def test_a_store_that_is_away_at_the_start_stops_no_training(
    in_memory: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Away(Store):
        is_away = True

        def writer(self) -> str | None:
            if self.is_away:
                raise StoreAway("the store does not answer")
            return super().writer()

    real = opened(in_memory)
    store = Away(real._files, real._place, real.words)
    uploads = Uploads(store, tmp_path, 2, resumes=False, found=UNKNOWN, wait_seconds=0.01)
    uploads.begin()
    assert "the run begins, and checkpoints are copied once it answers" in caplog.text
    write(tmp_path, 5, uploads=uploads)
    store.is_away = False

    assert uploads.finish(SECONDS)
    assert store.names() == ["step-00000005"]


def test_a_bucket_that_is_not_there_is_said_before_training(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    give_credentials(monkeypatch)
    store = opened({URL: "s3://no-such-bucket/x", ENDPOINT: s3})
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises(
            StoreRefused, match=r"the checkpoint store s3://no-such-bucket/x/run-1 cannot be written"
        ),
    ):
        uploads_to(store, tmp_path)
    assert "a-secret-of-the-test" not in caplog.text
