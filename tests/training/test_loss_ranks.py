"""Two real processes: gradients all-reduced by sum are those of one process, because the denominators are global."""

import socket
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from tests.training.objectives import ROWS, TOKENS, a_recipe, random_batch
from tests.training.ranks import in_ranks
from training.objective import Prediction, Targets, objective
from training.schema import Recipe

VOCABULARY, RANKS = 7, 2
RECIPES = {
    "cispo, prompt": a_recipe("cispo", "prompt", is_critic_wanted=False),
    "ppo with values, token": a_recipe("ppo", "token"),
}


def network(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits and value after each token of the vocabulary: a policy and a critic that both have gradients."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(VOCABULARY, VOCABULARY + 1, generator=generator, dtype=torch.float64)
    return table[:, :-1].clone().requires_grad_(), table[:, -1].clone().requires_grad_()


def gradients(recipe: Recipe, rows: Tensor) -> list[Tensor]:
    """Of the rows' share in the loss of the batch; each rank makes the same batch and takes its own rows."""
    tokens = torch.randint(VOCABULARY, (ROWS, TOKENS + 1), generator=torch.Generator().manual_seed(1))
    _, targets = random_batch(2, recipe)
    logits, values = network()
    log_probabilities = logits[tokens[rows, :-1]].log_softmax(dim=-1)
    logp = log_probabilities.gather(-1, tokens[rows, 1:].unsqueeze(-1)).squeeze(-1)
    entropy = -(log_probabilities.exp() * log_probabilities).sum(dim=-1)
    said = Prediction(logp, entropy, values[tokens[rows, :-1]] if recipe.uses_critic else None)
    part: Targets = targets.of(rows, TOKENS, "cpu")
    objective(recipe, said, part)[0].backward()
    return [leaf.grad for leaf in (logits, values) if leaf.grad is not None]


def rank_main(rank: int, port: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    reduced = {}
    for name, recipe in RECIPES.items():
        reduced[name] = gradients(recipe, torch.arange(rank * ROWS // RANKS, (rank + 1) * ROWS // RANKS))
        for gradient in reduced[name]:
            dist.all_reduce(gradient, op=dist.ReduceOp.SUM)
    torch.save(reduced, Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


@pytest.fixture(scope="module")
def all_reduced(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[Tensor]]]:
    """What each rank holds after the all-reduce, by recipe."""
    folder = tmp_path_factory.mktemp("ranks")
    in_ranks(rank_main, free_port(), str(folder), count=RANKS)
    return [torch.load(folder / f"{rank}.pt") for rank in range(RANKS)]


@pytest.mark.parametrize("name", RECIPES)
def test_two_ranks_have_the_gradients_of_one(all_reduced: list[dict[str, list[Tensor]]], name: str) -> None:
    alone = gradients(RECIPES[name], torch.arange(ROWS))

    assert len(alone) == 1 + RECIPES[name].uses_critic
    for of_rank in all_reduced:
        torch.testing.assert_close(of_rank[name], alone, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", RECIPES)
def test_no_rank_has_them_by_itself(name: str) -> None:
    alone = gradients(RECIPES[name], torch.arange(ROWS))
    half = gradients(RECIPES[name], torch.arange(ROWS // RANKS))

    assert all((whole - part).abs().max() > 1e-3 for whole, part in zip(alone, half, strict=True))
