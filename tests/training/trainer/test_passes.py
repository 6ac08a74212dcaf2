import numpy as np
import torch
from torch import Tensor

from training.trainer.batching import shares
from training.trainer.passes import FILLER_SHAPE, MicroBatch, evaluate, micro_batches_of

LENGTHS = np.array([3, 6, 4])
TOKENS = np.arange(18).reshape(3, 6)
WANTED = np.arange(1, 6) < LENGTHS[:, None]


def share_of(index: int, count: int, max_tokens: int = 12, *, is_packed: bool = False) -> list[MicroBatch]:
    parts = shares(LENGTHS, max_tokens, count)[index]
    return list(micro_batches_of(parts, TOKENS, LENGTHS, WANTED, device="cpu", is_packed=is_packed))


def test_micro_batches_are_as_wide_as_their_longest_row() -> None:
    first, last = share_of(0, 1)

    assert (first.rows.tolist(), last.rows.tolist()) == ([1, 2], [0])
    assert last.tokens.tolist() == [[0, 1, 2]]
    assert (first.width, last.width) == (5, 2)


def test_lengths_go_along_where_rows_are_not_padded() -> None:
    assert [part.lengths for part in share_of(0, 1, is_packed=True)] == [(6, 4), (3,)]
    assert share_of(3, 4, is_packed=True)[0].lengths == (3, 3)
    assert share_of(0, 1)[0].lengths is None


def test_a_rank_without_rows_passes_a_filler_through() -> None:
    (filler,) = share_of(3, 4)

    assert filler.tokens.shape == FILLER_SHAPE
    assert not filler.wanted.any()
    assert filler.of_rows(torch.ones(2, 2)).shape == (0, 2)


def test_evaluation_puts_every_value_into_its_place() -> None:
    def network(tokens: Tensor, wanted: Tensor, lengths: None) -> tuple[Tensor, None]:
        return torch.where(wanted, tokens[:, 1:], 0).float(), None

    (found,) = evaluate(network, iter(share_of(0, 1, max_tokens=1)), WANTED.shape)

    assert found.tolist() == np.where(WANTED, TOKENS[:, 1:], 0).tolist()


def test_a_rank_that_does_not_count_finds_nothing() -> None:
    def network(tokens: Tensor, wanted: Tensor, lengths: None) -> tuple[Tensor]:
        return (torch.ones_like(wanted, dtype=torch.float32),)

    (found,) = evaluate(network, iter(share_of(0, 1)), WANTED.shape, counts=False)

    assert not found.any()
