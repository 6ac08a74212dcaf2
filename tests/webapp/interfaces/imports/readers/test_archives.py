"""Archives that people upload: nothing lands outside, and nothing grows without end."""

import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from webapp.interfaces.imports.readers.archives import unpack
from webapp.interfaces.imports.readers.rows import BadSource


def zip_of(path: Path, files: dict[str, bytes], **how: int) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = how.get("mode", 0o644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            opened.writestr(info, content)
    return path


def tar_of(path: Path, files: dict[str, bytes], kind: bytes = tarfile.REGTYPE) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as opened:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname = len(content), kind, "/etc/passwd"
            opened.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture(params=["a.zip", "a.tar", "a.tar.gz"])
def make(request: pytest.FixtureRequest, tmp_path: Path):
    of = zip_of if request.param.endswith(".zip") else tar_of
    return lambda files: of(tmp_path / request.param, files)


def unpacked(archive: Path, into: Path, max_bytes: int = 20 * 1024**3, **limits: int) -> Path:
    unpack(archive, into, max_bytes=max_bytes, **limits)
    return into


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_files_come_out(make, tmp_path: Path) -> None:
    files = {"run/a.txt": b"one", "run/deep/b.bin": bytes(range(256)) * 1000}
    assert files_in(unpacked(make(files), tmp_path / "out")) == files


@pytest.mark.parametrize("name", ["../up", "a/../../up", "/abs", "C:/x", "a\\..\\b", "/".join("x" * 50)])
def test_a_name_that_leads_elsewhere_is_refused(make, tmp_path: Path, name: str) -> None:
    with pytest.raises(BadSource, match="leads elsewhere"):
        unpacked(make({name: b"x"}), tmp_path / "in" / "out")
    assert set(os.listdir(tmp_path)) == {"in", next(path.name for path in tmp_path.glob("a.*"))}


def test_two_files_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as opened:
        for _ in range(2):
            opened.addfile(tarfile.TarInfo("same"), io.BytesIO())
    with pytest.raises(BadSource, match="Two files"):
        unpacked(path, tmp_path / "out")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_left_out(tmp_path: Path, kind: bytes) -> None:
    path = tar_of(tmp_path / "a.tar", {"link": b""}, kind)
    with pytest.raises(BadSource, match="no files"):
        unpacked(path, tmp_path / "out")
    assert not any((tmp_path / "out").iterdir())


def test_links_in_a_zip_are_left_out(tmp_path: Path) -> None:
    with pytest.raises(BadSource, match="no files"):
        unpacked(zip_of(tmp_path / "a.zip", {"link": b"/etc/passwd"}, mode=0o120777), tmp_path / "out")


@pytest.mark.parametrize(("of", "name"), [(zip_of, "a.zip"), (tar_of, "a.tar.gz")])
def test_a_bomb_is_stopped(of, name: str, tmp_path: Path) -> None:
    with pytest.raises(BadSource, match="too large"):
        unpacked(of(tmp_path / name, {"zeros": bytes(100 * 1024 * 1024)}), tmp_path / "out")
    assert sum(path.stat().st_size for path in (tmp_path / "out").rglob("*")) <= 64 * 1024 * 1024


def test_a_tar_whose_header_does_not_end(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as opened:
        info = tarfile.TarInfo("a")
        info.pax_headers = {"comment": "x" * 2_000_000}
        opened.addfile(info)
    with pytest.raises(BadSource, match="header is too long"):
        unpacked(path, tmp_path / "out")


def test_a_zip_inside_of_a_tar_stays_one(tmp_path: Path) -> None:
    inner = zip_of(tmp_path / "inner.zip", {"b": b"x"}).read_bytes()
    assert files_in(unpacked(tar_of(tmp_path / "a.tar", {"inner.zip": inner}), tmp_path / "out")) == {
        "inner.zip": inner
    }


def test_limits(make, tmp_path: Path) -> None:
    archive = make({"a": b"12345", "b": b"12345"})
    with pytest.raises(BadSource, match="too large"):
        unpacked(archive, tmp_path / "one", max_bytes=9)
    with pytest.raises(BadSource, match="more than 1 files"):
        unpacked(archive, tmp_path / "two", max_files=1)
    assert len(files_in(unpacked(archive, tmp_path / "three", max_bytes=10, max_files=2))) == 2


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04" + b"x" * 100, b"\x1f\x8b" + b"x" * 100, b"text"])
def test_what_is_no_archive(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(content)
    with pytest.raises(BadSource):
        unpacked(path, tmp_path / "out")


def test_a_torn_archive(make, tmp_path: Path) -> None:
    path = make({"a": os.urandom(50_000)})
    path.write_bytes(path.read_bytes()[:30_000])
    with pytest.raises(BadSource, match="cannot be unpacked"):
        unpacked(path, tmp_path / "out")
