"""Floating-point operations of a model, from its shape: the headers of its weights and its config.json. No torch.

Headers of safetensors files: which tensors of what size, without reading the weights.
"""

import json
import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
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
        if not (files := sorted(folder.glob("*.safetensors"))):
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
    return sum(map(math.prod, _all_shapes(folder).values()))


def _all_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    return {name: shape for file in weight_files(folder) for name, shape in tensor_shapes(file).items()}


@dataclass(frozen=True)
class Work:
    """Sequences that went through the model once. `squared_tokens` is the sum of their squared lengths."""

    tokens: int = 0
    squared_tokens: int = 0

    @classmethod
    def of(cls, lengths: Iterable[int]) -> "Work":
        """Work on sequences of these lengths, tokens."""
        sizes = [int(length) for length in lengths]
        return cls(sum(sizes), sum(size * size for size in sizes))

    def __mul__(self, times: int) -> "Work":
        return Work(times * self.tokens, times * self.squared_tokens)

    def __add__(self, other: "Work") -> "Work":
        return Work(self.tokens + other.tokens, self.squared_tokens + other.squared_tokens)


@dataclass(frozen=True)
class ModelShape:
    """What the operations of a decoder depend on.

    parameters: all of them, a tied head once. matrix_parameters: those that multiply a token's activations; the head
    counts, a looked-up embedding does not, and of a mixture of experts only the share that a token is sent to.
    attention_width: query heads x head size, summed over the layers.
    """

    parameters: int
    matrix_parameters: float
    attention_width: int

    @classmethod
    def of(cls, folder: Path) -> "ModelShape":
        """Of the model in a folder. Raises WeightsError, or ValueError where config.json lacks a size."""
        sizes = _all_shapes(folder)
        config = json.loads((folder / "config.json").read_text())
        config = config.get("text_config", config)
        try:
            heads, layers = int(config["num_attention_heads"]), int(config["num_hidden_layers"])
            head_size = config.get("head_dim") or int(config["hidden_size"]) // heads
        except KeyError as error:
            raise ValueError(f"{folder}/config.json does not say {error.args[0]}") from None
        experts = (
            config.get("num_experts") or config.get("num_local_experts") or config.get("n_routed_experts")
        )
        share = config.get("num_experts_per_tok", experts) / experts if experts else 1.0
        matrices = sum(_matrix_size(name, shape, share) for name, shape in sizes.items())
        if not any(name.endswith("lm_head.weight") for name in sizes):
            matrices += sum(math.prod(shape) for name, shape in sizes.items() if _is_embedding(name))
        return cls(sum(map(math.prod, sizes.values())), matrices, layers * heads * int(head_size))

    def forward_flops(self, work: Work) -> float:
        """Two operations per matrix parameter and token; causal attention: two products over half of L x L."""
        return 2.0 * self.matrix_parameters * work.tokens + 2.0 * self.attention_width * work.squared_tokens

    def training_flops(self, work: Work) -> float:
        """Forward and backward; recomputed activations are not counted."""
        return 3.0 * self.forward_flops(work)


def _is_embedding(name: str) -> bool:
    return name.endswith(("embed_tokens.weight", "wte.weight", "word_embeddings.weight"))


def _matrix_size(name: str, shape: tuple[int, ...], share_of_experts: float) -> float:
    if len(shape) < 2 or _is_embedding(name):
        return 0.0
    return math.prod(shape) * (share_of_experts if ".experts." in name else 1.0)
