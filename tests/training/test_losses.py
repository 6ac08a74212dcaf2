import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from training.losses import TOKEN_LOSSES, aggregation_weights, kl_penalty, policy_loss

# Four tokens: sample 0 has two, sample 1 has one, sample 2 one; prompt 0 owns samples 0 and 1.
LOGP = torch.tensor([[-1.0, -2.0], [-0.5, 0.0], [-3.0, 0.0]], dtype=torch.float64)
RATIO = torch.tensor([[1.0, 6.0], [0.5, 1.0], [1.5, 1.0]], dtype=torch.float64)
MASK = torch.tensor([[True, True], [True, False], [True, False]])
PROMPTS = torch.tensor([7, 7, 9])
ADVANTAGES = torch.tensor([1.0, -1.0, 2.0], dtype=torch.float64)


def config(type: str, aggregation: str = "token", **clip: float) -> SimpleNamespace:
    return SimpleNamespace(type=type, aggregation=aggregation, **clip)


CONFIGS = {
    "cispo": config("cispo", eps_max=5.0),
    "grpo": config("grpo", eps_low=0.2, eps_high=0.2),
    "dapo": config("dapo", eps_low=0.2, eps_high=0.26),
    "gspo": config("gspo", eps_low=0.2, eps_high=0.3),
    "ppo": config("ppo", eps_low=0.2, eps_high=0.2),
    "icepop": config("icepop", eps_low=0.4, eps_high=4.0),
    "reinforce": config("reinforce"),
}


def loss_of(settings: SimpleNamespace, logp: Tensor = LOGP, **changes: Tensor) -> Tensor:
    arguments = {
        "logp": logp,
        "behaviour_logp": LOGP - RATIO.log(),
        "advantages": ADVANTAGES,
        "mask": MASK,
        "prompt_index": PROMPTS,
        **changes,
    }
    return policy_loss(settings, **arguments).loss


# The four token losses in the order (sample 0: ratios 1 and 6), (sample 1: 0.5), (sample 2: 1.5).
S0 = math.sqrt(6.0)  # GSPO: geometric mean of 1 and 6, clipped to 1.3
EXPECTED = {
    "cispo": [1.0, 5.0 * 2.0, -0.5 * 0.5, 1.5 * 2 * 3.0],
    "grpo": [-1.0, -1.2, 0.8, -1.2 * 2],
    "dapo": [-1.0, -1.26, 0.8, -1.26 * 2],
    "gspo": [-1.3, -1.3, 0.8, -1.3 * 2],
    "ppo": [-1.0, -1.2, 0.8, -1.2 * 2],
    "icepop": [-1.0, 0.0, 0.0, -1.5 * 2],
    "reinforce": [1.0, 2.0, -0.5, 2 * 3.0],
}


def test_every_type_has_a_closed_form() -> None:
    assert set(EXPECTED) == set(CONFIGS) == set(TOKEN_LOSSES)


@pytest.mark.parametrize("type", EXPECTED)
def test_token_average_is_the_closed_form(type: str) -> None:
    assert loss_of(CONFIGS[type]).item() == pytest.approx(sum(EXPECTED[type]) / 4, abs=1e-6)


@pytest.mark.parametrize("type", EXPECTED)
def test_sample_average_is_the_closed_form(type: str) -> None:
    a, b, c, d = EXPECTED[type]
    settings = SimpleNamespace(**{**vars(CONFIGS[type]), "aggregation": "sample"})

    assert loss_of(settings).item() == pytest.approx(((a + b) / 2 + c + d) / 3, abs=1e-6)


@pytest.mark.parametrize("type", EXPECTED)
def test_prompt_average_is_the_closed_form(type: str) -> None:
    a, b, c, d = EXPECTED[type]
    settings = SimpleNamespace(**{**vars(CONFIGS[type]), "aggregation": "prompt"})

    assert loss_of(settings).item() == pytest.approx(((a + b + c) / 3 + d) / 2, abs=1e-6)


@pytest.mark.parametrize("type", EXPECTED)
def test_sum_is_the_closed_form(type: str) -> None:
    settings = SimpleNamespace(**{**vars(CONFIGS[type]), "aggregation": "sum"})

    assert loss_of(settings).item() == pytest.approx(sum(EXPECTED[type]), abs=1e-6)


@pytest.mark.parametrize("aggregation", ["prompt", "sample", "sum", "token"])
@pytest.mark.parametrize("type", EXPECTED)
@pytest.mark.parametrize("split", [[[0], [1], [2]], [[2, 0], [1]], [[1, 2], [0]]])
def test_any_split_adds_up_to_the_whole(type: str, aggregation: str, split: list[list[int]]) -> None:
    settings = SimpleNamespace(**{**vars(CONFIGS[type]), "aggregation": aggregation})
    whole_logp, split_logp = LOGP.clone().requires_grad_(), LOGP.clone().requires_grad_()
    whole = loss_of(settings, whole_logp)
    whole.backward()

    weights = aggregation_weights(aggregation, mask=MASK, prompt_index=PROMPTS)
    total = 0.0
    for rows in split:
        part = loss_of(
            settings,
            split_logp[rows],
            behaviour_logp=(LOGP - RATIO.log())[rows],
            advantages=ADVANTAGES[rows],
            mask=MASK[rows],
            prompt_index=PROMPTS[rows],
            weights=weights[rows],
        )
        part.backward()
        total += part.item()

    assert total == pytest.approx(whole.item(), abs=1e-6)
    torch.testing.assert_close(split_logp.grad, whole_logp.grad, atol=1e-6, rtol=0)


def test_cispo_gradient_flows_through_log_pi_alone() -> None:
    logp = LOGP.clone().requires_grad_()
    loss_of(CONFIGS["cispo"], logp).backward()

    capped = RATIO.clamp(max=5.0)
    expected = -(capped * ADVANTAGES.unsqueeze(1)) * MASK / 4
    torch.testing.assert_close(logp.grad, expected)


def test_cispo_cap_is_absolute_and_has_no_lower_end() -> None:
    tiny_ratio = RATIO.clone()
    tiny_ratio[0, 0] = 1e-4
    logp = LOGP.clone().requires_grad_()
    loss_of(CONFIGS["cispo"], logp, behaviour_logp=LOGP - tiny_ratio.log()).backward()

    assert logp.grad is not None
    assert logp.grad[0, 0].item() == pytest.approx(-1e-4 / 4)
    assert logp.grad[0, 1].item() == pytest.approx(-5.0 / 4)


def test_clipped_tokens_give_no_gradient_where_the_clip_binds() -> None:
    logp = LOGP.clone().requires_grad_()
    loss_of(CONFIGS["grpo"], logp).backward()

    assert logp.grad is not None
    assert logp.grad[0, 1].item() == 0  # ratio 6, positive advantage
    assert logp.grad[1, 0].item() == 0  # ratio 0.5, negative advantage
    assert logp.grad[0, 0].item() == pytest.approx(-1 / 4)


def test_no_dual_clip_bounds_a_negative_advantage() -> None:
    ratio = RATIO.clone()
    ratio[1, 0] = 50.0

    loss = loss_of(CONFIGS["ppo"], behaviour_logp=LOGP - ratio.log())

    assert loss.item() == pytest.approx((-1.0 - 1.2 + 50.0 - 2.4) / 4)


def test_gspo_gives_each_token_the_sequence_ratio() -> None:
    wide = config("gspo", "sample", eps_low=0.9, eps_high=10.0)
    logp = LOGP.clone().requires_grad_()
    loss_of(wide, logp).backward()

    assert logp.grad is not None
    assert logp.grad[0].tolist() == pytest.approx([-S0 / 2 / 3] * 2)


def test_icepop_masks_both_sides() -> None:
    logp = LOGP.clone().requires_grad_()
    loss_of(CONFIGS["icepop"], logp).backward()

    assert logp.grad is not None
    assert [logp.grad[0, 1].item(), logp.grad[1, 0].item()] == [0, 0]
    assert logp.grad[2, 0].item() == pytest.approx(-1.5 * 2 / 4)


@pytest.mark.parametrize("type", EXPECTED)
def test_masked_tokens_may_hold_anything(type: str) -> None:
    logp, behaviour = LOGP.clone(), LOGP - RATIO.log()
    logp[~MASK], behaviour[~MASK] = float("-inf"), float("nan")
    logp.requires_grad_()

    loss = loss_of(CONFIGS[type], logp, behaviour_logp=behaviour)
    loss.backward()

    assert loss.item() == pytest.approx(sum(EXPECTED[type]) / 4, abs=1e-6)
    assert logp.grad is not None
    assert (logp.grad[~MASK] == 0).all()


@pytest.mark.parametrize("aggregation", ["prompt", "sample", "sum", "token"])
def test_empty_samples_and_prompts_leave_the_denominator(aggregation: str) -> None:
    mask = MASK.clone()
    mask[2] = False
    settings = config("reinforce", aggregation)

    with_empty = loss_of(settings, mask=mask)
    without = loss_of(
        settings,
        LOGP[:2],
        behaviour_logp=LOGP[:2],
        advantages=ADVANTAGES[:2],
        mask=MASK[:2],
        prompt_index=PROMPTS[:2],
    )

    assert with_empty.item() == pytest.approx(without.item())


def test_metrics_are_those_of_the_counted_tokens() -> None:
    metrics = policy_loss(
        CONFIGS["cispo"],
        logp=LOGP,
        behaviour_logp=LOGP - RATIO.log(),
        advantages=ADVANTAGES,
        mask=MASK,
        prompt_index=PROMPTS,
    ).metrics

    assert metrics["ratio_max"] == pytest.approx(6.0)
    assert metrics["ratio_min"] == pytest.approx(0.5)
    assert metrics["ratio_clip_fraction"] == pytest.approx(0.25)


def test_all_masked_is_zero_with_no_metrics() -> None:
    output = policy_loss(
        CONFIGS["dapo"],
        logp=LOGP,
        behaviour_logp=LOGP,
        advantages=ADVANTAGES,
        mask=torch.zeros_like(MASK),
        prompt_index=PROMPTS,
    )

    assert (output.loss.item(), output.metrics) == (0.0, {})


@pytest.mark.parametrize("settings", [config("best"), config("reinforce", "mean")])
def test_unknown_names_are_refused(settings: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match="there are:"):
        loss_of(settings)


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
        kl_penalty(LOGP, LOGP, "k4")
