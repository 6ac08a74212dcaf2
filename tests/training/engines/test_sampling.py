import numpy as np
import torch
from scipy.stats import chisquare, kstest

from training.engines.rows import choose, uniforms


def test_uniform_numbers_are_uniform_over_seeds_and_over_positions() -> None:
    over_seeds = uniforms(np.arange(20_000), np.full(20_000, 3), 1)[:, 0]
    over_positions = uniforms(np.array([7]), np.array([0]), 20_000)[0]

    for numbers in (over_seeds, over_positions):
        assert numbers.min() >= 0 and numbers.max() < 1
        assert kstest(numbers, "uniform").pvalue > 0.001
        assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.03


def test_a_later_position_is_where_an_earlier_request_left_off() -> None:
    whole = uniforms(np.array([5, 2**63 + 5]), np.array([0, 0]), 10)
    rest = uniforms(np.array([5, 2**63 + 5]), np.array([4, 7]), 3)

    assert np.array_equal(rest[0], whole[0, 4:7]) and np.array_equal(rest[1], whole[1, 7:10])
    assert len(np.unique(whole)) == 20


def test_tokens_follow_the_softmax() -> None:
    logits = torch.tensor([2.0, -1.0, 0.5, 0.0, -30.0])
    count = 50_000
    uniform = torch.from_numpy(uniforms(np.arange(count), np.zeros(count, int), 1)[:, 0])

    tokens, logp = choose(logits.expand(count, -1), uniform)

    probabilities = logits.double().softmax(0).numpy()
    seen = np.bincount(tokens.numpy(), minlength=5)
    assert seen[4] == 0
    assert chisquare(seen[:4], count * probabilities[:4] / probabilities[:4].sum()).pvalue > 0.001
    assert np.allclose(logp.numpy(), np.log(probabilities)[tokens.numpy()], atol=1e-6)


def test_a_token_without_probability_is_never_chosen_at_the_ends_of_the_interval() -> None:
    logits = torch.full((2, 1000), float("-inf"))
    logits[:, 1:-1] = torch.randn(998)

    tokens, logp = choose(logits, torch.tensor([0.0, 1 - 2.0**-23]))

    assert tokens.min() >= 1 and tokens.max() <= 998 and torch.isfinite(logp).all()
