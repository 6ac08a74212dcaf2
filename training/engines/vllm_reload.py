"""New weights for a small vLLM model on a CPU, without most of what vLLM's own reload does around it.

vLLM's `reload_weights` moves every layer to the meta device and back and loads each tensor twice, to count its
elements: for a tiny model that is most of the time. Here the packed layers get a plain weight again, vLLM's loaders
fill it, and vLLM packs it anew. Only for plain layers, and only for tensors of the same names and shapes as those that
`reload_weights` itself has counted and found complete before; anything else goes to it.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

MAX_BYTES = 256 << 20  # of weights that lie packed and unpacked in memory at the same time
PLAIN = ("UnquantizedLinearMethod", "UnquantizedEmbeddingMethod")

Signature = tuple[tuple[str, torch.dtype, torch.Size], ...]


def signature(named: Sequence[tuple[str, Tensor]]) -> Signature:
    """What has to be equal for two sets of weights to be loaded alike."""
    return tuple((name, tensor.dtype, tensor.shape) for name, tensor in named)


class SmallModel:
    """A model whose layers can be loaded in place."""

    def __init__(self, model: Any, layers: list[tuple[Any, Tensor | None]]) -> None:
        self._model, self._layers = model, layers

    @classmethod
    def of(cls, model: Any) -> "SmallModel | None":
        """None where vLLM's own reload is needed: a GPU, quantised or large layers, or what is not known here."""
        layers = []
        for layer in model.modules():
            if (method := getattr(layer, "quant_method", None)) is None:
                continue
            if type(method).__name__ not in PLAIN or not hasattr(layer, "cpu_linear"):
                return None
            weight = layer.weight
            shape = None if weight.numel() else _plain_weight(layer)  # empty: it lies packed, out of sight
            if not weight.numel() and (shape is None or shape.ndim != 2):
                return None
            layers.append((layer, shape))
        size = sum(weight.nbytes for _, weight in layers if weight is not None)
        return cls(model, layers) if 0 < size <= MAX_BYTES else None

    @torch.no_grad()
    def load(self, named: Sequence[tuple[str, Tensor]]) -> None:
        """Load all weights. Raises RuntimeError where one of the model's tensors got nothing."""
        for layer, weight in self._layers:
            if weight is not None:
                layer.register_parameter("weight", _fresh(weight, layer))
        expected = {name for name, _ in self._model.named_parameters()}
        if missing := expected - (self._model.load_weights(iter(named)) or expected):
            raise RuntimeError(f"no weights came for {', '.join(sorted(missing))}")
        for layer, _ in self._layers:
            layer.quant_method.process_weights_after_loading(layer)


def _plain_weight(layer: nn.Module) -> Tensor | None:
    """The layer's weight before it was packed, without memory: shape, class and loader."""
    from vllm.model_executor.model_loader.reload.layerwise import get_layerwise_info

    return get_layerwise_info(layer).restore_metadata[0].get("weight")


def _fresh(meta: Tensor, layer: nn.Module) -> Any:
    """An unfilled weight with the loader that vLLM gave it."""
    from vllm.model_executor.model_loader.reload.meta import materialize_meta_tensor
    from vllm.model_executor.model_loader.reload.sanitize import restore_layer_refs

    weight: Any = restore_layer_refs(materialize_meta_tensor(meta), layer)
    loader = weight.weight_loader
    while getattr(loader, "__name__", "") == "online_process_loader":  # what vLLM's reload puts around it
        loader = loader.__wrapped__
    weight.weight_loader = loader
    return weight
