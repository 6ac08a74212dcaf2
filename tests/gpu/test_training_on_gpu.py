"""The trainer's mathematics on a CUDA device. torch and transformers only."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.training.conftest import cut_down
from tests.training.trainer.test_trainer import a_batch
from training.addresses import free_address
from training.advantages import group_advantages
from training.losses import policy_loss
from training.pretrain import Lessons, new_model, save
from training.recipe import Recipe, apply_overrides, load_recipe
from training.schema import Critic, Optimizer, Resources
from training.trainer import sequences
from training.trainer.distributed import Ranks, join, leave
from training.trainer.layout import Layout
from training.trainer.network import Networks, load_network, recompute_layers, shard, whole
from training.trainer.optimization import make_optimizer
from training.trainer.trainer import Trainer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("aggregation", ["prompt", "sample", "token"])
@pytest.mark.parametrize("type", ["cispo", "dapo", "gspo", "icepop"])
def test_loss_and_gradient_agree_with_the_cpu(type: str, aggregation: str) -> None:
    generator = torch.Generator().manual_seed(0)
    logp = -torch.rand(12, 7, generator=generator)
    behaviour = logp + 0.3 * torch.randn(12, 7, generator=generator)
    prompts = torch.arange(12) // 4
    rewards = torch.randint(0, 2, (12,), generator=generator).float()
    mask = torch.arange(7) < torch.randint(1, 8, (12, 1), generator=generator)
    config = SimpleNamespace(type=type, aggregation=aggregation, eps_low=0.2, eps_high=0.3, eps_max=5.0)
    results = []
    for device in ("cpu", "cuda"):
        leaf = logp.detach().clone().to(device).requires_grad_()
        output = policy_loss(
            config,
            logp=leaf,
            behaviour_logp=behaviour.to(device),
            advantages=group_advantages(rewards, prompts, norm="batch").to(device),
            mask=mask.to(device),
            prompt_index=prompts.to(device),
        )
        output.loss.backward()
        results.append((output.loss.item(), leaf.grad.cpu()))

    (cpu_loss, cpu_gradient), (gpu_loss, gpu_gradient) = results
    assert gpu_loss == pytest.approx(cpu_loss, abs=1e-5)
    torch.testing.assert_close(gpu_gradient, cpu_gradient, atol=1e-5, rtol=1e-4)


@pytest.fixture
def small_model(tmp_path: Path) -> Path:
    """Folder of an untaught model of two layers."""
    lessons = Lessons(hidden=64, layers=2, heads=2, mlp=128)
    torch.manual_seed(0)
    save(new_model(lessons), lessons, tmp_path / "m")
    return tmp_path / "m"


def networks_on(device: str, model: Path, **settings: object) -> Networks:
    """The policy alone, with a body in bfloat16 unless the settings say otherwise."""
    changes = {"precision.trainer": "bfloat16"} | {k.replace("__", "."): v for k, v in settings.items()}
    recipe = apply_overrides(cut_down(load_recipe("tiny/scalerl"), model), changes)
    return Networks(load_network(model, device), None, recipe)


def loss_and_gradients(networks: Networks, tokens: torch.Tensor) -> tuple[float, dict[str, torch.Tensor]]:
    """Of the mean log-probability; gradients whole, on the CPU."""
    logp, _, _ = networks(tokens, torch.ones_like(tokens[:, 1:], dtype=torch.bool))
    loss = logp.mean()
    loss.backward()
    return loss.item(), {name: whole(p.grad).cpu() for name, p in networks.named_parameters()}


def random_tokens(rows: int = 8, length: int = 16) -> torch.Tensor:
    return torch.randint(4, 14, (rows, length), generator=torch.Generator().manual_seed(0))


def test_fp32_head_is_exact_under_autocast(small_model: Path) -> None:
    tokens = random_tokens()
    wanted = torch.ones_like(tokens[:, 1:], dtype=torch.bool)
    exact = networks_on("cpu", small_model, precision__trainer="float32")(tokens, wanted)[0].detach()
    errors = {}
    for head in ("float32", "bfloat16"):
        networks = networks_on(
            "cuda", small_model, precision__trainer="float32", precision__head_trainer=head
        )  # the rounding of a bfloat16 trunk would hide the head's
        logp = networks(tokens.cuda(), wanted.cuda())[0]
        assert logp.dtype == torch.float32
        errors[head] = (logp.detach().cpu() - exact).abs().max().item()

    assert errors["float32"] < errors["bfloat16"] < 0.2


@pytest.mark.parametrize("size", [1, 7])
def test_head_in_chunks_gives_the_same(small_model: Path, size: int) -> None:
    tokens = random_tokens().cuda()
    loss, gradients = loss_and_gradients(networks_on("cuda", small_model), tokens)
    cut = networks_on("cuda", small_model, trainer__head_chunk_tokens=size)
    cut_loss, cut_gradients = loss_and_gradients(cut, tokens)

    assert cut_loss == pytest.approx(loss, abs=1e-5)
    torch.testing.assert_close(cut_gradients, gradients, atol=1e-3, rtol=2e-2)


def test_recomputed_layers_give_the_same_in_less_memory(small_model: Path) -> None:
    tokens, peaks, found = random_tokens(256, 64).cuda(), [], []
    for is_lean in (False, True):
        networks = networks_on("cuda", small_model)
        if is_lean:
            recompute_layers(networks)
        torch.cuda.reset_peak_memory_stats()
        found.append(loss_and_gradients(networks, tokens))
        peaks.append(torch.cuda.max_memory_allocated())
        del networks

    assert peaks[1] < peaks[0]
    torch.testing.assert_close(found[1], found[0], atol=1e-3, rtol=2e-2)


def test_moments_on_the_host_change_no_update(small_model: Path) -> None:
    found = []
    for is_offloaded in (False, True):
        policy = networks_on("cuda", small_model).policy
        settings = Optimizer(lr=1e-3, offload_moments=is_offloaded)
        optimizer = make_optimizer(policy.parameters(), [], settings, Critic())
        for seed in (1, 2):
            torch.manual_seed(seed)
            for parameter in policy.parameters():
                parameter.grad = torch.randn_like(parameter)
            optimizer.step()
        moments = optimizer.state[next(policy.parameters())]["exp_avg_sq"]
        assert moments.is_cuda is not is_offloaded and moments.is_pinned() is is_offloaded
        found.append([parameter.detach().cpu() for parameter in policy.parameters()] + [moments.cpu()])

    torch.testing.assert_close(found[1], found[0], atol=0, rtol=0)


def test_packed_rows_give_what_padded_ones_give(small_model: Path) -> None:
    lengths = (16, 9, 12, 2, 5)
    tokens = random_tokens(5).cuda()
    wanted = torch.arange(1, 16, device="cuda") < torch.tensor(lengths, device="cuda").unsqueeze(1)
    found = []
    for is_packed in (False, True):
        networks = networks_on("cuda", small_model)
        if is_packed:
            sequences.install(networks.transformers())
        logp, _, _ = networks(tokens, wanted, lengths if is_packed else None)
        logp.sum().backward()
        found.append((logp.detach(), {name: p.grad for name, p in networks.named_parameters()}))

    torch.testing.assert_close(found[1], found[0], atol=2e-2, rtol=2e-2)


def test_sharding_over_one_gpu_changes_nothing(small_model: Path) -> None:
    tokens = random_tokens().cuda()
    plain = loss_and_gradients(networks_on("cuda", small_model, precision__trainer="float32"), tokens)
    one = Ranks(0, 1, free_address("127.0.0.1"))
    join(one, "cuda", timeout=60)
    try:
        networks = networks_on("cuda", small_model, precision__trainer="float32")
        recompute_layers(networks)
        shard(networks, Layout(Resources(), one, "cuda"))
        sharded = loss_and_gradients(networks, tokens)
    finally:
        leave()

    torch.testing.assert_close(sharded, plain, atol=1e-4, rtol=1e-2)


def test_whole_objective_agrees_with_the_cpu(toy_recipe: Recipe, toy_model: Path) -> None:
    """Critic, KL, entropy, two policies and two epochs: the same update on both devices."""
    everything = {
        "loss.type": "ppo",
        "loss.kl_coef": 0.1,
        "loss.entropy_coef": 0.01,
        "loss.epochs": 2,
        "loss.old_policy": "trainer",
        "loss.importance_cap": 2.0,
        "optimizer.lr": 1e-3,
        "optimizer.warmup_steps": 0,
    }
    metrics = []
    for gpus in (0, 1):
        recipe = apply_overrides(toy_recipe, everything | {"resources.trainer_gpus": gpus})
        trainer = Trainer(recipe.model_dump(mode="json"), str(toy_model))
        metrics.append([trainer.train_step(a_batch(seed)).metrics for seed in range(3)])

    for on_cpu, on_gpu in zip(*metrics, strict=True):
        assert on_gpu == pytest.approx(on_cpu, rel=1e-2, abs=1e-4)


def test_float16_trains_under_its_scaler(toy_recipe: Recipe, toy_model: Path) -> None:
    recipe = apply_overrides(
        toy_recipe,
        {"precision.trainer": "float16", "resources.trainer_gpus": 1, "optimizer.warmup_steps": 0},
    )
    trainer = Trainer(recipe.model_dump(mode="json"), str(toy_model))

    norms = [trainer.train_step(a_batch(seed)).metrics["grad_norm"] for seed in range(5)]

    assert all(norm > 0 for norm in norms[-2:])
