"""Binary records with checksums: W&B's log and TensorFlow's record files.

Both give (ordinal from 1, bytes) of each record and end at a torn tail, which a crash leaves: then `torn()` is called.
A checksum that does not match raises BadSource.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

import google_crc32c

from webapp.interfaces.imports.readers.rows import BadSource

MAX_RECORD = 256 * 1024 * 1024
WANDB_HEADER = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
BLOCK = 32 * 1024
CHUNK = struct.Struct("<IHB")  # checksum, length, type
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
CRC_OF_TYPE = {kind: zlib.crc32(bytes([kind])) for kind in (FULL, FIRST, MIDDLE, LAST)}
Torn = Callable[[], None]


def wandb_records(opened: BinaryIO, file: str, torn: Torn) -> Iterator[tuple[int, bytes]]:
    """Records of a `run-*.wandb` file: LevelDB's log format, blocks of 32 KiB, after a header of its own."""
    header = opened.read(len(WANDB_HEADER))
    if header != WANDB_HEADER:
        if WANDB_HEADER.startswith(header):
            return torn()
        raise BadSource(file, 1, "This is no file of W&B: its header is another one.")
    ordinal = 1
    try:
        for data in _joined(opened, torn):
            yield ordinal, data
            ordinal += 1
    except Damaged as error:
        raise BadSource(file, ordinal, f"This record is damaged: {error}.") from None


class Damaged(Exception):
    """In what way."""


def _joined(opened: BinaryIO, torn: Torn) -> Iterator[bytes]:
    """Records whose parts are put together. Raises Damaged."""
    parts: list[bytes] = []
    size = 0
    for kind, data in _chunks(opened, torn):
        if (kind in (FULL, FIRST)) == bool(parts):
            raise Damaged("its parts do not follow one another")
        parts.append(data)
        size += len(data)
        if size > MAX_RECORD:
            raise Damaged(f"it is larger than {MAX_RECORD} bytes")
        if kind in (FULL, LAST):
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        torn()


def _chunks(opened: BinaryIO, torn: Torn) -> Iterator[tuple[int, bytes]]:
    """(type, data) of each part of a record. Raises Damaged."""
    position = len(WANDB_HEADER)
    while True:
        left = BLOCK - position % BLOCK
        if left < CHUNK.size:  # too little for another one: filled up
            position += len(opened.read(left))
            left = BLOCK
        header = opened.read(CHUNK.size)
        if not header:
            return
        if len(header) < CHUNK.size:
            return torn()
        checksum, length, kind = CHUNK.unpack(header)
        if header == bytes(CHUNK.size) and _is_zero(opened):
            return torn()
        if kind not in CRC_OF_TYPE or length > left - CHUNK.size:
            raise Damaged("its header cannot be right")
        data = opened.read(length)
        if len(data) < length:
            return torn()
        if zlib.crc32(data, CRC_OF_TYPE[kind]) != checksum:
            raise Damaged("its checksum does not match")
        position += CHUNK.size + length
        yield kind, data


def _is_zero(opened: BinaryIO) -> bool:
    """Whether nothing but zeros follows: space that was set aside and never written."""
    while part := opened.read(BLOCK):
        if part.strip(b"\0"):
            return False
    return True


def tf_records(opened: BinaryIO, file: str, torn: Torn) -> Iterator[tuple[int, bytes]]:
    """Records of TensorFlow's record files, of which TensorBoard's event files are some."""
    ordinal = 1
    while True:
        header = opened.read(12)
        if not header:
            return
        if len(header) < 12:
            return torn()
        length, checksum = struct.unpack("<QI", header)
        if header == bytes(12) and _is_zero(opened):
            return torn()
        if _masked(header[:8]) != checksum or length > MAX_RECORD:
            raise BadSource(file, ordinal, "This record is damaged: its length does not match its checksum.")
        data = opened.read(length + 4)
        if len(data) < length + 4:
            return torn()
        if _masked(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
            raise BadSource(file, ordinal, "This record is damaged: its checksum does not match.")
        yield ordinal, data[:-4]
        ordinal += 1


def _masked(data: bytes) -> int:
    """CRC-32C as TensorFlow writes it: rotated, so that a checksum of checksums is none by chance."""
    checksum = google_crc32c.value(data)
    return (((checksum >> 15) | (checksum << 17)) + 0xA282EAD8) & 0xFFFFFFFF
