"""The trainer: one network, one optimiser, one batch a step (and, with PPO epochs, several updates on it).

Several ranks get the same calls with the same whole batch. Each passes its own share of the rows through the network;
targets, denominators, metrics and weights are those of the batch, on every rank.
"""

import random
from collections import ChainMap
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from training.advantages import RunningMoments, gae, group_advantages, has_variance, normalize_tokens
from training.checkpoint_names import in_files
from training.flops import Work
from training.losses import aggregation_weights
from training.objective import Prediction, Targets, objective, row_gaps, with_fresh_gap
from training.recipe import parse_recipe
from training.trainer import cpu_kernels, network, sequences
from training.trainer.batching import Batch, BySample, StepResult, packed_shares, shares
from training.trainer.distributed import ALONE, Ranks, choose_device, gather, join
from training.trainer.heads import check_head
from training.trainer.layout import Layout
from training.trainer.loading import Filling, is_readable, skeleton
from training.trainer.network import (
    DTYPES,
    Critic,
    Networks,
    adapter_of,
    add_adapters,
    added,
    is_adapter,
    load_network,
    whole,
)
from training.trainer.optimization import (
    clip_gradients,
    learning_rate_share,
    make_optimizer,
    make_scaler,
    set_learning_rates,
)
from training.trainer.passes import Meter, MicroBatch, evaluate, micro_batches_of
from training.trainer.state import State, begin_save, end_save, load_state
from training.transfer import Weights, pack


class Trainer:
    """Updates the policy. Plain and synchronous; `training.cluster.cluster` puts each rank into a Ray actor."""

    def __init__(
        self, recipe: dict[str, Any], model_folder: str, threads: int = 1, ranks: Ranks = ALONE
    ) -> None:
        """Load the model and, as one of many ranks, join the others. Raises RanksError, CompileError."""
        torch.set_num_threads(threads)
        self._recipe = parse_recipe(recipe)
        self._ranks = ranks
        self._device = choose_device(self._recipe.resources.trainer_gpus, ranks)
        if ranks.are_many:
            join(ranks, self._device)
        self._layout = Layout(self._recipe.resources, ranks, self._device)
        random.seed(self._recipe.seed)
        torch.manual_seed(self._recipe.seed)
        self._networks = self._load(model_folder, with_critic=self._recipe.uses_critic)
        self._reference = (
            self._load(model_folder, with_critic=False).requires_grad_(False).eval()
            if self._recipe.loss.kl_coef
            else None
        )
        self._optimizer = make_optimizer(
            [each for each in self._networks.policy.parameters() if each.requires_grad],
            self._networks.critic.parameters() if self._networks.critic is not None else [],
            self._recipe.optimizer,
            self._recipe.critic,
        )
        self._scaler = make_scaler(self._device, self._recipe.precision.trainer)
        self._moments = RunningMoments()
        self._step = 0
        self._warm_up()

    def _load(self, model_folder: str, *, with_critic: bool) -> Networks:
        """The model that the run starts from, made ready for this rank: whole, or its share of each layer."""
        settings, folder = self._recipe.trainer, Path(model_folder)
        is_by_layer = self._ranks.are_many and is_readable(folder)
        whole_on = "cpu" if self._ranks.are_many else self._device
        model = skeleton(folder) if is_by_layer else load_network(folder, whole_on)
        check_head(model)
        add_adapters(model, settings, self._device)
        critic = Critic(model, self._recipe.critic.trunk) if with_critic else None
        networks = Networks(model, critic, self._recipe, self._layout)
        self._is_packed = sequences.is_packed(self._recipe.asks_to_pack, model, self._device)
        if self._device == "cpu":
            cpu_kernels.install(networks, is_compiled=settings.compile)
        elif self._is_packed:
            sequences.install(networks.transformers())
        if settings.compile:
            network.compile_layers(networks, self._device)
        if settings.activation_checkpointing:
            network.recompute_layers(networks, settings.kept_layers)
        if self._ranks.are_many:
            fill = Filling(networks, folder, self._device) if is_by_layer else None
            network.shard(networks, self._layout, DTYPES[self._recipe.precision.trainer], fill)
        return networks

    def _warm_up(self) -> None:
        """Pay for lazy imports, compilation and first allocations now, not in the first step. Changes no weight."""
        tokens = torch.zeros(2, 4, dtype=torch.long, device=self._device)
        lengths = (4, 4) if self._is_packed else None
        logp, _, _ = self._networks(tokens, torch.ones_like(tokens[:, 1:], dtype=torch.bool), lengths)
        logp.sum().backward()
        self._networks.zero_grad(set_to_none=True)
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
        teaching = batch.of(rows)
        targets, num_forward = self._targets(teaching)
        epochs = self._recipe.loss.epochs
        gaps: dict[int, float] = {}
        for _ in range(epochs):
            found, of_rows = self._accumulate(teaching, targets)
            gaps = gaps or of_rows
            metrics |= found
            metrics |= self._update()
            targets = replace(targets, fresh=None)  # the weights are no longer those that chose them
        trained, work = int(teaching.mask.sum()), Work.of(teaching.lengths)
        by_sample = _by_sample(len(batch), rows, targets, gaps)
        return StepResult(metrics, epochs * trained, work * epochs, work * num_forward, by_sample)

    def _teaching_rows(self, batch: Batch) -> np.ndarray:
        """Rows in the loss. Dropped ones leave every denominator, and the advantages' moments."""
        if self._recipe.filter.zero_variance == "keep":
            return np.arange(len(batch))
        keep = has_variance(torch.tensor(batch.rewards), torch.tensor(batch.prompt_index))
        return keep.nonzero().flatten().numpy()

    def _targets(self, batch: Batch) -> tuple[Targets, int]:
        """(what the rows are trained towards, forward passes that this took)."""
        mask, prompt_index = torch.from_numpy(batch.mask), torch.from_numpy(batch.prompt_index)
        rewards = torch.from_numpy(batch.rewards)
        before, num_forward = self._look_back(batch)
        returns = None
        if "old_values" not in before:
            norm = self._recipe.advantage.norm
            advantages = group_advantages(rewards, prompt_index, norm=norm, running=self._moments)
        else:
            critic, norm = self._recipe.critic, self._recipe.advantage.norm
            advantages, returns = gae(rewards, before["old_values"], mask, gamma=critic.gamma, lam=critic.lam)
            advantages = normalize_tokens(advantages, mask, norm=norm, running=self._moments)
        targets = Targets(
            mask=mask,
            behaviour_logp=torch.from_numpy(batch.behaviour_logp),
            prompt_index=prompt_index,
            weights=aggregation_weights(self._recipe.loss.aggregation, mask=mask, prompt_index=prompt_index),
            advantages=advantages,
            returns=returns,
            fresh=torch.from_numpy(batch.fresh),
            **before,
        )
        return targets, num_forward

    def _look_back(self, batch: Batch) -> tuple[dict[str, Tensor], int]:
        """(what must be known from before the step, [N, L - 1] each; forward passes over the batch)."""
        loss, has_critic = self._recipe.loss, self._networks.critic is not None
        wants_old = loss.old_policy == "trainer" and loss.epochs > 1
        found: dict[str, Tensor] = {}
        if wants_old or has_critic:
            said = self._say(self._networks, batch, batch.mask)
            found |= {"old_logp": said[0]} if wants_old else {}
            found |= {"old_values": said[2]} if has_critic else {}
        if self._reference is not None:
            found["reference_logp"] = self._say(self._reference, batch, batch.mask)[0]
        return found, int(wants_old or has_critic) + int(self._reference is not None)

    def _accumulate(self, batch: Batch, targets: Targets) -> tuple[dict[str, float], dict[int, float]]:
        """Gradients of the batch, micro-batch by micro-batch: (metrics, row -> its mean gap of log-probabilities).
        Denominators are those of the whole batch."""
        self._optimizer.zero_grad(set_to_none=True)
        meter, gaps = Meter(), dict[int, float]()
        for part in self._share(batch, batch.mask):
            logp, entropy, values = map(part.of_rows, self._networks(*part.inputs))
            said = Prediction(logp, entropy, values)
            own = targets.of(part.rows, part.width, self._device)
            loss, metrics = objective(self._recipe, said, own)
            self._scaler.scale(loss).backward()
            meter.add(loss.item(), metrics, int(own.mask.sum()) if self._layout.speaks else 0)
            if self._layout.speaks:
                gaps |= zip(part.rows.tolist(), row_gaps(said, own), strict=True)
        meters, of_rows = zip(*gather((meter, gaps)), strict=True)
        return with_fresh_gap(Meter.together(meters).result()), dict(ChainMap(*of_rows))

    def _update(self) -> dict[str, float]:
        """Learning rate, clip, step. The gradient norm is the one before the clip."""
        settings = self._recipe.optimizer
        share = learning_rate_share(self._step, settings)
        set_learning_rates(self._optimizer, share, settings.lr, self._recipe.critic.lr)
        self._scaler.unscale_(self._optimizer)
        norm = clip_gradients(self._optimizer, settings.max_grad_norm)
        # float16 overflows now and then: its scaler leaves the update out and tries a smaller scale next time.
        if not np.isfinite(norm) and not self._scaler.is_enabled():
            raise ValueError(f"the gradient norm of step {self._step} is not finite")
        self._scaler.step(self._optimizer)
        self._scaler.update()
        if not np.isfinite(norm):
            return {"grad_norm": 0.0, "skipped_updates": 1.0}
        return {"grad_norm": norm, "learning_rate": share * settings.lr}

    # -- what the networks say -------------------------------------------------------------------------------

    def _share(self, batch: Batch, wanted: np.ndarray) -> Iterator[MicroBatch]:
        """This rank's micro-batches; every rank has as many."""
        most, count = self._recipe.row_group_tokens, self._layout.count
        if self._is_packed:
            even = 12 * self._networks.policy.config.get_text_config().hidden_size
            parts = packed_shares(batch.lengths, most, count, even_tokens=even)
        else:
            parts = shares(batch.lengths, most, count)
        return micro_batches_of(
            parts[self._layout.index],
            batch.tokens,
            batch.lengths,
            wanted,
            device=self._device,
            is_packed=self._is_packed,
        )

    def _say(self, networks: Networks, batch: Batch, wanted: np.ndarray) -> list[Tensor]:
        """Log-probability, entropy and, with a critic, value at the wanted positions; [N, L - 1] each."""
        share, counts = self._share(batch, wanted), self._layout.speaks
        said = evaluate(networks, share, batch.mask.shape, counts=counts)
        network.release(networks)
        return said

    def logp(self, batch: Batch) -> np.ndarray:
        """Log-probability of every token of the batch, [N, L - 1] float32: for the parity check."""
        inside = np.arange(1, batch.tokens.shape[1]) < batch.lengths[:, None]
        return self._say(self._networks, batch, inside)[0].numpy()

    # -- weights and checkpoint ------------------------------------------------------------------------------

    @torch.no_grad()
    def weights(self) -> Weights | None:
        """All weights for the generator, in its precision; None on all ranks but the first, which take part."""
        if self._ranks.index == 0:
            return pack(self.named_weights())
        for _ in self.named_weights():
            pass
        return None

    @torch.no_grad()
    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """(name, whole tensor) in the generator's dtype, under the names of the checkpoint format; a tied head once.

        Every rank must go through all of them: each is gathered when it is asked for.
        """
        policy, dtype = self._networks.policy, DTYPES[self._recipe.precision.generator]
        state = policy.state_dict()
        for name, value in state.items():
            if is_adapter(name) or (name == "lm_head.weight" and policy.config.tie_word_embeddings):
                continue
            if (adapter := adapter_of(name, state)) is not None:
                yield name, added(whole(value), *map(whole, adapter)).to(dtype)
            else:
                yield from in_files(policy, name, whole(value.to(dtype))).items()

    def save(self, path: str) -> None:
        """`begin_save` and `end_save`."""
        self.begin_save(path)
        self.end_save()

    def begin_save(self, path: str) -> None:
        """Copy everything of the trainer's own that a resume needs, and begin to write the copy into a new folder;
        every rank its part. Calls that follow change nothing of it. One at a time."""
        self._saving = path, begin_save(path, self._state(), self._ranks)

    def end_save(self) -> None:
        """Wait until it is written; from any thread. Raises CheckpointError, on every rank, where one cannot write."""
        end_save(*self._saving)

    def load(self, path: str) -> int:
        """Restore what `save` wrote, by any number of ranks; returns the step.

        Raises CheckpointError where the folder is damaged, or of another model or recipe.
        """
        network.release(self._networks)
        progress = load_state(path, self._state(), self._ranks)
        self._scaler.load_state_dict(progress["scaler"])
        self._moments = RunningMoments(**progress["moments"])
        self._step = progress["step"]
        return self._step

    def _state(self) -> State:
        progress = {"step": self._step, "scaler": self._scaler.state_dict(), "moments": asdict(self._moments)}
        return State(self._networks, self._optimizer, progress)


def _by_sample(count: int, rows: np.ndarray, targets: Targets, gaps: dict[int, float]) -> BySample:
    """Of a batch of `count` samples, of which these rows were in the loss."""
    advantages, logp_gap = np.full((2, count), np.nan, np.float32)
    given = targets.advantages
    if given.dim() > 1:
        given = (given * targets.mask).sum(1) / targets.mask.sum(1).clamp(min=1)
    advantages[rows] = given.cpu().numpy()
    places = list(gaps)
    logp_gap[rows[places]] = [gaps[place] for place in places]
    return BySample(advantages, logp_gap)
