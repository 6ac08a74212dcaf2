import stat

import pytest

from webapp.base.disk import sha256, writing


def test_a_file_is_there_when_it_is_whole_and_its_owners_alone(tmp_path):
    path = tmp_path / "backup.tar"
    with writing(path) as file:
        file.write(b"hello")
        assert not path.exists()

    assert path.read_bytes() == b"hello"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_leaves_nothing_and_the_file_of_before_as_it_was(tmp_path):
    path = tmp_path / "backup.tar"
    path.write_bytes(b"of before")

    with pytest.raises(ValueError, match="in the middle"), writing(path) as file:
        file.write(b"half of")
        raise ValueError("in the middle")

    assert path.read_bytes() == b"of before"
    assert list(tmp_path.iterdir()) == [path]


def test_the_checksum_is_that_of_the_standard(tmp_path):
    path = tmp_path / "abc"
    path.write_bytes(b"abc")

    assert (
        sha256(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )  # FIPS 180-2, B.1
