"""Mixed into vLLM's worker (`worker_extension_cls`): weights in flight, and death with the parent process.

New weights for a small vLLM model on a CPU, without most of what vLLM's own reload does around it.

vLLM's `reload_weights` moves every layer to the meta device and back and loads each tensor twice, to count its
elements: for a tiny model that is most of the time. Here the packed layers get a plain weight again, vLLM's loaders
fill it, and vLLM packs it anew. Only for plain layers, and only for tensors of the same names and shapes as those that
`reload_weights` itself has counted and found complete before; anything else goes to it.
"""

import os
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from training.addresses import Group
from training.broadcast import Plan
from training.engines.intake import Intake
from training.engines.shared_files import in_files
from training.transfer import TransferError

MAX_BYTES = 256 << 20  # of weights that lie packed and unpacked in memory at the same time
PLAIN = ("UnquantizedLinearMethod", "UnquantizedEmbeddingMethod")

Signature = tuple[tuple[str, torch.dtype, torch.Size], ...]
_LOOK_SECONDS = 1.0


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
            method = getattr(layer, "quant_method", None)
            if method is None:
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
        missing = expected - (self._model.load_weights(iter(named)) or expected)
        if missing:
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


def die_with_parent() -> None:
    """End this process soon after its parent: a generator killed with SIGKILL leaves no engine behind.

    A look at the parent's id rather than Linux's parent-death signal, which goes off when the *thread* that made
    this process ends.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="die-with-parent", daemon=True).start()


die_with_parent()  # at import: the worker imports this before it loads the model


class WeightsInFlight:
    """Methods for `collective_rpc`. vLLM makes it a base of its worker class. What they return must be plain."""

    model_runner: Any
    vllm_config: Any
    device: Any
    rank: int
    _intake: Intake
    _complete: Signature | None = None  # of weights that vLLM's own reload has found complete
    _small: SmallModel | None = None

    def load_buckets(self, files: list[tuple[str, list[list[Any]]]]) -> float:
        """Load buckets that lie in files, as `shared_files.as_files` gave them, between two steps. Returns seconds."""
        began = time.perf_counter()
        self._load(list(in_files(files)))
        return time.perf_counter() - began

    def _load(self, named: list[tuple[str, Tensor]]) -> None:
        """In place where that is possible, which the first load of a kind finds out."""
        from vllm.config import set_current_vllm_config

        kind = signature(named)
        if self._small is not None and kind == self._complete:
            with set_current_vllm_config(self.vllm_config):
                self._small.load(named)
            return
        self._reload(named)
        self._complete, self._small = kind, SmallModel.of(self.model_runner.get_model())

    def join_broadcast(self, address: str, plan: Plan) -> None:
        """Get ready for the trainer's broadcasts."""
        self._intake = Intake(address, plan, str(self.device))

    def receive_weights(self, number: int, size: int, first_rank: int) -> None:
        """Have the next broadcast arrive while the engine goes on; the group has this number and size."""
        self._intake.begin(Group(number, size), first_rank + self.rank)

    def use_weights(self) -> tuple[str, float]:
        """Load what has arrived, between two steps. Returns what is wrong with it, if anything, and then nothing has
        been loaded; and the seconds of the load."""
        try:
            named = self._intake.take()
        except TransferError as error:
            return str(error), 0.0
        began = time.perf_counter()
        self._load(named)
        if self.device.type == "cuda":  # the memory of what arrived is free for the next weights now
            torch.cuda.synchronize(self.device)
        return "", time.perf_counter() - began

    def _reload(self, named: Iterable[tuple[str, Tensor]]) -> None:
        """`reload_weights` rather than `load_weights`: on CPU the layers hold packed copies, to be made anew."""
        from vllm.config import set_current_vllm_config

        with set_current_vllm_config(self.vllm_config):
            self.model_runner.reload_weights(weights_iterator=iter(named))

    def head_dtype(self) -> str:
        """In which the head computes, by its numbers: that of the logits, or the model's where all lie on its grid.
        "" in a worker that has no logits."""
        from vllm.config import set_current_vllm_config

        model, config = self.model_runner.get_model(), self.vllm_config.model_config
        noise = torch.Generator().manual_seed(0)
        hidden = torch.randn(4, config.get_hidden_size(), generator=noise).to(self.device, config.dtype)
        with torch.inference_mode(), set_current_vllm_config(self.vllm_config):
            logits = model.compute_logits(hidden)
        if logits is None:
            return ""
        is_finer = bool((logits != logits.to(config.dtype).to(logits.dtype)).any())
        return str(logits.dtype if is_finer else config.dtype).removeprefix("torch.")

    def loads_in_place(self) -> bool:
        """Whether the next weights of the same kind go past vLLM's own reload."""
        return self._small is not None

    def process_id(self) -> int:
        """Of this worker."""
        return os.getpid()
