import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.deep import examples
from training.transfer import checksum, pack, unpack


def tensors(seed: int = 0, dtype: torch.dtype = torch.bfloat16) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"embed": (7, 5), "norm": (5,), "head": (3, 2, 4), "one": (1,), "bias": (0,)}
    return {name: torch.randn(shape, generator=generator).to(dtype) for name, shape in shapes.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bucket_bytes", [1, 64, 100, 1 << 20])
def test_what_is_packed_comes_out(dtype: torch.dtype, bucket_bytes: int) -> None:
    sent = tensors(dtype=dtype)

    weights = pack(sent.items(), bucket_bytes)
    received = dict(unpack(weights.buckets))

    assert list(received) == list(sent)
    for name, tensor in sent.items():
        assert received[name].dtype == dtype and torch.equal(received[name], tensor)
    assert checksum(received.items()) == weights.checksum
    assert all(bucket.data.nbytes <= bucket_bytes or len(bucket.slots) == 1 for bucket in weights.buckets)


def test_checksum_knows_no_order_of_tensors() -> None:
    sent = tensors()

    assert checksum(reversed(sent.items())) == checksum(sent.items())


@settings(max_examples=examples(50), deadline=None)
@given(row=st.integers(0, 6), column=st.integers(0, 4), bit=st.integers(0, 15))
def test_checksum_notices_every_single_bit(row: int, column: int, bit: int) -> None:
    sent = tensors()
    changed = {name: tensor.clone() for name, tensor in sent.items()}
    changed["embed"].view(torch.int16)[row, column] ^= np.array(1 << bit, np.uint16).astype(np.int16).item()

    assert checksum(changed.items()) != checksum(sent.items())


def test_checksum_does_not_depend_on_where_a_tensor_lies() -> None:
    whole = torch.randn(1001).to(torch.bfloat16)

    assert checksum([("w", whole[1:990])]) == checksum([("w", whole[1:990].clone())])


def test_checksum_of_a_tensor_of_several_chunks_notices_its_last_bit() -> None:
    sent = torch.zeros(8 * 16 * 65_521 + 3, dtype=torch.uint8)
    changed = sent.clone()
    changed[-1] = 128

    assert checksum([("w", changed)]) != checksum([("w", sent)])


def test_checksum_notices_swaps_and_gaps() -> None:
    sent = tensors()
    swapped = sent | {"embed": sent["embed"].flip(0)}
    renamed = {"embed2" if name == "embed" else name: tensor for name, tensor in sent.items()}
    missing = {name: tensor for name, tensor in sent.items() if name != "norm"}
    reshaped = sent | {"embed": sent["embed"].reshape(5, 7)}

    assert len({checksum(t.items()) for t in (sent, swapped, renamed, missing, reshaped)}) == 5
