import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.rollouts import Completion, Group, Sample
from training.tasks import Prompt
from training.trainer.batching import make_batch, micro_batches, packed_shares, shares


def sample(prompt: list[int], tokens: list[int], forced: list[int] | None = None) -> Sample:
    made = Sample(prompt)
    made.add(Completion(tokens, [-0.1 * token for token in tokens], False, [0] * len(tokens)))
    if forced:
        made.force(forced)
    made.reward = float(len(tokens))
    return made


def test_columns_belong_to_the_token_after_them() -> None:
    prompt = Prompt("p", "", "")
    groups = [
        Group(prompt, [sample([1, 2], [5]), sample([1, 2], [6, 7], forced=[9])]),
        Group(prompt, [sample([3], [8])]),
    ]

    batch = make_batch(groups)

    assert batch.tokens.tolist() == [[1, 2, 5, 0, 0], [1, 2, 6, 7, 9], [3, 8, 0, 0, 0]]
    assert batch.lengths.tolist() == [3, 5, 2]
    assert batch.mask.astype(int).tolist() == [[0, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 0]]
    assert batch.behaviour_logp[1].tolist() == pytest.approx([0, -0.6, -0.7, 0])
    assert batch.prompt_index.tolist() == [0, 0, 1]
    assert batch.rewards.tolist() == [1, 2, 1]


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 200))
def test_micro_batches_hold_every_row_once_within_the_limit(lengths: list[int], limit: int) -> None:
    parts = micro_batches(np.array(lengths, np.int64), limit)

    assert sorted(row for part in parts for row in part) == list(range(len(lengths)))
    for part in parts:
        assert len(part) == 1 or max(lengths[row] for row in part) * len(part) <= limit


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 200), st.integers(1, 5))
def test_ranks_share_every_row_in_as_many_passes(lengths: list[int], limit: int, count: int) -> None:
    found = shares(np.array(lengths, np.int64), limit, count)

    assert len(found) == count
    assert len({len(parts) for parts in found}) == 1
    assert sorted(row for parts in found for part in parts for row in part) == list(range(len(lengths)))
    work = [sum(lengths[row] for part in parts for row in part) for parts in found]
    assert max(work) - min(work) <= max(lengths, default=0)


def test_one_rank_has_the_micro_batches_of_the_batch() -> None:
    lengths = np.array([3, 9, 5, 5, 1])

    (alone,) = shares(lengths, 10, 1)

    assert [part.tolist() for part in alone] == [part.tolist() for part in micro_batches(lengths, 10)]


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 200), st.integers(1, 5))
def test_packed_rows_are_all_there_once_within_the_limit(lengths: list[int], limit: int, count: int) -> None:
    found = packed_shares(np.array(lengths, np.int64), limit, count, even_tokens=10)

    assert len(found) == count
    assert len({len(parts) for parts in found}) == 1
    assert sorted(row for parts in found for part in parts for row in part) == list(range(len(lengths)))
    assert all(
        len(part) < 2 or sum(lengths[row] for row in part) <= limit for parts in found for part in parts
    )


def test_micro_batches_of_the_same_time_have_about_the_same_work() -> None:
    lengths = np.random.default_rng(0).integers(500, 16_000, 400)

    found = packed_shares(lengths, 16_384, 8, even_tokens=49_152)

    work = lengths * (lengths + 49_152)
    by_time = np.array([[work[part].sum() for part in parts] for parts in found])
    tokens = [lengths[part].sum() for parts in found for part in parts]
    assert by_time.max(axis=0).sum() < 1.05 * by_time.mean(axis=0).sum()
    assert np.mean(tokens) > 0.9 * 16_384


def test_a_row_longer_than_the_limit_has_a_micro_batch_of_its_own() -> None:
    (parts,) = packed_shares(np.array([3, 30, 4]), 10, 1, even_tokens=1)

    assert [part.tolist() for part in parts] == [[1], [2, 0]]


def test_rows_of_a_batch() -> None:
    prompt = Prompt("p", "", "")
    batch = make_batch(
        [Group(prompt, [sample([1], [5]), sample([2], [6, 7])]), Group(prompt, [sample([3], [8])])]
    )

    part = batch.of(np.array([2, 0]))

    assert part.tokens.tolist() == [[3, 8, 0], [1, 5, 0]]
    assert part.prompt_index.tolist() == [1, 0]
    assert len(part) == 2
