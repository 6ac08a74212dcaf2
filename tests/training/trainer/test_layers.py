from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from tests.training.trainer.test_network import TOKENS, WANTED, loss_and_gradients, networks_with
from training.trainer.network import CompileError, Networks, compile_layers, recompute_layers

PPO = {"loss__type": "ppo", "loss__entropy_coef": 0.1}


def kept_bytes(networks: Networks) -> int:
    """What a forward pass keeps for the backward pass, weights left out."""
    weights = {p.data_ptr() for p in networks.parameters()}
    kept: dict[int, int] = {}

    def note(value: torch.Tensor) -> torch.Tensor:
        if value.data_ptr() not in weights:
            kept[value.data_ptr()] = value.nbytes
        return value

    with torch.autograd.graph.saved_tensors_hooks(note, lambda value: value):
        held = networks(TOKENS, WANTED)  # alive until all has been counted
    return sum(kept.values()) if held else 0


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_recomputed_layers_give_the_same_and_keep_less(toy_model: Path, precision: str) -> None:
    plain, lean = (networks_with(toy_model, **PPO, precision__trainer=precision) for _ in range(2))
    names = list(lean.state_dict())
    recompute_layers(lean)

    assert kept_bytes(lean) < 0.6 * kept_bytes(plain)
    torch.testing.assert_close(loss_and_gradients(lean), loss_and_gradients(plain), atol=0, rtol=0)
    assert list(lean.state_dict()) == names


def test_kept_layers_are_the_last_ones(mixture: Path) -> None:
    plain, *lean = (networks_with(mixture, **PPO) for _ in range(4))
    for kept, networks in enumerate(lean):
        recompute_layers(networks, kept)
    gradients = [loss_and_gradients(networks) for networks in (plain, lean[1])]

    held = [kept_bytes(networks) for networks in (*lean, plain)]

    assert held[0] < held[1] < held[2] == held[3]
    assert ["forward" in vars(layer) for layer in lean[1].policy.get_decoder().layers] == [True, False]
    torch.testing.assert_close(*gradients, atol=0, rtol=0)


@pytest.mark.deep
@pytest.mark.parametrize("is_lean", [False, True])
def test_compiled_layers_give_the_same(toy_model: Path, is_lean: bool) -> None:
    plain, quick = (networks_with(toy_model, **PPO) for _ in range(2))
    compile_layers(quick, "cpu")
    if is_lean:
        recompute_layers(quick)

    torch.testing.assert_close(loss_and_gradients(quick), loss_and_gradients(plain), atol=1e-5, rtol=1e-4)
    assert list(quick.state_dict()) == list(plain.state_dict())


@pytest.mark.deep
def test_compiled_layers_do_not_compile_again_for_another_shape(toy_model: Path) -> None:
    networks = networks_with(toy_model)
    compile_layers(networks, "cpu")
    networks(TOKENS, WANTED)[0].sum().backward()

    with torch.compiler.set_stance("fail_on_recompile"):
        for rows, length in ((2, 9), (3, 5), (2, 4)):
            networks(TOKENS[:rows, :length], WANTED[:rows, : length - 1])[0].sum().backward()


def test_no_compiler_is_named(toy_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")

    with pytest.raises(CompileError, match=r"trainer.compile needs a C\+\+ compiler.* no no-such-compiler"):
        compile_layers(networks_with(toy_model), "cpu")


def test_a_family_that_keeps_its_layers_elsewhere_is_named(toy_model: Path) -> None:
    networks = networks_with(toy_model)
    networks.policy = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=8))

    with pytest.raises(ValueError, match="model: GPT2Model has no `layers`: it is trained by one rank alone"):
        recompute_layers(networks)
