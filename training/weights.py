"""Headers of safetensors files: which tensors of what size, without reading the weights."""

import json
import math
import struct
from pathlib import Path
from typing import Any

INDEX = "model.safetensors.index.json"
MAX_HEADER_BYTES = 100_000_000


class WeightsError(ValueError):
    """Weights that are missing or incomplete."""


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files that hold the model: those of the index, else all. WeightsError where one is missing."""
    index = folder / INDEX
    if not index.is_file():
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise WeightsError("has no weights (*.safetensors)")
        return files
    try:
        names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        raise WeightsError(f"has an {INDEX} that cannot be read") from None
    for name in names:
        if not (folder / name).is_file():
            raise WeightsError(f"lacks {name}, which {INDEX} names")
    return [folder / name for name in names]


def tensor_shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """Tensor -> shape. WeightsError for a file that is cut off or no safetensors."""
    broken = WeightsError(f"has a {file.name} that is cut off or no safetensors")
    try:
        with file.open("rb") as content:
            (length,) = struct.unpack("<Q", content.read(8))
            if length > MAX_HEADER_BYTES:
                raise broken
            header: dict[str, Any] = json.loads(content.read(length))
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        end = max((entry["data_offsets"][1] for entry in tensors.values()), default=0)
        if file.stat().st_size < 8 + length + end:
            raise broken
        return {name: tuple(entry["shape"]) for name, entry in tensors.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error):
        raise broken from None


def count_parameters(folder: Path) -> int:
    """Parameters in all weights; WeightsError where they are missing or incomplete."""
    shapes: dict[str, tuple[int, ...]] = {}
    for file in weight_files(folder):
        shapes |= tensor_shapes(file)
    return sum(math.prod(shape) for shape in shapes.values())
