"""One checkpoint of a run in a store, wherever that is."""

import json
from pathlib import Path

import pytest

from tests.training.stores import RUN, copy, damage, opened, write
from training.checkpoint_store import ENDPOINT, URL, Store, StoreAway, StoreRefused, open_store
from training.checkpoints import CheckpointError
from training.digests import DigestError


class Died(BaseException):
    """The process was killed here."""


def test_what_is_uploaded_comes_back_byte_for_byte(store: Store, tmp_path: Path) -> None:
    folder = write(tmp_path / "here", 5)
    copy(store, folder)

    store.download(folder.name, tmp_path / "there")

    for file in ("trainer/deep/shard", "driver.json", "samples.npz", "COMPLETE"):
        assert (tmp_path / "there" / file).read_bytes() == (folder / file).read_bytes()
    assert store.names() == [folder.name]


def test_wherever_the_process_dies_there_is_no_half_checkpoint(store: Store, tmp_path: Path) -> None:
    old, new = write(tmp_path / "here", 5), write(tmp_path / "here", 6)
    copy(store, old)
    calls: list[str] = []
    for at in range(1, 6):  # before the first of four files ... before the marker
        calls.clear()

        def die(at: int = at) -> None:
            calls.append("file")
            if len(calls) == at:
                raise Died

        with pytest.raises(Died):
            copy(store, new, die)
        assert store.names() == [old.name]

    copy(store, new)
    assert store.names() == [old.name, new.name]
    store.download(new.name, tmp_path / "there")


def test_another_checkpoint_of_the_same_name_replaces_the_one_that_is_there(
    store: Store, tmp_path: Path
) -> None:
    copy(store, write(tmp_path / "one", 5, text="of one"))
    copy(store, write(tmp_path / "two", 5, text="of another"))

    store.download("step-00000005", tmp_path / "there")

    assert (tmp_path / "there/trainer/deep/shard").read_text() == "of another"


@pytest.mark.parametrize("how", ["changed", "gone"])
def test_damage_in_the_store_is_found_and_named(store: Store, tmp_path: Path, how: str) -> None:
    folder = write(tmp_path / "here", 5)
    copy(store, folder)
    damage(store, folder.name, how)

    with pytest.raises(DigestError, match="trainer/deep/shard is (damaged|missing)"):
        store.download(folder.name, tmp_path / "there")


def test_a_damaged_folder_is_not_uploaded(store: Store, tmp_path: Path) -> None:
    folder = write(tmp_path / "here", 5)
    (folder / "samples.npz").write_bytes(b"tokenz")

    with pytest.raises(CheckpointError, match=r"samples.npz is damaged: .*; it is not copied to the store"):
        copy(store, folder)
    assert store.names() == []


def test_a_marker_that_leads_out_of_the_folder_is_refused(store: Store, tmp_path: Path) -> None:
    marker = json.dumps({"files": {"../../outside": [1, "00"]}}).encode()
    store._write(marker, "step-00000005", "COMPLETE")

    with pytest.raises(DigestError, match="lies outside of it"):
        store.download("step-00000005", tmp_path / "deep" / "there")


def test_a_resume_does_not_take_an_older_one_because_the_store_is_away(tmp_path: Path, s3: str) -> None:
    store = opened({URL: "s3://lab/x", ENDPOINT: "http://127.0.0.1:9"})
    write(tmp_path, 5)

    with pytest.raises(
        (StoreAway, StoreRefused), match=r"the checkpoint store s3://lab/x/run-1 cannot be read"
    ):
        store.writer()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("/mnt/nfs", "is no address"),
        ("s3://somebody:a-secret@bucket/x", "holds credentials or options"),
        ("s4://bucket/x", "begins with s4://, which cannot be used"),
        ("file:///no/such/folder", "the folder /no/such/folder does not exist here; is it mounted"),
        ("gs://bucket/x", "cannot be used: the package gcsfs is not installed here"),
    ],
)
def test_an_address_that_cannot_be_used_is_named_without_secrets(url: str, reason: str) -> None:
    with pytest.raises(StoreRefused, match=f"HEADROOM_CHECKPOINTS_URL.*{reason}") as error:
        open_store(RUN, {URL: url})
    assert "a-secret" not in str(error.value)


def test_without_the_variable_there_is_no_store() -> None:
    assert open_store(RUN, {}) is None
