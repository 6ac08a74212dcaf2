from pathlib import Path

import pytest
import torch

from training.engines.decoder import fused, products, use_slots
from training.trainer.network import CompileError, load_network


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("kv_heads", "queries"), [(4, 1), (2, 2), (1, 4)])
@pytest.mark.parametrize("is_masked", [False, True])
def test_both_kernels_are_attention(dtype: torch.dtype, kv_heads: int, queries: int, is_masked: bool) -> None:
    """Against torch's own in float64; keys are stored transposed, as in the cache."""
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(5, kv_heads, queries, 8, generator=generator).to(dtype)
    key = torch.randn(5, kv_heads, 8, 20, generator=generator).to(dtype).transpose(2, 3)[:, :, :13]
    value = torch.randn(5, kv_heads, 13, 8, generator=generator).to(dtype)
    lengths = torch.tensor([13, 1, 7, 12, 13]) if is_masked else torch.full((5,), 13)
    is_hidden = torch.arange(13) >= lengths.unsqueeze(1)
    mask = torch.zeros(5, 13, dtype=dtype).masked_fill_(is_hidden, float("-inf"))[:, None, None]

    expected = torch.nn.functional.scaled_dot_product_attention(
        query.double(), key.double(), value.double(), mask.double(), scale=1.0
    )

    for kernel in (products, fused):
        given = kernel(query, key, value, mask if is_masked else None)
        assert given.dtype == dtype
        tolerance = 1e-5 if dtype == torch.float32 else 0.03
        torch.testing.assert_close(given.double(), expected, atol=tolerance, rtol=tolerance)


def test_a_float32_cache_gives_what_the_instructions_would() -> None:
    """As on a CPU without products of bfloat16: the cache holds the same numbers in float32."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(3, 2, n, 8, generator=generator).bfloat16() for n in (1, 13, 13))

    expected = torch.nn.functional.scaled_dot_product_attention(
        query.double(), key.double(), value.double(), scale=1.0
    )

    for kernel in (products, fused):
        given = kernel(query, key.float(), value.float(), None)
        assert given.dtype == torch.bfloat16
        torch.testing.assert_close(given, expected.bfloat16(), atol=1e-6, rtol=2**-8)


def test_compiling_without_a_compiler_names_the_field(
    toy_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")

    with pytest.raises(CompileError, match=r"engine\.compile needs a C\+\+ compiler.* no no-such-compiler"):
        use_slots(load_network(toy_model), is_compiled=True, device="cpu")
