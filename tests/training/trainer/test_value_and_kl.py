import math

import pytest
import torch

from training.losses import kl_penalty, value_loss

MASK = torch.tensor([[True, True], [True, False], [True, False]])

# Errors 1, -3, 2 and 0.5; the values of the last three have moved further than 0.2 from the old ones.
VALUES = torch.tensor([[1.0, -2.0], [3.0, 0.0], [1.5, 0.0]], dtype=torch.float64)
RETURNS = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
OLD_VALUES = torch.tensor([[0.9, -1.0], [0.0, 0.0], [2.5, 0.0]], dtype=torch.float64)


def test_value_loss_is_the_larger_of_the_two_squares() -> None:
    errors = value_loss(VALUES, OLD_VALUES, RETURNS, 0.2)

    # inside; below, and the clipped -1.2 is nearer to the return; above, the clipped 0.2 is nearer; clipped 2.3 farther
    assert errors[MASK].tolist() == pytest.approx([1.0, 9.0, 4.0, 1.3**2])


def test_gradient_of_the_value_loss_is_0_where_the_clipped_square_is_larger() -> None:
    values = VALUES.clone().requires_grad_()

    value_loss(values, OLD_VALUES, RETURNS, 0.2)[MASK].sum().backward()

    assert values.grad is not None
    assert values.grad[MASK].tolist() == pytest.approx([2.0, -6.0, 4.0, 0.0])


@pytest.mark.parametrize("moved", [0.5, -0.5])
def test_a_value_that_moved_too_far_and_past_its_return_is_drawn_back(moved: float) -> None:
    value = torch.tensor([moved], dtype=torch.float64, requires_grad=True)

    value_loss(value, torch.zeros(1), torch.zeros(1), 0.2).sum().backward()

    assert value.grad is not None
    assert value.grad.item() == pytest.approx(2 * moved)


# Two distributions over three tokens; the expectation over the policy's samples is a sum over all tokens.
POLICY = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
REFERENCE = torch.tensor([0.25, 0.25, 0.5], dtype=torch.float64)


def test_kl_estimates_are_their_closed_forms() -> None:
    logp, reference = torch.tensor([-1.0, -2.0]), torch.tensor([-1.5, -1.0])

    assert kl_penalty(logp, reference, "k1").tolist() == pytest.approx([0.5, -1.0])
    assert kl_penalty(logp, reference, "k2").tolist() == pytest.approx([0.125, 0.5])
    assert kl_penalty(logp, reference, "k3").tolist() == pytest.approx(
        [math.exp(-0.5) - 0.5, math.exp(1.0) - 2.0]
    )


@pytest.mark.parametrize("kind", ["k1", "k3"])
def test_mean_of_k1_and_k3_is_the_divergence(kind: str) -> None:
    mean = (POLICY * kl_penalty(POLICY.log(), REFERENCE.log(), kind)).sum()

    assert mean.item() == pytest.approx((POLICY * (POLICY / REFERENCE).log()).sum().item())


@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_mean_gradient_of_the_kl_estimates(kind: str) -> None:
    logits = POLICY.log().requires_grad_()
    logp = logits.log_softmax(0)
    (POLICY * kl_penalty(logp, REFERENCE.log(), kind)).sum().backward()

    log_ratio = (POLICY / REFERENCE).log()
    expected = {
        "k1": torch.zeros(3, dtype=torch.float64),
        "k2": POLICY * (log_ratio - (POLICY * log_ratio).sum()),  # of KL(policy || reference)
        "k3": POLICY - REFERENCE,  # of KL(reference || policy)
    }
    torch.testing.assert_close(logits.grad, expected[kind])


@pytest.mark.parametrize("kind", ["k1", "k2", "k3"])
def test_kl_estimates_of_a_token_that_the_policy_all_but_excludes_are_finite(kind: str) -> None:
    assert kl_penalty(torch.tensor([-200.0]), torch.tensor([0.0]), kind).isfinite().all()


def test_unknown_kl_estimate() -> None:
    with pytest.raises(ValueError, match="k1, k2, k3"):
        kl_penalty(POLICY, REFERENCE, "k4")
