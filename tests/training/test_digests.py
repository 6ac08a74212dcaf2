import json
from pathlib import Path

import pytest

from training.digests import DigestError, check_digests, digests_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "saved" / "deep").mkdir(parents=True)
    (tmp_path / "saved" / "deep" / "shard").write_bytes(b"weights")
    (tmp_path / "saved" / "empty").touch()
    (tmp_path / "digests").write_bytes(digests_of(tmp_path / "saved"))
    return tmp_path / "saved"


def test_what_was_written_passes_and_other_files_do_not_matter(folder: Path) -> None:
    (folder / "note").write_text("mine")

    check_digests(folder, folder.parent / "digests")


def test_each_difference_is_named(folder: Path) -> None:
    digests = folder.parent / "digests"
    (folder / "deep" / "shard").write_bytes(b"weight?")
    with pytest.raises(DigestError, match="deep/shard is damaged: its SHA-256"):
        check_digests(folder, digests)
    (folder / "deep" / "shard").write_bytes(b"weights+")
    with pytest.raises(DigestError, match="deep/shard is damaged: it has 8 bytes of 7"):
        check_digests(folder, digests)
    (folder / "deep" / "shard").unlink()
    with pytest.raises(DigestError, match="deep/shard is missing"):
        check_digests(folder, digests)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"files": {}}', b'{"files": {"a": 1}}', b'{"files": ["a"]}', b"\xff"]
)
def test_damaged_list_is_damage_too(folder: Path, content: bytes) -> None:
    (folder.parent / "digests").write_bytes(content)

    with pytest.raises(DigestError, match="digests is damaged: it lists no files"):
        check_digests(folder, folder.parent / "digests")


def test_file_that_cannot_be_read_is_not_called_damaged(folder: Path) -> None:
    """It may be readable again tomorrow: nothing may be set aside for it."""
    size = (folder / "deep").stat().st_size
    (folder.parent / "digests").write_text(json.dumps({"files": {"deep": [size, "0"]}}))

    with pytest.raises(OSError, match="deep"):
        check_digests(folder, folder.parent / "digests")
