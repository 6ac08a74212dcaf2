"""What needs no vLLM; tests/training/test_vllm.py loads real models this way."""

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from training.engines.vllm_reload import SmallModel, signature


class UnquantizedLinearMethod:
    """Called like vLLM's; counts how often it packs."""

    def __init__(self) -> None:
        self.packed = 0

    def process_weights_after_loading(self, layer: nn.Module) -> None:
        self.packed += 1


class Fp8LinearMethod(UnquantizedLinearMethod):
    pass


class Toy(nn.Module):
    """A layer with its weight in sight, loaded as vLLM's models are."""

    def __init__(self, method: Any) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.inner.quant_method = method
        self.inner.cpu_linear = torch.nn.functional.linear

    def load_weights(self, named: Iterable[tuple[str, Tensor]]) -> set[str]:
        own, loaded = dict(self.named_parameters()), set()
        for name, tensor in named:
            own[name].copy_(tensor)
            loaded.add(name)
        return loaded


def test_vllms_own_reload_stays_for_what_is_not_plain() -> None:
    assert SmallModel.of(nn.Linear(2, 2)) is None  # nothing is packed
    assert SmallModel.of(Toy(Fp8LinearMethod())) is None
    on_gpu = Toy(UnquantizedLinearMethod())
    del on_gpu.inner.cpu_linear
    assert SmallModel.of(on_gpu) is None


def test_every_layer_is_packed_anew() -> None:
    model = Toy(UnquantizedLinearMethod())
    named = [("inner.weight", torch.ones(2, 2)), ("inner.bias", torch.ones(2))]

    SmallModel(model, [(model.inner, None)]).load(named)

    assert model.inner.quant_method.packed == 1
    assert all(bool((parameter == 1).all()) for parameter in model.parameters())


def test_a_tensor_that_got_nothing_is_named() -> None:
    model = Toy(UnquantizedLinearMethod())

    with pytest.raises(RuntimeError, match=r"no weights came for inner\.bias"):
        SmallModel(model, [(model.inner, None)]).load([("inner.weight", torch.ones(2, 2))])
    assert model.inner.quant_method.packed == 0


def test_weights_of_another_kind_have_another_signature() -> None:
    plain = [("a", torch.zeros(2, 3)), ("b", torch.zeros(1))]

    assert signature(plain) == signature([(name, tensor + 1) for name, tensor in plain])
    for other in (
        plain[:1],
        plain[::-1],
        [("a", torch.zeros(3, 2)), plain[1]],
        [("a", torch.zeros(2, 3, dtype=torch.bfloat16)), plain[1]],
        [("c", torch.zeros(2, 3)), plain[1]],
    ):
        assert signature(other) != signature(plain)
