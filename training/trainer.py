"""The trainer: one network, one optimiser, one update per batch."""

import random
import resource
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save as to_safetensors
from torch import Tensor

from training.advantages import group_advantages, has_variance
from training.batching import Batch, StepResult, micro_batches
from training.losses import aggregation_weights, policy_loss
from training.network import DTYPES, load_network, sequence_logp
from training.recipe import parse_recipe
from training.schema import Optimizer


class Trainer:
    """Updates the policy. Plain and synchronous; `training.cluster` puts it into a Ray actor."""

    def __init__(self, recipe: dict[str, Any], model_folder: str, threads: int = 1) -> None:
        torch.set_num_threads(threads)
        self._recipe = parse_recipe(recipe)
        self._device = "cuda" if self._recipe.resources.trainer_gpus else "cpu"
        seed_everything(self._recipe.seed)
        self._model = load_network(Path(model_folder), self._device)
        self._optimizer = make_optimizer(self._model, self._recipe.optimizer)
        self._step = 0
        self._warm_up()

    def _warm_up(self) -> None:
        """Pay for lazy imports and first allocations now, not in the first step. Changes no weight."""
        tokens = torch.zeros(2, 4, dtype=torch.long, device=self._device)
        logp, _ = self._logp(tokens)
        logp.sum().backward()
        self._model.zero_grad(set_to_none=True)
        scratch = torch.nn.Parameter(torch.zeros(1, device=self._device))
        scratch.grad = torch.zeros_like(scratch)
        torch.optim.AdamW([scratch], fused=True).step()

    def describe(self) -> dict[str, int]:
        """Size of the network."""
        return {"parameters": sum(parameter.numel() for parameter in self._model.parameters())}

    def train_step(self, batch: Batch) -> StepResult:
        """One update on the whole batch; a batch in which nothing teaches changes nothing but the step count."""
        rows, advantages = self._teaching_rows(batch)
        metrics = {"effective_batch": float(len(rows)), "grad_norm": 0.0}
        self._step += 1
        if len(rows):
            metrics |= self._accumulate(batch, rows, advantages)
            metrics["grad_norm"] = self._update()
        return StepResult(metrics, int(batch.mask[rows].sum()), int(batch.lengths[rows].sum()))

    def _teaching_rows(self, batch: Batch) -> tuple[np.ndarray, Tensor]:
        """(rows in the loss, advantage of each row of the batch); dropped rows leave every denominator."""
        rewards, prompt_index = torch.tensor(batch.rewards), torch.tensor(batch.prompt_index)
        keep = torch.ones(len(batch), dtype=torch.bool)
        if self._recipe.filter.zero_variance == "drop":
            keep = has_variance(rewards, prompt_index)
        advantages = torch.zeros(len(batch))
        advantages[keep] = group_advantages(
            rewards[keep], prompt_index[keep], norm=self._recipe.advantage.norm
        )
        return keep.nonzero().flatten().numpy(), advantages

    def _accumulate(self, batch: Batch, rows: np.ndarray, advantages: Tensor) -> dict[str, float]:
        """Gradients of the batch, micro-batch by micro-batch. Denominators are those of the whole batch."""
        mask, prompt_index = torch.tensor(batch.mask), torch.tensor(batch.prompt_index)
        weights = torch.zeros(len(batch))
        weights[rows] = aggregation_weights(
            self._recipe.loss.aggregation, mask=mask[rows], prompt_index=prompt_index[rows]
        )
        self._optimizer.zero_grad(set_to_none=True)
        meter = _Meter()
        for chunk in micro_batches(batch.lengths[rows], self._recipe.trainer.micro_batch_tokens):
            part = rows[chunk]
            width = int(batch.lengths[part].max())
            tokens = torch.from_numpy(batch.tokens[part, :width]).to(self._device)
            part_mask = mask[part, : width - 1].to(self._device)
            logp, entropy = self._logp(tokens)
            output = policy_loss(
                self._recipe.loss,
                logp=logp,
                behaviour_logp=torch.from_numpy(batch.behaviour_logp[part, : width - 1]).to(self._device),
                advantages=advantages[part].to(self._device),
                mask=part_mask,
                prompt_index=prompt_index[part].to(self._device),
                weights=weights[part].to(self._device),
            )
            output.loss.backward()
            meter.add(
                output.loss.item(), output.metrics, entropy[part_mask].sum().item(), int(part_mask.sum())
            )
        return meter.result()

    def _update(self) -> float:
        """Warm-up, clip, step. Returns the gradient norm before the clip; ValueError where it is not finite."""
        settings = self._recipe.optimizer
        for group in self._optimizer.param_groups:
            group["lr"] = settings.lr * min(1.0, self._step / max(1, settings.warmup_steps))
        norm = torch.nn.utils.clip_grad_norm_(self._model.parameters(), settings.max_grad_norm).item()
        if not np.isfinite(norm):
            raise ValueError(f"the gradient norm of step {self._step} is not finite")
        self._optimizer.step()
        return norm

    def _logp(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        precision = self._recipe.precision
        return sequence_logp(
            self._model,
            tokens,
            head_dtype=DTYPES[precision.head_trainer],
            body_dtype=DTYPES[precision.trainer],
            temperature=self._recipe.rollout.temperature,
        )

    @torch.no_grad()
    def logp(self, batch: Batch) -> np.ndarray:
        """Log-probability of every token of the batch, [N, L - 1] float32: for the parity check."""
        return self._logp(torch.tensor(batch.tokens, device=self._device))[0].cpu().numpy()

    @torch.no_grad()
    def weights(self) -> bytes:
        """All weights as safetensors, in the generator's dtype, under the names of the checkpoint format."""
        dtype = DTYPES[self._recipe.precision.generator]
        state = self._model.state_dict()
        if self._model.config.tie_word_embeddings:
            state = {name: value for name, value in state.items() if name != "lm_head.weight"}
        return to_safetensors({name: value.to(dtype).cpu().contiguous() for name, value in state.items()})

    def save(self, path: str) -> None:
        """Everything of the trainer's own that a resume needs, in one file."""
        state = {
            "step": self._step,
            "model": self._model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "torch_rng": torch.get_rng_state(),
            "python_rng": random.getstate(),
        }
        torch.save(state, path)

    def load(self, path: str) -> int:
        """Restore what `save` wrote; returns the step."""
        state = torch.load(path, map_location=self._device, weights_only=True)
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["torch_rng"].cpu())
        random.setstate(_as_tuples(state["python_rng"]))
        self._step = state["step"]
        return self._step

    def peak_memory_mib(self) -> float:
        """Largest resident memory of this process so far, MiB."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class _Meter:
    """Adds up the metrics of micro-batches: extremes by extreme, shares by their tokens."""

    def __init__(self) -> None:
        self._loss = self._entropy = 0.0
        self._tokens = 0
        self._ratio_max, self._ratio_min = 0.0, float("inf")
        self._sums = {"ratio_clip_fraction": 0.0, "kl": 0.0}

    def add(self, loss: float, metrics: dict[str, float], entropy_sum: float, tokens: int) -> None:
        """One micro-batch."""
        if not tokens:
            return
        self._loss += loss
        self._entropy += entropy_sum
        self._tokens += tokens
        self._ratio_max = max(self._ratio_max, metrics["ratio_max"])
        self._ratio_min = min(self._ratio_min, metrics["ratio_min"])
        for name in self._sums:
            self._sums[name] += metrics[name] * tokens

    def result(self) -> dict[str, float]:
        """Metrics of the batch."""
        if not self._tokens:
            return {}
        means = {name: total / self._tokens for name, total in self._sums.items()}
        return {
            "loss": self._loss,
            "entropy": self._entropy / self._tokens,
            "ratio_max": self._ratio_max,
            "ratio_min": self._ratio_min,
            **means,
        }


def make_optimizer(model: torch.nn.Module, settings: Optimizer) -> torch.optim.AdamW:
    """AdamW as the recipe says (paper: eps 1e-15, weight decay 0.01)."""
    return torch.optim.AdamW(
        model.parameters(),
        lr=settings.lr,
        betas=settings.betas,
        eps=settings.eps,
        weight_decay=settings.weight_decay,
        fused=True,
    )


def seed_everything(seed: int) -> None:
    """Python's and torch's generators."""
    random.seed(seed)
    torch.manual_seed(seed)


def _as_tuples(state: Any) -> Any:
    return tuple(_as_tuples(part) for part in state) if isinstance(state, list | tuple) else state
