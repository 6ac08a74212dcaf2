"""The trainer: one network, one optimiser, one batch a step (and, with PPO epochs, several updates on it)."""

import random
import resource
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from training.advantages import RunningMoments, gae, group_advantages, has_variance, normalize_tokens
from training.batching import Batch, StepResult, micro_batches
from training.checkpoints import CheckpointError
from training.critic import Critic
from training.flops import Work
from training.losses import aggregation_weights
from training.meter import Meter
from training.network import (
    DTYPES,
    head_logits,
    hidden_states,
    load_network,
    logp_and_entropy,
    sequence_logp,
)
from training.objective import Prediction, Targets, objective
from training.optimization import learning_rate_share, make_optimizer, make_scaler, set_learning_rates
from training.recipe import parse_recipe
from training.transfer import Weights, pack


class Trainer:
    """Updates the policy. Plain and synchronous; `training.cluster` puts it into a Ray actor."""

    def __init__(self, recipe: dict[str, Any], model_folder: str, threads: int = 1) -> None:
        torch.set_num_threads(threads)
        self._recipe = parse_recipe(recipe)
        self._device = "cuda" if self._recipe.resources.trainer_gpus else "cpu"
        seed_everything(self._recipe.seed)
        self._model = load_network(Path(model_folder), self._device)
        self._critic = Critic(self._model, self._recipe.critic.trunk) if self._recipe.uses_critic else None
        self._reference = self._frozen_copy(model_folder) if self._recipe.loss.kl_coef else None
        self._optimizer = make_optimizer(
            self._model.parameters(),
            self._critic.parameters() if self._critic else [],
            self._recipe.optimizer,
            self._recipe.critic,
        )
        self._scaler = make_scaler(self._device, self._recipe.precision.trainer)
        self._moments = RunningMoments()
        self._step = 0
        self._warm_up()

    def _frozen_copy(self, model_folder: str) -> Any:
        """The model that the run started from, for the KL penalty; read anew, also on a resume."""
        reference: Any = load_network(Path(model_folder), self._device)
        return reference.requires_grad_(False).eval()

    def _warm_up(self) -> None:
        """Pay for lazy imports and first allocations now, not in the first step. Changes no weight."""
        tokens = torch.zeros(2, 4, dtype=torch.long, device=self._device)
        logp, _ = self._logp(tokens)
        logp.sum().backward()
        self._model.zero_grad(set_to_none=True)
        scratch = torch.nn.Parameter(torch.zeros(1, device=self._device))
        scratch.grad = torch.zeros_like(scratch)
        torch.optim.AdamW([scratch], fused=True).step()

    # -- one step --------------------------------------------------------------------------------------------

    def train_step(self, batch: Batch) -> StepResult:
        """All updates on one batch; where nothing in it teaches, only the step count changes.

        Raises ValueError where a gradient norm is not finite.
        """
        rows = self._teaching_rows(batch)
        self._step += 1
        metrics = {"effective_batch": float(len(rows)), "grad_norm": 0.0}
        if not len(rows):
            return StepResult(metrics, 0)
        targets, num_forward = self._targets(batch, rows)
        epochs = self._recipe.loss.epochs
        for _ in range(epochs):
            metrics |= self._accumulate(batch.tokens[rows], batch.lengths[rows], targets)
            metrics |= self._update()
        trained, work = int(batch.mask[rows].sum()), Work.of(batch.lengths[rows])
        return StepResult(metrics, epochs * trained, work * epochs, work * num_forward)

    def _teaching_rows(self, batch: Batch) -> np.ndarray:
        """Rows in the loss. Dropped ones leave every denominator, and the advantages' moments."""
        if self._recipe.filter.zero_variance == "keep":
            return np.arange(len(batch))
        keep = has_variance(torch.tensor(batch.rewards), torch.tensor(batch.prompt_index))
        return keep.nonzero().flatten().numpy()

    def _targets(self, batch: Batch, rows: np.ndarray) -> tuple[Targets, int]:
        """(what the rows are trained towards, forward passes that this took)."""
        mask, prompt_index = torch.from_numpy(batch.mask[rows]), torch.from_numpy(batch.prompt_index[rows])
        rewards = torch.from_numpy(batch.rewards[rows])
        before, num_forward = self._look_back(batch.tokens[rows], batch.lengths[rows])
        returns = None
        if self._critic is None:
            norm = self._recipe.advantage.norm
            advantages = group_advantages(rewards, prompt_index, norm=norm, running=self._moments)
        else:
            advantages, returns = self._token_advantages(rewards, before["old_values"], mask)
        targets = Targets(
            mask=mask,
            behaviour_logp=torch.from_numpy(batch.behaviour_logp[rows]),
            prompt_index=prompt_index,
            weights=aggregation_weights(self._recipe.loss.aggregation, mask=mask, prompt_index=prompt_index),
            advantages=advantages,
            returns=returns,
            **before,
        )
        return targets, num_forward

    def _token_advantages(self, rewards: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        critic, norm = self._recipe.critic, self._recipe.advantage.norm
        advantages, returns = gae(rewards, values, mask, gamma=critic.gamma, lam=critic.lam)
        return normalize_tokens(advantages, mask, norm=norm, running=self._moments), returns

    @torch.no_grad()
    def _look_back(self, tokens: np.ndarray, lengths: np.ndarray) -> tuple[dict[str, Tensor], int]:
        """(what must be known from before the step, [N, L - 1] each; forward passes over the batch)."""
        wants_old = self._recipe.loss.old_policy == "trainer" and self._recipe.loss.epochs > 1
        num_forward = int(wants_old or self._critic is not None) + int(self._reference is not None)
        if not num_forward:
            return {}, 0
        shape = (len(tokens), tokens.shape[1] - 1)
        names = {"old_logp": wants_old, "old_values": self._critic, "reference_logp": self._reference}
        found = {name: torch.zeros(shape) for name, wanted in names.items() if wanted}
        for rows in micro_batches(lengths, self._recipe.trainer.micro_batch_tokens):
            width = int(lengths[rows].max())
            part = torch.from_numpy(tokens[rows, :width]).to(self._device)
            for name, value in self._before(part, found).items():
                found[name][rows, : width - 1] = value.cpu()
        return found, num_forward

    def _before(self, tokens: Tensor, wanted: dict[str, Tensor]) -> dict[str, Tensor]:
        """The wanted values of some rows."""
        values: dict[str, Tensor] = {}
        if "old_logp" in wanted or "old_values" in wanted:
            said = self._predict(tokens)
            values |= {"old_logp": said.logp}
            values |= {"old_values": said.values} if said.values is not None else {}
        if self._reference is not None:
            values["reference_logp"] = self._logp(tokens, self._reference)[0]
        return {name: value for name, value in values.items() if name in wanted}

    def _accumulate(self, tokens: np.ndarray, lengths: np.ndarray, targets: Targets) -> dict[str, float]:
        """Gradients of the batch, micro-batch by micro-batch. Denominators are those of the whole batch."""
        self._optimizer.zero_grad(set_to_none=True)
        meter = Meter()
        for rows in micro_batches(lengths, self._recipe.trainer.micro_batch_tokens):
            width = int(lengths[rows].max())
            said = self._predict(torch.from_numpy(tokens[rows, :width]).to(self._device))
            part = targets.of(rows, width - 1, self._device)
            loss, metrics = objective(self._recipe, said, part)
            self._scaler.scale(loss).backward()
            meter.add(loss.item(), metrics, int(part.mask.sum()))
        return meter.result()

    def _update(self) -> dict[str, float]:
        """Learning rate, clip, step. The gradient norm is the one before the clip."""
        settings = self._recipe.optimizer
        share = learning_rate_share(self._step, settings)
        set_learning_rates(self._optimizer, share, settings.lr, self._recipe.critic.lr)
        self._scaler.unscale_(self._optimizer)
        parameters = [p for group in self._optimizer.param_groups for p in group["params"]]
        norm = torch.nn.utils.clip_grad_norm_(parameters, settings.max_grad_norm).item()
        # float16 overflows now and then: its scaler leaves the update out and tries a smaller scale next time.
        if not np.isfinite(norm) and not self._scaler.is_enabled():
            raise ValueError(f"the gradient norm of step {self._step} is not finite")
        self._scaler.step(self._optimizer)
        self._scaler.update()
        if not np.isfinite(norm):
            return {"grad_norm": 0.0, "skipped_updates": 1.0}
        return {"grad_norm": norm, "learning_rate": share * settings.lr}

    # -- forward passes --------------------------------------------------------------------------------------

    def _predict(self, tokens: Tensor) -> Prediction:
        """The policy's and the critic's forward pass over [N, L] tokens."""
        precision, loss = self._recipe.precision, self._recipe.loss
        hidden = hidden_states(self._model.get_decoder(), tokens, DTYPES[precision.trainer])
        logp, entropy = logp_and_entropy(
            head_logits(self._model, hidden, DTYPES[precision.head_trainer]),
            tokens,
            temperature=self._recipe.rollout.temperature,
            entropy_has_gradient=loss.entropy_coef > 0,
        )
        return Prediction(logp, entropy, self._critic(tokens, hidden) if self._critic else None)

    def _logp(self, tokens: Tensor, model: Any = None) -> tuple[Tensor, Tensor]:
        """(log-probability, entropy) under the policy, or under another model in the policy's precision."""
        precision = self._recipe.precision
        return sequence_logp(
            model if model is not None else self._model,
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
    def weights(self) -> Weights:
        """All weights for the generator, in its precision."""
        return pack(self.named_weights())

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """(name, tensor) in the generator's dtype, under the names of the checkpoint format; a tied head once."""
        dtype = DTYPES[self._recipe.precision.generator]
        for name, value in self._model.state_dict().items():
            if name != "lm_head.weight" or not self._model.config.tie_word_embeddings:
                yield name, value.to(dtype)

    # -- checkpoint ------------------------------------------------------------------------------------------

    def save(self, path: str) -> None:
        """Everything of the trainer's own that a resume needs, in one file."""
        state = {
            "step": self._step,
            "model": self._model.state_dict(),
            "critic": self._critic.state_dict() if self._critic else None,
            "optimizer": self._optimizer.state_dict(),
            "scaler": self._scaler.state_dict(),
            "moments": asdict(self._moments),
            "torch_rng": torch.get_rng_state(),
            "python_rng": random.getstate(),
        }
        torch.save(state, path)

    def load(self, path: str) -> int:
        """Restore what `save` wrote; returns the step.

        Raises CheckpointError where the file is damaged, or of another model or recipe.
        """
        try:
            state = torch.load(path, map_location=self._device, weights_only=True)
        except Exception as error:  # a damaged archive is reported as one of many types
            raise CheckpointError(f"{path} is damaged: {error}") from error
        try:
            self._model.load_state_dict(state["model"])
            if self._critic:
                self._critic.load_state_dict(state["critic"])
            self._optimizer.load_state_dict(state["optimizer"])
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path} is of another model or recipe: {error}") from error
        self._scaler.load_state_dict(state.get("scaler", {}))
        self._moments = RunningMoments(**state.get("moments", {}))
        torch.set_rng_state(state["torch_rng"].cpu())
        random.setstate(_as_tuples(state["python_rng"]))
        self._step = state["step"]
        return self._step

    def peak_memory_mib(self) -> float:
        """Largest resident memory of this process so far, MiB."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def seed_everything(seed: int) -> None:
    """Python's and torch's generators."""
    random.seed(seed)
    torch.manual_seed(seed)


def _as_tuples(state: Any) -> Any:
    return tuple(_as_tuples(part) for part in state) if isinstance(state, list | tuple) else state
