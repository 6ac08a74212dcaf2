"""Message types of other tools' files: only the fields that are read, made when the program starts.

Field numbers are those of W&B's `wandb_internal.proto` and of TensorFlow's `event.proto`, `summary.proto` and
`tensor.proto`. What a file holds beside them is skipped.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

__all__ = ["DecodeError", "Event", "WandbRecord"]

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
