import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub_server import HubHandler, nobodys_address, serving
from training.data import DataError
from training.data.files import read_rows
from training.data.hub import Location, fetch

TRAIN = Location("owner/sums", "main")
BRANCH = "refs/convert/parquet"
ROW = b'{"question": "1+1?"}\n'
# On the Parquet branch, although these are JSONL: what is inside is no concern of the download.
FILES = {
    (BRANCH, "main/train/0000.parquet"): ROW,
    (BRANCH, "main/train/0001.parquet"): ROW,
    (BRANCH, "main/test/0000.parquet"): ROW,
    (BRANCH, "big/partial-train/0000.parquet"): ROW,
    ("main", "test1.jsonl"): ROW,
    ("main", "README.md"): b"",
}


class Hub(HubHandler):
    """As much of the hub's API as listing and downloading data sets need."""

    answers_at_once = threading.Event()

    def answer(self, path: str) -> None:
        self.answers_at_once.wait(10)
        for revision in (BRANCH, "main"):
            if path == f"/api/datasets/owner/sums/tree/{revision}":
                names = [name for at, name in FILES if at == revision]
                files = [{"type": "file", "path": name, "size": 1, "oid": "0"} for name in names]
                return self.send(200, json.dumps(files).encode())
            name = path.removeprefix(f"/datasets/owner/sums/resolve/{revision}/")
            if (revision, name) in FILES:
                return self.send_file(FILES[revision, name], "0" * 40)


@pytest.fixture
def hub() -> Iterator[str]:
    """Address of a hub that answers."""
    Hub.answers_at_once.set()
    with serving(Hub) as address:
        yield address
        Hub.answers_at_once.set()


@pytest.fixture
def nobody() -> str:
    return nobodys_address()


def test_split_is_downloaded_once(hub: str, nobody: str, tmp_path: Path) -> None:
    folder = fetch(TRAIN, tmp_path, seconds=30, endpoint=hub)

    assert folder == tmp_path / "data" / "hub" / "owner--sums" / "main" / "train"
    assert sorted(file.name for file in folder.iterdir()) == ["0000.parquet", "0001.parquet"]
    assert {path.name for path in folder.parent.iterdir()} == {"train", ".train.lock"}  # nothing half-made
    assert fetch(TRAIN, tmp_path, seconds=30, endpoint=nobody) == folder


def test_files_by_name_and_partly_converted_splits(hub: str, tmp_path: Path) -> None:
    named = fetch(
        Location("owner/sums", split="test", files="test*.jsonl"), tmp_path, seconds=30, endpoint=hub
    )
    partial = fetch(Location("owner/sums", "big"), tmp_path, seconds=30, endpoint=hub)

    assert [row.text("question") for row in read_rows(named)] == ["1+1?"]
    assert [file.name for file in partial.iterdir()] == ["0000.parquet"]


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        (Location("owner/nothing"), "owner/nothing (config default, split train): http://127.0.0.1"),
        (Location("owner/sums", "other"), "has no such config or split of owner/sums"),
    ],
)
def test_unknown_data_set(hub: str, tmp_path: Path, location: Location, reason: str) -> None:
    with pytest.raises(DataError) as caught:
        fetch(location, tmp_path, seconds=30, endpoint=hub)
    assert reason in str(caught.value)
    assert "put its" in str(caught.value)


def test_unreachable_hub_says_what_to_do_and_soon(nobody: str, tmp_path: Path) -> None:
    began = time.monotonic()

    with pytest.raises(DataError) as caught:
        fetch(TRAIN, tmp_path, seconds=30, endpoint=nobody)

    assert time.monotonic() - began < 15
    message = str(caught.value)
    assert f"owner/sums (config main, split train): {nobody} cannot be reached" in message
    assert f"files into {TRAIN.folder(tmp_path)}" in message
    assert f"any file under {tmp_path / 'data'} and give the option path" in message


def test_offline_mode_is_not_tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    with pytest.raises(DataError, match="HF_HUB_OFFLINE is set"):
        fetch(TRAIN, tmp_path, seconds=30)


def test_slow_download_goes_on_in_the_background(hub: str, tmp_path: Path) -> None:
    Hub.answers_at_once.clear()
    with pytest.raises(DataError, match="still being downloaded after 0.05 s; try again"):
        fetch(TRAIN, tmp_path, seconds=0.05, endpoint=hub)
    Hub.answers_at_once.set()

    assert fetch(TRAIN, tmp_path, seconds=30, endpoint=hub).is_dir()


def test_files_put_there_by_hand_are_used(nobody: str, tmp_path: Path) -> None:
    folder = TRAIN.folder(tmp_path)
    folder.mkdir(parents=True)

    assert fetch(TRAIN, tmp_path, seconds=30, endpoint=nobody) == folder
