"""Properties that hold for every type and aggregation: finite, local, and indifferent to order, split and padding."""

import math
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.deep import examples
from training.advantages import RunningMoments, gae, group_advantages, has_variance, normalize_tokens
from training.losses import TOKEN_LOSSES, aggregation_weights, policy_loss

CLIPS = {"eps_low": 0.2, "eps_high": 0.3, "eps_max": 5.0}
EXTREMES = [-200.0, -30.0, -3.0, -0.5, -0.01, 0.0, 0.02, 0.4, 2.0, 30.0, 200.0]  # of log-ratios
AGGREGATIONS = ["prompt", "sample", "token", "sum"]
GROUP_NORMS = ["batch", "prompt", "none", "global"]

every_loss = pytest.mark.parametrize("type", TOKEN_LOSSES)
every_aggregation = pytest.mark.parametrize("aggregation", AGGREGATIONS)
few = settings(max_examples=examples(8), deadline=None)
many = settings(max_examples=examples(30), deadline=None)


@dataclass(frozen=True)
class Batch:
    logp: Tensor
    old_logp: Tensor
    behaviour_logp: Tensor
    advantages: Tensor
    mask: Tensor
    prompt_index: Tensor

    def __getitem__(self, rows: Tensor) -> "Batch":
        return Batch(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """0 to 6 rows of 1 to 4 columns; any mask, any groups, an advantage for each row or for each token."""
    rows, columns = draw(st.integers(0, 6)), draw(st.integers(1, 4))

    def tensor(values: st.SearchStrategy, *shape: int) -> Tensor:
        count = math.prod(shape)
        drawn = draw(st.lists(values, min_size=count, max_size=count))
        return torch.tensor(drawn, dtype=torch.float64).reshape(shape)

    logp = tensor(st.sampled_from([-200.0, -7.0, -1.0, -1e-3, 0.0]), rows, columns)
    old_logp = logp - tensor(st.sampled_from(EXTREMES), rows, columns)
    advantage = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0])
    return Batch(
        logp=logp,
        old_logp=old_logp,
        behaviour_logp=old_logp - tensor(st.sampled_from(EXTREMES), rows, columns),
        advantages=tensor(advantage, rows, columns) if draw(st.booleans()) else tensor(advantage, rows),
        mask=tensor(st.booleans(), rows, columns).bool(),
        prompt_index=tensor(st.integers(0, 2), rows).long(),
    )


def loss_and_gradient(
    type: str, aggregation: str, batch: Batch, *, cap: float | None = 2.0, weights: Tensor | None = None
) -> tuple[float, Tensor]:
    """With the truncated correction, except for icepop, which has none."""
    logp = batch.logp.clone().requires_grad_()
    output = policy_loss(
        SimpleNamespace(type=type, aggregation=aggregation, importance_cap=cap, **CLIPS),
        logp=logp,
        behaviour_logp=batch.behaviour_logp,
        advantages=batch.advantages,
        mask=batch.mask,
        prompt_index=batch.prompt_index,
        weights=weights,
        old_logp=None if type == "icepop" else batch.old_logp,
    )
    output.loss.backward()
    assert logp.grad is not None
    assert all(math.isfinite(value) for value in output.metrics.values())
    return output.loss.item(), logp.grad


def close(actual: tuple[float, Tensor], expected: tuple[float, Tensor]) -> None:
    assert actual[0] == pytest.approx(expected[0], abs=1e-6, rel=1e-6)
    torch.testing.assert_close(actual[1], expected[1], atol=1e-6, rtol=1e-6)


@every_aggregation
@every_loss
@few
@given(batches())
def test_loss_and_gradient_are_finite_and_masked_tokens_have_none(
    type: str, aggregation: str, batch: Batch
) -> None:
    loss, gradient = loss_and_gradient(type, aggregation, batch)

    assert math.isfinite(loss)
    assert gradient.isfinite().all()
    assert (gradient[~batch.mask] == 0).all()


@every_loss
@many
@given(batches(), st.sampled_from([math.inf, -math.inf, math.nan]))
def test_what_is_masked_does_not_matter(type: str, batch: Batch, garbage: float) -> None:
    by_token = {"logp", "old_logp", "behaviour_logp"} | (
        {"advantages"} if batch.advantages.dim() == 2 else set()
    )
    spoilt = {
        name: value.masked_fill(~batch.mask, garbage) if name in by_token else value
        for name, value in vars(batch).items()
    }

    dirty, clean = (loss_and_gradient(type, "prompt", each) for each in (Batch(**spoilt), batch))

    assert dirty[0] == clean[0]
    assert torch.equal(dirty[1], clean[1])


@every_aggregation
@every_loss
@few
@given(batches(), st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(type: str, aggregation: str, batch: Batch, random: object) -> None:
    order = list(range(len(batch.mask)))
    random.shuffle(order)
    rows = torch.tensor(order, dtype=torch.long)

    loss, gradient = loss_and_gradient(type, aggregation, batch)

    close(loss_and_gradient(type, aggregation, batch[rows]), (loss, gradient[rows]))


@every_aggregation
@every_loss
@few
@given(batches(), st.lists(st.integers(0, 3), min_size=6, max_size=6))
def test_any_partition_adds_up(type: str, aggregation: str, batch: Batch, places: list[int]) -> None:
    """Into four parts, some of them empty: micro-batches, ranks, or micro-batches of ranks."""
    weights = aggregation_weights(aggregation, mask=batch.mask, prompt_index=batch.prompt_index)
    place = torch.tensor(places[: len(batch.mask)])
    total, gradient = 0.0, torch.zeros_like(batch.logp)

    for part in range(4):
        rows = (place == part).nonzero().flatten()
        share, of_rows = loss_and_gradient(type, aggregation, batch[rows], weights=weights[rows])
        total += share
        gradient[rows] = of_rows

    close((total, gradient), loss_and_gradient(type, aggregation, batch))


@every_aggregation
@every_loss
@few
@given(batches(), st.integers(1, 3))
def test_more_padding_does_not_matter(type: str, aggregation: str, batch: Batch, columns: int) -> None:
    """Masked columns behind each row, and a row without a token."""

    def padded(value: Tensor) -> Tensor:
        pad = (0, columns, 0, 1) if value.dim() == 2 else (0, 1)
        return torch.nn.functional.pad(value, pad)

    width = batch.mask.shape[1]
    more = Batch(**{name: padded(value) for name, value in vars(batch).items()})
    loss, gradient = loss_and_gradient(type, aggregation, more)

    close((loss, gradient[:-1, :width]), loss_and_gradient(type, aggregation, batch))


@every_loss
@many
@given(batches())
def test_no_advantage_is_no_gradient(type: str, batch: Batch) -> None:
    nothing = Batch(**{**vars(batch), "advantages": torch.zeros_like(batch.advantages)})

    loss, gradient = loss_and_gradient(type, "token", nothing)

    assert loss == 0
    assert (gradient == 0).all()


@every_aggregation
@many
@given(batches())
def test_weights_count_each_unit_once(aggregation: str, batch: Batch) -> None:
    """A loss of 1 at every token averages to 1, and a row without tokens weighs nothing."""
    weights = aggregation_weights(aggregation, mask=batch.mask, prompt_index=batch.prompt_index)
    tokens = batch.mask.sum(dim=1)
    ones = (weights * tokens).sum().item()

    expected = tokens.sum().item() if aggregation == "sum" else float(tokens.sum() > 0)
    assert ones == pytest.approx(expected, abs=1e-6)
    assert (weights[tokens == 0] == 0).all()


# Equal rewards, groups of one, and values whose float32 mean is not themselves.
REWARDS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([-1.0, -0.25, 0.0, 0.1, 0.7, 1.0, 3.5])), max_size=24
)


def rewards_and_prompts(drawn: list[tuple[int, float]]) -> tuple[Tensor, Tensor]:
    return torch.tensor([r for _, r in drawn]), torch.tensor([p for p, _ in drawn], dtype=torch.long)


@pytest.mark.parametrize("norm", GROUP_NORMS)
@many
@given(REWARDS)
def test_a_prompt_has_advantages_exactly_where_its_rewards_vary(
    norm: str, drawn: list[tuple[int, float]]
) -> None:
    rewards, prompts = rewards_and_prompts(drawn)
    advantages, varies = group_advantages(rewards, prompts, norm=norm), has_variance(rewards, prompts)

    assert advantages.isfinite().all()
    assert (advantages[~varies] == 0).all()
    for prompt in prompts[varies].unique():
        of_prompt = advantages[prompts == prompt]
        assert of_prompt.min() < 0 < of_prompt.max()
        assert of_prompt.sum().item() == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("norm", ["batch", "prompt", "global"])
@many
@given(REWARDS, st.sampled_from([0.125, 0.3, 7.0, 100.0]), st.sampled_from([-10.0, 0.0, 0.1, 5.0]))
def test_normed_advantages_do_not_depend_on_the_unit_of_rewards(
    norm: str, drawn: list[tuple[int, float]], scale: float, shift: float
) -> None:
    rewards, prompts = rewards_and_prompts(drawn)

    other = group_advantages(scale * rewards + shift, prompts, norm=norm)

    torch.testing.assert_close(other, group_advantages(rewards, prompts, norm=norm), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("norm", GROUP_NORMS)
@many
@given(REWARDS, st.randoms(use_true_random=False))
def test_advantages_follow_their_samples_in_any_order(
    norm: str, drawn: list[tuple[int, float]], random: object
) -> None:
    shuffled = list(range(len(drawn)))
    random.shuffle(shuffled)
    order = torch.tensor(shuffled, dtype=torch.long)
    rewards, prompts = rewards_and_prompts(drawn)

    there = group_advantages(rewards[order], prompts[order], norm=norm)

    torch.testing.assert_close(
        there, group_advantages(rewards, prompts, norm=norm)[order], atol=1e-5, rtol=1e-5
    )


@many
@given(st.lists(st.lists(st.floats(-1e3, 1e3), max_size=7), max_size=6))
def test_running_moments_are_those_of_everything_so_far(chunks: list[list[float]]) -> None:
    running = RunningMoments()
    for chunk in chunks:
        running.update(torch.tensor(chunk, dtype=torch.float64))
    everything = torch.tensor([value for chunk in chunks for value in chunk], dtype=torch.float64)

    assert running.count == len(everything)
    if len(everything):
        assert running.mean == pytest.approx(everything.mean().item(), abs=1e-9)
        assert running.std == pytest.approx(everything.std(correction=0).item(), abs=1e-6)


@many
@given(batches(), st.sampled_from([0.0, 0.5, 0.95, 1.0]), st.sampled_from([0.5, 0.99, 1.0]))
def test_gae_sees_the_counted_tokens_alone(batch: Batch, lam: float, gamma: float) -> None:
    """The same as for rows from which everything else was cut out; normalised, finite with mean 0 and std 1 or 0."""
    values, rewards = batch.logp.clamp(min=-7), torch.linspace(-1, 1, len(batch.mask))
    spoilt = values.masked_fill(~batch.mask, math.nan)

    advantages, returns = gae(rewards, spoilt, batch.mask, gamma=gamma, lam=lam)

    for row, mask in enumerate(batch.mask):
        if not mask.any():
            continue
        alone = values[row, mask].unsqueeze(0)
        cut = gae(rewards[row : row + 1], alone, torch.ones_like(alone).bool(), gamma=gamma, lam=lam)
        torch.testing.assert_close((advantages[row, mask], returns[row, mask]), (cut[0][0], cut[1][0]))
    assert (advantages[~batch.mask] == 0).all()

    normalized = normalize_tokens(advantages.float(), batch.mask, norm="batch")[batch.mask]
    assert normalized.isfinite().all()
    if advantages.float()[batch.mask].unique().numel() > 1:
        assert normalized.mean().item() == pytest.approx(0, abs=1e-3)
        assert normalized.std(correction=0).item() == pytest.approx(1, abs=1e-3)
    else:
        assert (normalized == 0).all()
