import numpy as np
import torch
from torch import Tensor

from training.trainer.distributed import Ranks
from training.trainer.passes import FILLER_SHAPE, evaluate, own_share

LENGTHS = np.array([3, 6, 4])
TOKENS = np.arange(18).reshape(3, 6)
WANTED = np.arange(1, 6) < LENGTHS[:, None]


def share_of(index: int, count: int, max_tokens: int = 12) -> list:
    ranks = Ranks(index, count, "")
    share = own_share(TOKENS, LENGTHS, WANTED, max_tokens=max_tokens, ranks=ranks, device="cpu")
    return list(share)


def test_micro_batches_are_as_wide_as_their_longest_row() -> None:
    first, last = share_of(0, 1)

    assert (first.rows.tolist(), last.rows.tolist()) == ([1, 2], [0])
    assert last.tokens.tolist() == [[0, 1, 2]]
    assert (first.width, last.width) == (5, 2)


def test_a_rank_without_rows_passes_a_filler_through() -> None:
    (filler,) = share_of(3, 4)

    assert filler.tokens.shape == FILLER_SHAPE
    assert not filler.wanted.any()
    assert filler.of_rows(torch.ones(2, 2)).shape == (0, 2)


def test_evaluation_puts_every_value_into_its_place() -> None:
    def network(tokens: Tensor, wanted: Tensor) -> tuple[Tensor, None]:
        return torch.where(wanted, tokens[:, 1:], 0).float(), None

    (found,) = evaluate(network, iter(share_of(0, 1, max_tokens=1)), WANTED.shape)

    assert found.tolist() == np.where(WANTED, TOKENS[:, 1:], 0).tolist()
