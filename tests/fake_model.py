"""A model folder as far as a launch looks at it."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def make_model(home: Path, name: str, context: int, config: Mapping[str, Any] | None = None) -> Path:
    """`home`/models/`name` with configuration, an empty tokenizer, and weights of 6 parameters."""
    folder = home / "models" / name
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "model_type": "qwen2",
        "max_position_embeddings": context,
        "eos_token_id": 1,
        **(config or {}),
    }
    (folder / "config.json").write_text(json.dumps(content))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(safetensors({"w": [2, 3]}))
    return folder


def safetensors(shapes: Mapping[str, list[int]]) -> bytes:
    """A file of zeros in bfloat16."""
    header, end = {}, 0
    for name, shape in shapes.items():
        size = 2
        for length in shape:
            size *= length
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(end)
