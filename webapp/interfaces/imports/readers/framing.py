"""Binary records with checksums: W&B's log and TensorFlow's record files.

Both give (ordinal from 1, bytes) of each record and end at a torn tail, which a crash leaves: then `torn()` is called.
A checksum that does not match raises BadSource.

Message types of other tools' files: only the fields that are read, made when the program starts.

Field numbers are those of W&B's `wandb_internal.proto` and of TensorFlow's `event.proto`, `summary.proto` and
`tensor.proto`. What a file holds beside them is skipped.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, BinaryIO

import google_crc32c
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

from webapp.interfaces.imports.readers.rows import BadSource

MAX_RECORD = 256 * 1024 * 1024
WANDB_HEADER = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
BLOCK = 32 * 1024
CHUNK = struct.Struct("<IHB")  # checksum, length, type
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
CRC_OF_TYPE = {kind: zlib.crc32(bytes([kind])) for kind in (FULL, FIRST, MIDDLE, LAST)}
Torn = Callable[[], None]
FIELD = descriptor_pb2.FieldDescriptorProto
KINDS = {
    "double": FIELD.TYPE_DOUBLE, "float": FIELD.TYPE_FLOAT, "int32": FIELD.TYPE_INT32, "int64": FIELD.TYPE_INT64,
    "sint64": FIELD.TYPE_SINT64, "bool": FIELD.TYPE_BOOL, "string": FIELD.TYPE_STRING, "bytes": FIELD.TYPE_BYTES,
}  # fmt: skip
# message -> field -> (number, kind), with * behind the kind of a repeated field, and ? behind one of a union
Fields = dict[str, tuple[int, str]]
WANDB: dict[str, Fields] = {
    "Item": {  # of a history, a configuration
        "key": (1, "string"), "nested_key": (2, "string*"), "boolean": (4, "bool?"), "integer": (5, "sint64?"),
        "number": (6, "double?"), "text": (7, "string?"), "json": (8, "string?"), "value_json": (16, "string"),
    },
    "Step": {"num": (1, "int64")},
    "History": {"item": (1, "Item*"), "step": (2, "Step")},
    "Config": {"update": (1, "Item*"), "remove": (2, "Item*")},
    "Run": {"run_id": (1, "string"), "project": (3, "string"), "config": (4, "Config"), "display_name": (8, "string")},
    "Exit": {"exit_code": (1, "int32")},
    "Record": {
        "num": (1, "int64"), "history": (2, "History?"), "config": (5, "Config?"), "run": (17, "Run?"),
        "exit": (18, "Exit?"),
    },
}  # fmt: skip
TENSORFLOW: dict[str, Fields] = {
    "Dim": {"size": (1, "int64")},
    "Shape": {"dim": (2, "Dim*")},
    "Tensor": {
        "dtype": (1, "int32"), "shape": (2, "Shape"), "content": (4, "bytes"), "float_val": (5, "float*"),
        "double_val": (6, "double*"), "int_val": (7, "int32*"), "int64_val": (10, "int64*"), "half_val": (13, "int32*"),
    },
    "PluginData": {"plugin_name": (1, "string")},
    "Metadata": {"plugin_data": (1, "PluginData")},
    "Value": {
        "tag": (1, "string"), "simple_value": (2, "float?"), "tensor": (8, "Tensor?"), "metadata": (9, "Metadata"),
    },
    "Summary": {"value": (1, "Value*")},
    "Event": {"wall_time": (1, "double"), "step": (2, "int64"), "summary": (5, "Summary?")},
}  # fmt: skip


def wandb_records(opened: BinaryIO, file: str, torn: Torn) -> Iterator[tuple[int, bytes]]:
    """Records of a `run-*.wandb` file: LevelDB's log format, blocks of 32 KiB, after a header of its own."""
    header = opened.read(len(WANDB_HEADER))
    if header != WANDB_HEADER:
        if WANDB_HEADER.startswith(header):
            return torn()
        raise BadSource(file, 1, "This is no file of W&B: its header is another one.")
    ordinal = 0
    try:
        for ordinal, data in enumerate(_joined(opened, torn), start=1):
            yield ordinal, data
    except Damaged as error:
        raise BadSource(file, ordinal + 1, f"This record is damaged: {error}.") from None


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
            raise Damaged(f"it is larger than {MAX_RECORD:,} bytes")
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
    for ordinal in count(1):
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


def messages(
    kind: Any, records: Iterator[tuple[int, bytes]], file: str, what: str
) -> Iterator[tuple[int, Any]]:
    """(ordinal, message). Raises BadSource for a record that is `what`."""
    for ordinal, data in records:
        message = kind()
        try:
            message.ParseFromString(data)
        except DecodeError:
            raise BadSource(file, ordinal, f"This record is {what}.") from None
        yield ordinal, message


def _masked(data: bytes) -> int:
    """CRC-32C as TensorFlow writes it: rotated, so that a checksum of checksums is none by chance."""
    checksum = google_crc32c.value(data)
    return (((checksum >> 15) | (checksum << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _made(package: str, messages: dict[str, Fields]) -> dict[str, type[Message]]:
    file = descriptor_pb2.FileDescriptorProto(
        name=f"headroom/{package}.proto", package=f"headroom.{package}", syntax="proto3"
    )
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            _add(message, package, field, number, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"headroom.{package}.{name}"))
        for name in messages
    }


def _add(message: Any, package: str, name: str, number: int, kind: str) -> None:
    plain = kind.rstrip("*?")
    label = FIELD.LABEL_REPEATED if kind.endswith("*") else FIELD.LABEL_OPTIONAL
    field = message.field.add(name=name, number=number, label=label)
    if plain in KINDS:
        field.type = KINDS[plain]
    else:
        field.type, field.type_name = FIELD.TYPE_MESSAGE, f".headroom.{package}.{plain}"
    if kind.endswith("?"):
        if not message.oneof_decl:
            message.oneof_decl.add(name="one")
        field.oneof_index = 0


WandbRecord: Any = _made("wandb", WANDB)["Record"]
Event: Any = _made("tensorflow", TENSORFLOW)["Event"]
