"""Unpacks what people upload: .zip, .tar, .tar.gz. Nothing lands outside its folder, and nothing grows without end."""

import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from webapp.interfaces.imports.readers.rows import BadSource

ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz")
MAX_FILES = 200_000
MAX_RATIO = 200  # unpacked to packed, once there is more than FREE_BYTES
FREE_BYTES = 64 * 1024**2
MAX_DEPTH = 40
MAX_HEADER = 1024 * 1024
MAX_DIRECTORY = 20 * 1024 * 1024  # of a zip file: its list of files
MAX_TAIL = 128 * 1024  # of a zip file, in which its end is found: a comment of 64 kB may follow
UNSAID = 2**32 - 1  # stands in a place that is too small for the number
EXTENDED = (
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK
)  # fmt: skip
CHUNK = 1024 * 1024
Member = tuple[str, IO[bytes]]
BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError, RuntimeError)


def unpack(archive: Path, into: Path, *, max_bytes: int, max_files: int = MAX_FILES) -> None:
    """Unpack the files of an archive into a new folder. Links and devices are left out.

    Raises BadSource for a name that leads elsewhere, for what is broken, encrypted or too large once unpacked, and for
    two files of one name. What was unpacked until then stays in `into`.
    """
    into.mkdir(parents=True)
    limit = min(max_bytes, max(FREE_BYTES, archive.stat().st_size * MAX_RATIO))
    size = files = 0
    try:
        for name, content in _members(archive):
            files += 1
            if files > max_files:
                raise BadSource(archive.name, None, f"The archive has more than {max_files:,} files.")
            size += _copied(archive, into / _safe(archive, name), content, limit - size)
    except (*BROKEN, OSError, ValueError) as error:
        reason = f"The archive cannot be unpacked: {str(error)[:200] or type(error).__name__}."
        raise BadSource(archive.name, None, reason) from None
    if not files:
        raise BadSource(archive.name, None, "The archive has no files.")


def _members(archive: Path) -> Iterator[Member]:
    with archive.open("rb") as opened:
        is_zip = opened.read(2) == b"PK"
    return _of_zip(archive) if is_zip else _of_tar(archive)


class _Member(tarfile.TarInfo):
    """Refuses long headers, which would be held in memory as a whole."""

    def _proc_member(
        self, opened: tarfile.TarFile
    ) -> tarfile.TarInfo:  # the entry that tarfile has for subclasses
        if self.type in EXTENDED and self.size > MAX_HEADER:
            raise tarfile.HeaderError("a header is too long")
        return super()._proc_member(opened)  # type: ignore[misc]


def _check_directory(archive: Path) -> None:
    """Before zipfile reads the directory of the archive into memory as a whole. Raises BadSource."""
    with archive.open("rb") as opened:
        opened.seek(max(0, archive.stat().st_size - MAX_TAIL))
        tail = opened.read()
    last, wide = tail.rfind(b"PK\5\6"), tail.rfind(b"PK\6\6")
    sizes = [int.from_bytes(tail[last + 12 : last + 16], "little")] if last >= 0 else []
    sizes += [int.from_bytes(tail[wide + 40 : wide + 48], "little")] if wide >= 0 else []
    if any(size > MAX_DIRECTORY and size != UNSAID for size in sizes):
        raise BadSource(archive.name, None, "The archive has more files, or longer names, than can be read.")


def _of_zip(archive: Path) -> Iterator[Member]:
    _check_directory(archive)
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            if info.is_dir() or stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
                continue
            if info.flag_bits & 1:
                raise BadSource(archive.name, None, "The archive is encrypted.")
            with opened.open(info) as content:
                yield info.filename, content


def _of_tar(archive: Path) -> Iterator[Member]:
    with tarfile.open(archive, tarinfo=_Member) as opened:
        for info in opened:
            content = opened.extractfile(info) if info.isreg() else None
            if content is not None:
                yield info.name, content
            opened.members.clear()  # type: ignore[attr-defined]  # of 200,000 files: 100 MB


def _safe(archive: Path, name: str) -> Path:
    """The name as a path below a folder. Raises BadSource."""
    path = PurePosixPath(name)
    is_bad = path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or ":" in name[:2]
    if is_bad or not path.parts or len(path.parts) > MAX_DEPTH:
        raise BadSource(
            archive.name, None, f"A file in the archive has a name that leads elsewhere: {name[:100]!r}."
        )
    return Path(*path.parts)


def _copied(archive: Path, target: Path, content: IO[bytes], limit: int) -> int:
    """How many bytes. Raises BadSource."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        copy = target.open("xb")
    except FileExistsError:
        raise BadSource(
            archive.name, None, f"Two files in the archive are called {target.name[:100]}."
        ) from None
    size = 0
    with copy:
        while chunk := content.read(min(CHUNK, limit - size + 1)):
            size += len(chunk)
            if size > limit:
                raise BadSource(archive.name, None, "The archive is too large once it is unpacked.")
            copy.write(chunk)
    return size
